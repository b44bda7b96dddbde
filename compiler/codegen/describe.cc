// The texts that travel with an object: the C header and the manifest.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/cuda_toolkit.h"
#include "compiler/codegen/c_names.h"
#include "compiler/codegen/compile.h"
#include "compiler/codegen/json_text.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/sum_types.h"
#include "compiler/ir/visit.h"

// runtime/kiln_launch.h as text (runtime_data.S).
extern "C" const char kiln_launch_header[];
extern "C" const char kiln_launch_header_end[];

namespace kiln::codegen {
namespace {

std::string ExtentText(const ir::Expr& extent) {
  const auto n = ir::ConstInt(extent);
  return n.has_value() ? absl::StrCat(*n) : ir::ToString(extent);
}

std::string ShapeText(const ir::Buffer& buffer) {
  return absl::StrCat("[",
                      absl::StrJoin(buffer->shape, ", ",
                                    [](std::string* out, const ir::Expr& e) {
                                      absl::StrAppend(out, ExtentText(e));
                                    }),
                      "]");
}

nlohmann::json ExtentsJson(const std::vector<ir::Expr>& extents) {
  nlohmann::json out = nlohmann::json::array();
  for (const ir::Expr& e : extents) {
    const auto n = ir::ConstInt(e);
    if (n.has_value()) {
      out.push_back(*n);
    } else {
      out.push_back(ir::ToString(e));
    }
  }
  return out;
}

bool Has(const std::vector<ir::Buffer>& buffers, const ir::Buffer& buffer) {
  return std::find(buffers.begin(), buffers.end(), buffer) != buffers.end();
}

bool IsWritten(const ir::Program& program, const ir::Param& param) {
  return param.is_output || Has(ir::BuffersWritten(program.body), param.buffer);
}

// Tensors whose old contents the kernel needs: it adds to them, or reads them and is not promised
// to write first.
bool Accumulates(const ir::Program& program, const ir::Param& param) {
  if (!param.is_output && IsWritten(program, param) &&
      Has(ir::BuffersRead(program.body), param.buffer)) {
    return true;
  }
  bool found = false;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* atomic = s.As<ir::Atomic>();
    found |= atomic != nullptr && atomic->dst.buffer == param.buffer;
    return true;
  });
  return found;
}

// The longest chain of products or terms behind one output element, over constant loops: what a
// numeric check needs to bound rounding. 1 when nothing is reduced.
int64_t ReductionLength(const ir::Stmt& s, int64_t repeated) {
  if (const auto* seq = s.As<ir::Seq>()) {
    int64_t longest = 1;
    for (const ir::Stmt& child : seq->stmts) {
      longest = std::max(longest, ReductionLength(child, repeated));
    }
    return longest;
  }
  if (const auto* loop = s.As<ir::For>()) {
    const bool ordered = loop->loop != ir::ForKind::kParallel;
    const int64_t trips = ordered ? ir::ConstInt(loop->axes[0].extent).value_or(1) : 1;
    return ReductionLength(loop->body, repeated * std::max<int64_t>(trips, 1));
  }
  if (const auto* launch = s.As<ir::Launch>()) return ReductionLength(launch->body, repeated);
  if (const auto* part = s.As<ir::OnThreads>()) return ReductionLength(part->body, repeated);
  if (const auto* loop = s.As<ir::While>()) return ReductionLength(loop->body, repeated);
  if (const auto* branch = s.As<ir::If>()) {
    const int64_t otherwise =
        branch->else_case.defined() ? ReductionLength(branch->else_case, repeated) : 1;
    return std::max(ReductionLength(branch->then_case, repeated), otherwise);
  }
  if (const auto* gemm = s.As<ir::Gemm>()) {
    const ir::Range& depth = gemm->a.ranges[gemm->a.ranges.size() - (gemm->trans_a ? 2 : 1)];
    return repeated * ir::ConstInt(depth.extent).value_or(1);
  }
  if (const auto* reduce = s.As<ir::Reduce>()) {
    return repeated * ir::ConstInt(reduce->src.ranges[reduce->dim].extent).value_or(1);
  }
  return 1;
}

// The same of a program; 0 where each call chooses how often its loops turn.
int64_t ReductionLength(const ir::Program& program) {
  bool chosen = false;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* loop = s.As<ir::For>();
    if (loop == nullptr || loop->loop == ir::ForKind::kParallel) return true;
    chosen = chosen || !ir::ConstInt(loop->axes[0].extent).has_value();
    return true;
  });
  if (chosen && !program.dims.empty()) return 0;
  return ReductionLength(program.body, 1);
}

}  // namespace

