#include "compiler/codegen/dispatch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"
#include "compiler/codegen/compile_steps.h"
#include "compiler/codegen/json_text.h"
#include "compiler/codegen/link.h"
#include "compiler/codegen/runtime/kiln_launch.h"
#include "compiler/ir/printer.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"

namespace kiln::codegen {
namespace {

struct Variant {
  Elaborated elaborated;
  CompileOutput output;
  llvm::Function* entry = nullptr;  // in the module of the whole
};

absl::Status CheckSteps(const DispatchInput& input) {
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("dispatch over ", input.dimension, "=",
                                                   input.low, "..", input.high, ": ", what));
  };
  if (input.low < 1 || input.high < input.low) return wrong("the range holds no size");
  if (input.steps.empty() || input.steps.front().first != input.low) {
    return wrong("the first step does not start where the range does");
  }
  std::set<int> used;
  for (size_t i = 0; i < input.steps.size(); ++i) {
    const DispatchStep& step = input.steps[i];
    if (step.variant < 0 || step.variant >= static_cast<int>(input.variants.size())) {
      return wrong(absl::StrCat("there is no variant ", step.variant));
    }
    if (step.first > input.high) return wrong("a step starts behind the range");
    if (i > 0 && step.first <= input.steps[i - 1].first) return wrong("the steps do not ascend");
    used.insert(step.variant);
  }
  if (used.size() < input.variants.size()) return wrong("a variant is in no step");
  return absl::OkStatus();
}

// Names and types of the entry's arguments, in order.
std::string EntryText(const ir::Program& program) {
  std::vector<std::string> parts;
  for (const ir::Param& p : program.params) {
    const bool tensor = p.kind == ir::Param::kTensor;
    const DType type = tensor ? p.buffer->dtype : p.scalar.dtype();
    parts.push_back(absl::StrCat(tensor ? "tensor " : "scalar ", type.ToString(), " ", p.name));
  }
  for (const ir::Expr& dim : program.dims) parts.push_back(dim.As<ir::Var>()->name);
  return absl::StrJoin(parts, ", ");
}

// Which argument of the entry is the dimension. They are: launch, tensors, scalars, dimensions.
absl::StatusOr<unsigned> ArgumentOf(const ir::Program& program, const std::string& dimension) {
  std::vector<std::string> names;
  for (size_t i = 0; i < program.dims.size(); ++i) {
    names.push_back(program.dims[i].As<ir::Var>()->name);
    if (names.back() == dimension) return static_cast<unsigned>(1 + program.params.size() + i);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("kernel ", program.name, " has no run-time dimension '", dimension, "'; it has ",
                   names.empty() ? "none" : absl::StrJoin(names, ", ")));
}

absl::StatusOr<Variant> BuildVariant(const DispatchInput& input, size_t index,
                                     const std::string& symbol, llvm::Module* whole) {
  CompileInput kernel = input.kernel;
  kernel.config = input.variants[index];
  kernel.symbol = absl::StrCat(symbol, "_variant", index);
  Variant out;
  KILN_ASSIGN_OR_RETURN(out.elaborated, ElaborateInput(kernel));
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<llvm::Module> module,
                        BuildHostModule(out.elaborated, whole->getContext(), &out.output));
  if (llvm::Linker::linkModules(*whole, std::move(module))) {
    return absl::InternalError("linking the variants of a dispatch failed");
  }
  out.entry = whole->getFunction(kernel.symbol);
  KILN_CHECK(out.entry != nullptr);
  CompileOutput& output = out.output;
  output.name = kernel.symbol;
  output.target = out.elaborated.arch.name;
  output.program_digest = ir::ProgramDigest(out.elaborated.program);
  output.manifest_json = ManifestJson(out.elaborated.program, kernel, output);
  return out;
}

