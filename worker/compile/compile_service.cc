#include "worker/compile/compile_service.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/config.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"

namespace kiln::worker {
namespace {

v1::Failure FailureFrom(const absl::Status& status) {
  v1::Failure failure;
  if (absl::IsInvalidArgument(status) || absl::IsUnimplemented(status)) {
    failure.set_stage(v1::Failure::ELABORATE);
  } else if (absl::IsResourceExhausted(status)) {
    failure.set_stage(v1::Failure::RESOURCES);
  } else {
    failure.set_stage(v1::Failure::COMPILE);
  }
  // The first line says it; the whole diagnostic, with its source lines, is the evidence.
  std::string text(status.message());
  failure.set_message(text.substr(0, text.find('\n')));
  if (failure.message().size() < text.size()) failure.set_witness(std::move(text));
  return failure;
}

absl::StatusOr<codegen::CompileInput> InputFrom(const v1::CompileRequest& request) {
  codegen::CompileInput input;
  const v1::SweepInputs& inputs = request.inputs();
  KILN_ASSIGN_OR_RETURN(input.config, Config::Parse(request.config()));
  input.kernel_source = inputs.kernel_source();
  input.kernel_path = inputs.kernel_path();
  input.entry = inputs.entry();
  input.arguments.insert(inputs.arguments().begin(), inputs.arguments().end());
  input.arch_record = inputs.arch().record();
  return input;
}

}  // namespace

std::string ArtifactIndexKey(absl::string_view program_digest, absl::string_view target,
                             absl::string_view arch_record, absl::string_view compiler_build,
                             absl::string_view assembler) {
  Hasher hasher;
  hasher.UpdateField("kiln-artifact-1");
  hasher.UpdateField(program_digest);
  hasher.UpdateField(target);
  hasher.UpdateField(arch_record);
  hasher.UpdateField(compiler_build);
  hasher.UpdateField(assembler);
  return hasher.FinishHex();
}

v1::CompileResponse ServeCompile(const v1::CompileRequest& request, const std::string& build,
                                 const std::string& assembler, const CompileFunction& compile) {
  v1::CompileResponse response;
  auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<codegen::CompileInput> input = InputFrom(request);
  if (!input.ok()) {
    *response.mutable_failure() = FailureFrom(input.status());
    return response;
  }
  absl::StatusOr<codegen::CompileOutput> output = compile(*input);
  if (!output.ok()) {
    *response.mutable_failure() = FailureFrom(output.status());
    return response;
  }
  v1::Artifact* artifact = response.mutable_artifact();
  artifact->set_binary_digest(Sha256Hex(output->object));
  const bool gpu = !output->cubin.empty();
  artifact->set_index_key(ArtifactIndexKey(output->program_digest, output->target,
                                           input->arch_record, build, gpu ? assembler : ""));
  artifact->set_compiler_build(build);
  v1::Resources* resources = artifact->mutable_resources();
  resources->set_scratch_bytes(output->scratch_bytes);
  resources->set_registers(output->registers);
  resources->set_spill_bytes(output->spill_bytes);
  resources->set_code_bytes(output->code_bytes);
  resources->set_grid_blocks(output->grid_blocks);
  resources->set_threads(output->threads);

  v1::ArtifactBundle* bundle = response.mutable_bundle();
  bundle->set_name(std::move(output->name));
  bundle->set_target(std::move(output->target));
  bundle->set_object(std::move(output->object));
  bundle->set_shared_object(std::move(output->shared_object));
  bundle->set_header(std::move(output->header));
  bundle->set_manifest_json(std::move(output->manifest_json));
  bundle->set_assembly(std::move(output->assembly));
  bundle->set_cubin(std::move(output->cubin));
  std::string bytes = bundle->SerializeAsString();
  artifact->set_digest(Sha256Hex(bytes));
  artifact->set_size_bytes(static_cast<int64_t>(bytes.size()));
  std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - begin;
  artifact->set_compile_ns(elapsed.count());
  return response;
}

}  // namespace kiln::worker