std::string CHeader(const ir::Program& program, const std::string& symbol,
                    const std::map<std::string, std::string>& dimensions) {
  std::string args, docs;
  ArgumentNames names({"launch"});
  const auto told = [](const std::string& name, const std::string& of_kernel) {
    return name == of_kernel ? name : absl::StrCat(name, " (the kernel's ", of_kernel, ")");
  };
  for (const ir::Param& p : program.params) {
    if (p.kind != ir::Param::kTensor) continue;
    const bool written = IsWritten(program, p);
    const std::string name = names.Add(p.name);
    absl::StrAppend(&args, ", ", written ? "void* " : "const void* ", name);
    absl::StrAppend(&docs, " *   ", told(name, p.name), ": ", p.buffer->dtype.ToString(), " ",
                    ShapeText(p.buffer), written ? ", written" : "",
                    p.buffer->table ? "; a table of the tensors' addresses" : "", "\n");
  }
  for (const ir::Param& p : program.params) {
    if (p.kind != ir::Param::kScalar) continue;
    const std::string name = names.Add(p.name);
    absl::StrAppend(&args, ", int64_t ", name);
    absl::StrAppend(&docs, " *   ", told(name, p.name), ": ", p.scalar.dtype().ToString(),
                    p.scalar.dtype().is_float() ? " (its bits, in the low half)" : "", "\n");
  }
  for (const ir::Expr& dim : program.dims) {
    const std::string& of_kernel = dim.As<ir::Var>()->name;
    const auto said = dimensions.find(of_kernel);
    const std::string name = names.Add(of_kernel);
    absl::StrAppend(&args, ", int64_t ", name);
    absl::StrAppend(&docs, " *   ", told(name, of_kernel), ": a run-time dimension",
                    said != dimensions.end() ? said->second : "", "\n");
  }
  const std::string guard = absl::StrCat(absl::AsciiStrToUpper(symbol), "_H_");
  return absl::StrCat(
      "/* Generated by Kiln. Link with the object or shared object that came with it. */\n",
      "#ifndef ", guard, "\n#define ", guard, "\n\n",
      absl::string_view(kiln_launch_header, kiln_launch_header_end - kiln_launch_header), "\n",
      "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n/* Tensors, row-major unless the manifest ",
      "says otherwise:\n", docs,
      " * Returns 0 or a negative kiln_error. `launch` may be null. Thread-safe. */\n", "int32_t ",
      symbol, "(const kiln_launch* launch", args, ");\n\n",
      "#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

std::string ManifestJson(const ir::Program& program, const CompileInput& input,
                         const CompileOutput& output) {
  nlohmann::json manifest;
  manifest["version"] = 1;
  manifest["name"] = output.name;
  manifest["kernel"] = program.name;
  manifest["target"] = output.target;
  manifest["config"] = input.config.values();
  manifest["arguments"] = input.arguments;
  manifest["program_digest"] = output.program_digest;
  manifest["compiler_build"] = CompilerBuild();
  manifest["reduction_length"] = ReductionLength(program);
  manifest["resources"] = {{"scratch_bytes", output.scratch_bytes},
                           {"grid_blocks", output.grid_blocks},
                           {"threads", output.threads}};
  if (output.by_driver) manifest["assembler"] = kDriverAssembles;
  if (!output.cubin.empty()) {
    manifest["resources"]["registers"] = output.registers;
    manifest["resources"]["spill_bytes"] = output.spill_bytes;
    manifest["resources"]["stack_bytes"] = output.stack_bytes;
  }
  if (!output.kernels_json.empty()) manifest.update(nlohmann::json::parse(output.kernels_json));
  const auto coarse_sums = ir::FindCoarseSums(program);
  manifest["params"] = nlohmann::json::array();
  for (const ir::Param& p : program.params) {
    nlohmann::json param = {{"name", p.name}};
    if (p.kind == ir::Param::kScalar) {
      param["kind"] = "scalar";
      param["dtype"] = p.scalar.dtype().ToString();
    } else {
      param["kind"] = "tensor";
      param["dtype"] = p.buffer->dtype.ToString();
      param["shape"] = ExtentsJson(p.buffer->shape);
      if (p.buffer->table) param["table"] = true;
      if (!p.buffer->strides.empty()) param["strides"] = ExtentsJson(p.buffer->strides);
      param["output"] = IsWritten(program, p);
      param["accumulates"] = Accumulates(program, p);
      const auto sums = coarse_sums.find(p.name);
      if (sums != coarse_sums.end() && IsWritten(program, p)) {
        param["sums"] = {{"dtype", sums->second.type.ToString()},
                         {"roundings", sums->second.roundings}};
      }
    }
    manifest["params"].push_back(param);
  }
  manifest["dims"] = nlohmann::json::array();
  for (const ir::Expr& dim : program.dims) {
    manifest["dims"].push_back(dim.As<ir::Var>()->name);
  }
  return JsonText(manifest, 2);
}

}  // namespace kiln::codegen
