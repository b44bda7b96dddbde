#include "compiler/passes/stage_operands.h"

#include "compiler/ir/stage.h"
#include "compiler/ir/visit.h"

namespace kiln::passes {
namespace {

using ir::Region;
using ir::Scope;
using ir::Stmt;

Stmt Staged(const ir::Reduce& reduce) {
  const auto held = [](const Region& r) { return r.buffer->scope != Scope::kShared; };
  if (held(reduce.src) && held(reduce.dst)) return {};
  ir::Stage stage(reduce.loc);
  const auto hold = [&](const Region& r, bool reads, bool writes) {
    return held(r) ? r : stage.Through(r, Scope::kFragment, reads, writes);
  };
  const Region src = hold(reduce.src, true, false);
  const Region dst = hold(reduce.dst, !reduce.clear, true);
  return std::move(stage).Around(
      ir::MakeStmt<ir::Reduce>(reduce.loc, reduce.op, src, dst, reduce.dim, reduce.clear));
}

// Whether some instruction of the GPU multiplies the left operand from registers: tensor memory and
// vector units take it from shared memory.
bool FromRegisters(const ir::Gemm& gemm, const target::Arch& gpu) {
  return !gemm.trans_a && gemm.a.buffer->dtype.bits <= 16 && gpu.tmem_sm == 0;
}

Stmt Staged(const ir::Gemm& gemm, const target::Arch& gpu) {
  const bool a_there = gemm.a.buffer->scope != Scope::kFragment || FromRegisters(gemm, gpu);
  const bool b_there = gemm.b.buffer->scope != Scope::kFragment;
  const bool c_there = gemm.c.buffer->scope != Scope::kShared;
  if (a_there && b_there && c_there) return {};
  ir::Stage stage(gemm.loc);
  const Region a = a_there ? gemm.a : stage.Through(gemm.a, Scope::kShared, true, false);
  const Region b = b_there ? gemm.b : stage.Through(gemm.b, Scope::kShared, true, false);
  const bool reads_c = !ir::IsConst(gemm.clear_accum, 1);
  const Region c = c_there ? gemm.c : stage.Through(gemm.c, Scope::kFragment, reads_c, true);
  return std::move(stage).Around(ir::MakeStmt<ir::Gemm>(
      gemm.loc, a, b, c, gemm.trans_a, gemm.trans_b, gemm.policy, gemm.clear_accum));
}

}  // namespace

absl::StatusOr<ir::Program> StageOperands(const ir::Program& program, const PassContext& context) {
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    if (const auto* reduce = s.As<ir::Reduce>()) return Staged(*reduce);
    if (const auto* gemm = s.As<ir::Gemm>()) return Staged(*gemm, GpuOf(context));
    return {};
  });
  return out;
}

}  // namespace kiln::passes