//   int32 symbol(launch, A, B, int64 m) {
//     if (m < low || m > high) return KILN_ERROR_ARGUMENT;
//     if (m >= <first of the last step>) return <its variant>(launch, A, B, m);
//     ...
//     return <variant of the first step>(launch, A, B, m);
//   }
void EmitEntry(const DispatchInput& input, const std::vector<Variant>& variants,
               const std::string& symbol, unsigned argument, llvm::Module* module) {
  llvm::LLVMContext& context = module->getContext();
  auto* entry = llvm::Function::Create(variants.front().entry->getFunctionType(),
                                       llvm::Function::ExternalLinkage, symbol, *module);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "entry", entry));
  llvm::Value* size = entry->getArg(argument);
  std::vector<llvm::Value*> arguments;
  for (llvm::Argument& a : entry->args()) arguments.push_back(&a);
  const auto branch = [&](llvm::Value* condition) {
    auto* taken = llvm::BasicBlock::Create(context, "", entry);
    auto* rest = llvm::BasicBlock::Create(context, "", entry);
    b.CreateCondBr(condition, taken, rest);
    b.SetInsertPoint(taken);
    return rest;
  };
  llvm::Value* outside = b.CreateOr(b.CreateICmpSLT(size, b.getInt64(input.low)),
                                    b.CreateICmpSGT(size, b.getInt64(input.high)));
  llvm::BasicBlock* rest = branch(outside);
  b.CreateRet(b.getInt32(KILN_ERROR_ARGUMENT));
  b.SetInsertPoint(rest);
  for (size_t i = input.steps.size(); i-- > 1;) {
    const DispatchStep& step = input.steps[i];
    rest = branch(b.CreateICmpSGE(size, b.getInt64(step.first)));
    b.CreateRet(b.CreateCall(variants[step.variant].entry, arguments));
    b.SetInsertPoint(rest);
  }
  b.CreateRet(b.CreateCall(variants[input.steps.front().variant].entry, arguments));
}

// Of the variants together; bytes and digests are the caller's.
CompileOutput Joined(const std::vector<Variant>& variants) {
  CompileOutput out;
  for (const Variant& variant : variants) {
    const CompileOutput& one = variant.output;
    out.scratch_bytes = std::max(out.scratch_bytes, one.scratch_bytes);
    out.spill_bytes = std::max(out.spill_bytes, one.spill_bytes);
    out.stack_bytes = std::max(out.stack_bytes, one.stack_bytes);
    out.registers = std::max(out.registers, one.registers);
    out.threads = std::max(out.threads, one.threads);
    out.code_bytes += one.code_bytes;
  }
  return out;
}

// The coarsest sums of an output among the variants, and the most roundings (0 = not known).
void JoinSums(const nlohmann::json& one, nlohmann::json* params) {
  for (size_t i = 0; i < params->size(); ++i) {
    nlohmann::json& param = (*params)[i];
    if (!one.at(i).contains("sums")) continue;
    const nlohmann::json& own = one.at(i).at("sums");
    if (!param.contains("sums")) {
      param["sums"] = own;
      continue;
    }
    nlohmann::json& joined = param["sums"];
    const auto epsilon = [](const nlohmann::json& sums) {
      return EpsilonOf(ParseDType(sums.at("dtype").get<std::string>()).value_or(kFloat32));
    };
    const int64_t a = joined.at("roundings").get<int64_t>();
    const int64_t b = own.at("roundings").get<int64_t>();
    if (epsilon(own) > epsilon(joined)) joined["dtype"] = own.at("dtype");
    joined["roundings"] = a == 0 || b == 0 ? 0 : std::max(a, b);
  }
}

