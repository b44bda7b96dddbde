#include "tests/util/gpu_programs.h"

#include "absl/strings/str_cat.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/verify.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/pipeline.h"
#include "tests/util/thread_level.h"

namespace kiln::testing {
namespace {

absl::StatusOr<std::vector<interp::Tensor>> Interpret(
    const ir::Program& program, bool tiles, interp::Order order,
    const std::map<std::string, double>& scalars) {
  std::vector<interp::TensorView> views;
  std::vector<interp::Tensor> tensors = SmallIntegers(program, 7, &views);
  interp::Options options;
  options.clip_global = tiles;
  options.order = order;
  options.scalars = scalars;
  options.meet_at_barriers = !tiles;
  KILN_RETURN_IF_ERROR(interp::Run(program, views, options).status());
  return tensors;
}

}  // namespace

absl::StatusOr<ir::Program> Instructions(const ir::Program& program, const std::string& gpu,
                                         int cores) {
  target::Arch arch = *target::NamedArch(gpu);
  arch.cores = cores;
  return Instructions(program, arch);
}

absl::StatusOr<ir::Program> Instructions(const ir::Program& program, const target::Arch& arch) {
  passes::PassContext context;
  context.gpu = &arch;
  context.instruct = true;
  KILN_ASSIGN_OR_RETURN(const ir::Program lowered,
                        passes::RunPipeline(passes::GpuPipeline(), program, context));
  KILN_RETURN_IF_ERROR(ir::Verify(lowered));
  return lowered;
}

std::string Difference(const ir::Program& tiles, const ir::Program& instructions, double tolerance,
                       const std::map<std::string, double>& scalars) {
  const auto want = Interpret(tiles, true, interp::Order::kForward, scalars);
  if (!want.ok()) return absl::StrCat("tiles: ", want.status().message());
  for (const interp::Order order : {interp::Order::kForward, interp::Order::kReverse}) {
    const auto got = Interpret(instructions, false, order, scalars);
    if (!got.ok()) return std::string(got.status().message());
    for (size_t i = 0; i < got->size(); ++i) {
      const interp::Comparison c =
          interp::Compare((*got)[i].View(), (*want)[i].View(), {tolerance, tolerance});
      if (!c.ok()) return c.ToString((*got)[i].shape());
    }
  }
  return "";
}

bool Has(const ir::Program& program, ir::Instruction op) {
  bool has = false;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* x = s.As<ir::Instruct>();
    has |= x != nullptr && x->op == op;
    return !has;
  });
  return has;
}

}  // namespace kiln::testing
