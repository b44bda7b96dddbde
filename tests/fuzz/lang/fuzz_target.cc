#include "tests/fuzz/lang/fuzz_target.h"

#include <cstdio>

#include "absl/strings/match.h"
#include "compiler/base/status.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/verify.h"
#include "compiler/lang/kernel.h"

namespace kiln::lang {
namespace {

// Small limits, so that an input that runs into one is cheap.
Limits SmallLimits() {
  Limits limits;
  limits.steps = 200'000;
  limits.ir_nodes = 50'000;
  return limits;
}

void CheckRefusal(const absl::Status& status) {
  const absl::StatusCode code = status.code();
  const bool promised = code == absl::StatusCode::kInvalidArgument ||
                        code == absl::StatusCode::kUnimplemented ||
                        code == absl::StatusCode::kResourceExhausted;
  if (!promised) {
    std::fprintf(stderr, "unexpected status: %s\n", status.ToString().c_str());
    KILN_CHECK(promised);
  }
  KILN_CHECK(!status.message().empty());
}

// Values for every parameter and size, so that elaboration gets somewhere.
Arguments Fill(const Kernel& kernel) {
  Arguments arguments;
  for (const std::string& name : kernel.consts()) arguments[name] = "64";
  for (const ParamInfo& param : kernel.params()) {
    if (param.kind == ParamInfo::kCompileTime && !param.has_default) arguments[param.name] = "16";
  }
  return arguments;
}

// The same sizes, every one left to run time.
Arguments LeftOpen(Arguments arguments) {
  for (auto& entry : arguments) entry.second = "T.dynamic";
  return arguments;
}

}  // namespace

FuzzOutcome FuzzOne(const std::string& text) {
  FuzzOutcome outcome;
  auto file = std::make_shared<SourceFile>();
  file->path = "fuzz.py";
  file->text = text;
  const Limits limits = SmallLimits();
  TargetFacts target;
  target.cores = 132;
  const auto names = Kernel::List(file);
  if (!names.ok()) {
    CheckRefusal(names.status());
    return outcome;
  }
  outcome.parsed = true;
  int tried = 0;
  for (const std::string& name : *names) {
    if (++tried > 4) break;
    const auto kernel = Kernel::Parse(file, name, limits);
    if (!kernel.ok()) {
      CheckRefusal(kernel.status());
      continue;
    }
    const Arguments arguments = Fill(*kernel);
    const auto program = Elaborate(*kernel, arguments, {}, target, limits);
    if (program.ok()) {
      ++outcome.programs;
      KILN_CHECK(ir::Verify(*program).ok());
      KILN_CHECK(ir::ToString(*program) ==
                 ir::ToString(*Elaborate(*kernel, arguments, {}, target, limits)));
    } else {
      ++outcome.refusals;
      CheckRefusal(program.status());
    }
    if (absl::StrContains(text, "luster")) {  // clusters that the hardware has
      TargetFacts clustered = target;
      clustered.cluster = 8;
      const auto kept = Elaborate(*kernel, arguments, {}, clustered, limits);
      if (kept.ok()) {
        KILN_CHECK(ir::Verify(*kept).ok());
      } else {
        CheckRefusal(kept.status());
      }
    }
    const auto at_run_time = Elaborate(*kernel, LeftOpen(arguments), {}, target, limits);
    if (at_run_time.ok()) {
      KILN_CHECK(ir::Verify(*at_run_time).ok());
    } else {
      CheckRefusal(at_run_time.status());
    }
    std::vector<std::string> open;
    for (const ParamInfo& param : kernel->params()) {
      if (param.kind == ParamInfo::kCompileTime && param.has_default) open.push_back(param.name);
    }
    const auto opened = ElaborateOpen(*kernel, arguments, {}, open, target, limits);
    if (opened.ok()) {
      KILN_CHECK(opened->program.has_value() != opened->needs.has_value());
      if (opened->program) ir::ToString(opened->program->program);
    } else {
      CheckRefusal(opened.status());
    }
    const auto configs = AutotuneConfigs(*kernel, arguments, target, limits);
    if (!configs.ok()) {
      if (configs.status().code() != absl::StatusCode::kAborted) CheckRefusal(configs.status());
    }
  }
  return outcome;
}

}  // namespace kiln::lang