std::string Manifest(const DispatchInput& input, const std::vector<Variant>& variants,
                     const CompileOutput& whole) {
  using Json = nlohmann::json;
  Json manifest = Json::parse(variants.front().output.manifest_json);
  manifest["name"] = whole.name;
  manifest["program_digest"] = whole.program_digest;
  for (const char* own : {"config", "launches", "workspaces", "variables"}) manifest.erase(own);
  manifest["resources"] = {{"scratch_bytes", whole.scratch_bytes},
                           {"grid_blocks", whole.grid_blocks},
                           {"threads", whole.threads}};
  manifest["variants"] = Json::array();
  int64_t reduction = 1;
  bool chosen = false;  // by each call
  for (const Variant& variant : variants) {
    const Json one = Json::parse(variant.output.manifest_json);
    const int64_t own_reduction = one.at("reduction_length").get<int64_t>();
    reduction = std::max(reduction, own_reduction);
    chosen = chosen || own_reduction == 0;
    JoinSums(one.at("params"), &manifest["params"]);
    Json entry = {{"config", one.at("config")},
                  {"program_digest", one.at("program_digest")},
                  {"resources", one.at("resources")}};
    for (const char* own : {"launches", "workspaces", "variables"}) {
      if (one.contains(own)) entry[own] = one.at(own);
    }
    manifest["variants"].push_back(std::move(entry));
  }
  manifest["reduction_length"] = chosen ? 0 : reduction;
  Json steps = Json::array();
  for (size_t i = 0; i < input.steps.size(); ++i) {
    const bool last = i + 1 == input.steps.size();
    steps.push_back({{"first", input.steps[i].first},
                     {"last", last ? input.high : input.steps[i + 1].first - 1},
                     {"variant", input.steps[i].variant}});
  }
  manifest["dispatch"] = {{"dimension", input.dimension},
                          {"low", input.low},
                          {"high", input.high},
                          {"steps", std::move(steps)}};
  return JsonText(manifest, 2);
}

std::string ProgramsDigest(const DispatchInput& input, const std::vector<Variant>& variants) {
  Hasher hasher;
  hasher.UpdateField("dispatch 1");
  hasher.UpdateField(absl::StrCat(input.dimension, " ", input.low, " ", input.high));
  for (const Variant& variant : variants) hasher.UpdateField(variant.output.program_digest);
  for (const DispatchStep& step : input.steps) {
    hasher.UpdateField(absl::StrCat(step.first, " ", step.variant));
  }
  return hasher.FinishHex();
}

}  // namespace

absl::StatusOr<DispatchOutput> CompileDispatch(const DispatchInput& input) {
  KILN_RETURN_IF_ERROR(CheckSteps(input));
  CompileInput kernel = input.kernel;
  kernel.config = input.variants.front();
  KILN_ASSIGN_OR_RETURN(const Elaborated first, ElaborateInput(kernel));
  KILN_ASSIGN_OR_RETURN(const unsigned argument, ArgumentOf(first.program, input.dimension));
  llvm::LLVMContext context;
  auto module = std::make_unique<llvm::Module>(first.symbol, context);
  std::vector<Variant> variants;
  for (size_t i = 0; i < input.variants.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(Variant variant, BuildVariant(input, i, first.symbol, module.get()));
    const std::string own = EntryText(variant.elaborated.program);
    if (own != EntryText(first.program)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "config ", input.variants[i].ToString(), " makes an entry of other arguments (", own,
          ") than config ", input.variants.front().ToString(), " (", EntryText(first.program),
          "); one object cannot have both"));
    }
    variants.push_back(std::move(variant));
  }
  EmitEntry(input, variants, first.symbol, argument, module.get());

  DispatchOutput out;
  CompileOutput& whole = out.artifact;
  whole = Joined(variants);
  whole.name = first.symbol;
  whole.target = first.arch.name;
  whole.program_digest = ProgramsDigest(input, variants);
  KILN_ASSIGN_OR_RETURN(whole.object, EmitHostObject(std::move(module), first.symbol, first.arch));
  const bool gpu = first.arch.kind == target::ArchKind::kGpu;
  if (!gpu) whole.code_bytes = static_cast<int64_t>(whole.object.size());
  KILN_ASSIGN_OR_RETURN(whole.shared_object, LinkSharedObject(whole.object, first.symbol + ".so"));
  whole.header = CHeader(first.program, first.symbol,
                         {{input.dimension, absl::StrCat(", ", input.low, " to ", input.high)}});
  whole.manifest_json = Manifest(input, variants, whole);
  for (Variant& variant : variants) {
    if (!gpu) break;
    out.variants.push_back({std::move(variant.output.manifest_json),
                            std::move(variant.output.assembly), std::move(variant.output.cubin)});
  }
  return out;
}

}  // namespace kiln::codegen
