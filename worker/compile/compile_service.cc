#include "worker/compile/compile_service.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/config.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"
#include "proto/dispatch.h"

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
  if (request.config() != kDispatchConfig) {
    KILN_ASSIGN_OR_RETURN(input.config, Config::Parse(request.config()));
  }
  input.kernel_source = inputs.kernel_source();
  input.kernel_path = inputs.kernel_path();
  input.entry = inputs.entry();
  input.arguments.insert(inputs.arguments().begin(), inputs.arguments().end());
  input.arch_record = inputs.arch().record();
  return input;
}

absl::StatusOr<codegen::DispatchOutput> CompileAll(const v1::Dispatch& dispatch,
                                                   codegen::CompileInput kernel,
                                                   const DispatchFunction& compile) {
  codegen::DispatchInput input;
  input.kernel = std::move(kernel);
  input.dimension = dispatch.dimension();
  input.low = dispatch.low();
  input.high = dispatch.high();
  for (const std::string& text : dispatch.variants()) {
    KILN_ASSIGN_OR_RETURN(Config config, Config::Parse(text));
    input.variants.push_back(std::move(config));
  }
  for (const v1::DispatchStep& step : dispatch.steps()) {
    input.steps.push_back({step.first(), step.variant()});
  }
  return compile(input);
}

// The artifact, and what the bundle of a dispatch has besides.
absl::StatusOr<codegen::DispatchOutput> CompileAny(const v1::CompileRequest& request,
                                                   const codegen::CompileInput& input,
                                                   const CompileFunction& compile,
                                                   const DispatchFunction& dispatch) {
  if (request.config() == kDispatchConfig && dispatch) {
    return CompileAll(request.inputs().dispatch(), input, dispatch);
  }
  codegen::DispatchOutput out;
  KILN_ASSIGN_OR_RETURN(out.artifact, compile(input));
  return out;
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
                                 const std::string& assembler, const CompileFunction& compile,
                                 const DispatchFunction& dispatch) {
  v1::CompileResponse response;
  auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<codegen::CompileInput> input = InputFrom(request);
  if (!input.ok()) {
    *response.mutable_failure() = FailureFrom(input.status());
    return response;
  }
  absl::StatusOr<codegen::DispatchOutput> compiled = CompileAny(request, *input, compile, dispatch);
  if (!compiled.ok()) {
    *response.mutable_failure() = FailureFrom(compiled.status());
    return response;
  }
  codegen::CompileOutput* const output = &compiled->artifact;
  v1::Artifact* artifact = response.mutable_artifact();
  artifact->set_binary_digest(Sha256Hex(output->object));
  const bool gpu = !output->kernels_json.empty() || !compiled->variants.empty();
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
  for (codegen::VariantOutput& variant : compiled->variants) {
    v1::ArtifactBundle* part = bundle->add_variants();
    part->set_name(bundle->name());
    part->set_target(bundle->target());
    part->set_manifest_json(std::move(variant.manifest_json));
    part->set_assembly(std::move(variant.assembly));
    part->set_cubin(std::move(variant.cubin));
  }
  std::string bytes = bundle->SerializeAsString();
  artifact->set_digest(Sha256Hex(bytes));
  artifact->set_size_bytes(static_cast<int64_t>(bytes.size()));
  std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - begin;
  artifact->set_compile_ns(elapsed.count());
  return response;
}

}  // namespace kiln::worker
