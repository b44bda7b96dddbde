#include "compiler/passes/stage_operands.h"

#include "compiler/ir/shape.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/stage.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"
#include "compiler/passes/shared_tiles.h"
#include "compiler/passes/turn_operands.h"

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

bool FromRegisters(const ir::Program& program, const ir::Gemm& gemm, layout::ThreadRange threads,
                   const target::Arch& gpu) {
  std::optional<target::GemmQuery> query = QueryOf(program, gemm, threads);
  if (query && gemm.sparse()) query->b_space = target::OperandSpace::kShared;  // where it will be
  return query && target::LeftFromRegisters(*query, target::ChooseGemm(gpu, *query));
}

Stmt Staged(const ir::Program& program, const ir::Gemm& gemm, layout::ThreadRange threads,
            const target::Arch& gpu, int64_t* room) {
  Turned turned = TurnOperands(program, gemm, threads, gpu);
  if (turned.gemm.defined() && turned.bytes <= *room) {
    *room -= turned.bytes;
    const Stmt staged = Staged(program, *turned.gemm.As<ir::Gemm>(), threads, gpu, room);
    turned.before.push_back(staged.defined() ? staged : turned.gemm);
    return ir::MakeStmt<ir::Seq>(gemm.loc, std::move(turned.before));
  }
  const bool a_there =
      gemm.a.buffer->scope != Scope::kFragment || FromRegisters(program, gemm, threads, gpu);
  const bool b_there = gemm.b.buffer->scope != Scope::kFragment;
  const bool c_there = gemm.c.buffer->scope != Scope::kShared;
  if (a_there && b_there && c_there) return {};
  ir::Stage stage(gemm.loc);
  const Region a = a_there ? gemm.a : stage.Through(gemm.a, Scope::kShared, true, false);
  const Region b = b_there ? gemm.b : stage.Through(gemm.b, Scope::kShared, true, false);
  const bool reads_c = !ir::IsConst(gemm.clear_accum, 1);
  const Region c = c_there ? gemm.c : stage.Through(gemm.c, Scope::kFragment, reads_c, true);
  return std::move(stage).Around(ir::MakeStmt<ir::Gemm>(gemm.loc, a, b, c, gemm.trans_a,
                                                        gemm.trans_b, gemm.policy, gemm.clear_accum,
                                                        gemm.e, gemm.trans_e));
}

// The tile operations of `s`, which `threads` of a block do; so many bytes of shared memory are
// left.
Stmt Rewritten(const ir::Program& program, const Stmt& s, layout::ThreadRange threads,
               const target::Arch& gpu, int64_t* room) {
  return ir::RewriteStmts(s, [&](const Stmt& x) -> Stmt {
    if (const auto* reduce = x.As<ir::Reduce>()) return Staged(*reduce);
    if (const auto* gemm = x.As<ir::Gemm>()) return Staged(program, *gemm, threads, gpu, room);
    if (const auto* part = x.As<ir::OnThreads>()) {
      return ir::MakeStmt<ir::OnThreads>(
          part->loc, part->first, part->count,
          Rewritten(program, part->body, {part->first, part->count}, gpu, room));
    }
    return {};
  });
}

// What is left of a block's shared memory when each tile of a launch has bytes of its own.
int64_t RoomOf(const ir::Launch& launch, const target::Arch& gpu) {
  int64_t room = gpu.smem_block;
  ir::Walk(launch.body, [&](const Stmt& s) {
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc == nullptr) return true;
    const ir::Buffer& b = alloc->buffer;
    if (b->scope != Scope::kShared && b->scope != Scope::kBarrier) return true;
    const int64_t align = ir::SharedAlignment(*b);
    room -= (ir::BytesOf(b).value_or(room) + align - 1) / align * align;
    return true;
  });
  return room;
}

}  // namespace

int64_t StagedOperandBytes(const ir::Program& program, const Stmt& s, layout::ThreadRange threads,
                           const target::Arch& gpu) {
  int64_t bytes = 0;
  ir::Walk(s, [&](const Stmt& x) {
    const auto* gemm = x.As<ir::Gemm>();
    if (gemm != nullptr) {
      const Turned turned = TurnOperands(program, *gemm, threads, gpu);
      if (turned.gemm.defined()) bytes += turned.bytes;
    }
    const bool staged = gemm != nullptr && gemm->a.buffer->scope == Scope::kFragment &&
                        !FromRegisters(program, *gemm, threads, gpu);
    if (!staged) return true;
    int64_t tile = gemm->a.buffer->dtype.bytes();
    for (const ir::Range& range : gemm->a.ranges) tile *= ir::ConstInt(range.extent).value_or(1);
    bytes += tile;
    return true;
  });
  return bytes;
}

absl::StatusOr<ir::Program> StageOperands(const ir::Program& program, const PassContext& context) {
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr) return {};
    int64_t room = RoomOf(*launch, GpuOf(context));
    return ir::MakeStmt<ir::Launch>(
        launch->loc, launch->grid, launch->threads,
        Rewritten(program, launch->body, {0, ir::ThreadsOf(*launch).value_or(0)}, GpuOf(context),
                  &room),
        launch->annotations);
  });
  return out;
}

}  // namespace kiln::passes
