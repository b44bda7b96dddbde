#include "compiler/passes/stage_operands.h"

#include "absl/strings/str_cat.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/stage.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"
#include "compiler/passes/shared_tiles.h"

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

// A product of tf32 whose operands in shared memory are turned, where that makes it wgmma.
struct Turned {
  std::vector<Stmt> before;  // tiles, and the loops that fill them
  Stmt gemm;                 // undefined: the product stays as it is
  int64_t bytes = 0;         // of the tiles
};

// What the cut to tf32 leaves of it is `x` rounded to the nearest, ties away from zero: half of the
// last bit that stays is added to the bits. NaN stays what it is.
ir::Expr RoundedToTf32(const ir::Expr& x) {
  constexpr int64_t kHalf = 1 << 12;
  const ir::Expr bits = ir::MakeCall(kUInt32, ir::Intrinsic::kReinterpret, {x});
  const ir::Expr more = bits + ir::MakeInt(kHalf, kUInt32);
  return ir::MakeSelect(ir::MakeCall(kBool, ir::Intrinsic::kIsNan, {x}), x,
                        ir::MakeCall(kFloat32, ir::Intrinsic::kReinterpret, {more}));
}

// The largest divisor of an extent up to `most`.
int64_t Part(int64_t extent, int64_t most) {
  while (extent % most != 0) --most;
  return most;
}

// A tile in shared memory with the rows of `region` for columns, and how it is filled: a warp takes
// 16 rows of two columns at a time, so that neither what it reads, row by row, nor what it writes,
// swizzled, meets in more than two places of a bank.
Region Turn(const Region& region, SourceLoc loc, Turned* turned) {
  constexpr int64_t kRows = 16, kColumns = 2;
  const auto dims = *ir::MatrixDims(region);
  const int64_t rows = *ir::ConstInt(region.ranges[dims.second].extent);
  const int64_t columns = *ir::ConstInt(region.ranges[dims.first].extent);
  const int64_t height = Part(rows, kRows), width = Part(columns, kColumns);
  const ir::Buffer tile =
      ir::MakeBuffer(absl::StrCat(region.buffer->name, ".turned"), region.buffer->dtype,
                     {ir::MakeInt(rows), ir::MakeInt(columns)}, Scope::kShared);
  std::vector<ir::Axis> axes;
  const auto axis = [&](const char* name, int64_t extent) {
    axes.push_back({ir::MakeVar(name), ir::MakeInt(0), ir::MakeInt(extent)});
    return axes.back().var;
  };
  const ir::Expr pair = axis("pair", columns / width), run = axis("run", rows / height);
  const ir::Expr c = pair * ir::MakeInt(width) + axis("c", width);
  const ir::Expr r = run * ir::MakeInt(height) + axis("r", height);
  const ir::Expr element =
      ir::MakeLoad(region.buffer, RegionIndices(region, {dims.first, dims.second}, {c, r}));
  const Stmt store =
      ir::MakeStmt<ir::Store>(loc, tile, std::vector<ir::Expr>{r, c}, RoundedToTf32(element));
  turned->before.push_back(ir::MakeStmt<ir::Alloc>(loc, tile));
  turned->before.push_back(
      ir::MakeStmt<ir::For>(loc, ir::ForKind::kParallel, std::move(axes), store));
  turned->bytes += *ir::BytesOf(tile);
  return ir::WholeBuffer(tile);
}

Turned TurnOperands(const ir::Program& program, const ir::Gemm& gemm, layout::ThreadRange threads,
                    const target::Arch& gpu) {
  Turned turned;
  const std::optional<target::GemmQuery> query = QueryOf(program, gemm, threads);
  const auto turns = [](const Region& r) { return r.buffer->scope == Scope::kShared; };
  const bool a = gemm.trans_a && turns(gemm.a), b = !gemm.trans_b && turns(gemm.b);
  if (gemm.sparse() || ir::PassOption(program, "kiln.turn", 0) == 0) return turned;
  if (!query || !query->tf32 || query->a != kFloat32 || query->b != kFloat32 || (!a && !b)) {
    return turned;
  }
  const Stmt product =
      ir::MakeStmt<ir::Gemm>(gemm.loc, a ? Turn(gemm.a, gemm.loc, &turned) : gemm.a,
                             b ? Turn(gemm.b, gemm.loc, &turned) : gemm.b, gemm.c,
                             gemm.trans_a && !a, gemm.trans_b || b, gemm.policy, gemm.clear_accum);
  const auto faster = QueryOf(program, *product.As<ir::Gemm>(), threads);
  const bool gains = faster && target::ChooseGemm(gpu, *faster).unit == "wgmma";
  if (gains && target::ChooseGemm(gpu, *query).unit != "wgmma") turned.gemm = product;
  return turned;
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

// How many threads a block has; 0 where that is not constant.
int64_t ThreadsOf(const ir::Launch& launch) {
  int64_t threads = 1;
  for (const ir::Expr& extent : launch.threads) threads *= ir::ConstInt(extent).value_or(0);
  return threads;
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
        Rewritten(program, launch->body, {0, ThreadsOf(*launch)}, GpuOf(context), &room),
        launch->annotations);
  });
  return out;
}

}  // namespace kiln::passes
