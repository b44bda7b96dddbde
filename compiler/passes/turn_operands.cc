#include "compiler/passes/turn_operands.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/shape.h"
#include "compiler/passes/build.h"
#include "compiler/passes/shared_tiles.h"
#include "compiler/passes/unroll_lanes.h"
#include "compiler/target/deal.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Region;
using ir::Scope;
using ir::Stmt;

constexpr int64_t kWarp = 32;
constexpr int64_t kSide = target::SquareDeal::kSide;

// The largest divisor of an extent up to `most`.
int64_t Part(int64_t extent, int64_t most) {
  while (extent % most != 0) --most;
  return most;
}

// The axes of a loop, one after the other.
class Axes {
 public:
  Expr Add(const char* name, int64_t extent) {
    axes_.push_back({ir::MakeVar(name), MakeInt(0), MakeInt(extent)});
    return axes_.back().var;
  }
  Stmt Around(Stmt body, std::map<std::string, std::string> notes = {}) {
    const SourceLoc loc = body->loc;
    return ir::MakeStmt<ir::For>(loc, ir::ForKind::kParallel, std::move(axes_), std::move(body),
                                 Expr(), std::move(notes));
  }

 private:
  std::vector<ir::Axis> axes_;
};

// An operand, its rows and columns, and the tile that will have them the other way round.
struct Operand {
  Operand(const Region& r, SourceLoc at) : region(r), dims(*ir::MatrixDims(r)), loc(at) {
    rows = *ir::ConstInt(region.ranges[dims.first].extent);
    columns = *ir::ConstInt(region.ranges[dims.second].extent);
    tile = ir::MakeBuffer(absl::StrCat(region.buffer->name, ".turned"), region.buffer->dtype,
                          {MakeInt(columns), MakeInt(rows)}, Scope::kShared);
  }
  Expr At(const Expr& r, const Expr& c) const {
    return ir::MakeLoad(region.buffer, RegionIndices(region, {dims.first, dims.second}, {r, c}));
  }
  Stmt Store(const Expr& c, const Expr& r, const Expr& value) const {
    return ir::MakeStmt<ir::Store>(loc, tile, std::vector<Expr>{c, r}, value);
  }

  const Region& region;
  const std::pair<int, int> dims;
  const SourceLoc loc;
  int64_t rows, columns;
  ir::Buffer tile;
};

// Element by element: a warp takes 16 columns of two rows at a time, so that neither what it reads,
// row by row, nor what it writes, swizzled, meets in more than two places of a bank.
Stmt ByElement(const Operand& x, bool rounded) {
  constexpr int64_t kColumns = 16, kRows = 2;
  const int64_t width = Part(x.columns, kColumns), height = Part(x.rows, kRows);
  Axes axes;
  const Expr pair = axes.Add("pair", x.rows / height), run = axes.Add("run", x.columns / width);
  const Expr r = pair * MakeInt(height) + axes.Add("c", height);
  const Expr c = run * MakeInt(width) + axes.Add("r", width);
  const Expr element = x.At(r, c);
  return axes.Around(x.Store(c, r, rounded ? RoundedToTf32(element) : element));
}

// The layout of a loop over the squares of a piece, and the bytes of each.
std::string LayoutOf(const target::SquareDeal& d, layout::ThreadRange threads) {
  return absl::StrCat("S[(", absl::StrJoin({d.below, d.low, d.beside, d.wide, kSide * kSide}, ","),
                      "):(", kWarp * d.beside, "@tx,", d.wide, "@tx,", kWarp, "@tx,1@tx,1)]",
                      threads.first == 0 ? "" : absl::StrCat("+", threads.first, "@tx"));
}

// Squares of bytes: words of a row in, words of what was a column out, piece by piece.
std::vector<Stmt> BySquares(const Operand& x, const target::SquareDeal& deal,
                            layout::ThreadRange threads) {
  const int64_t down = x.rows / kSide / deal.pieces_down;
  const int64_t across = x.columns / kSide / deal.pieces_across;
  const ir::Buffer squares = ir::MakeBuffer(
      absl::StrCat(x.region.buffer->name, ".squares"), x.region.buffer->dtype,
      {MakeInt(down), MakeInt(across), MakeInt(kSide), MakeInt(kSide)}, Scope::kFragment);
  // Lanes, so that words of a row are read as such.
  const std::map<std::string, std::string> notes = {{"loop_layout", LayoutOf(deal, threads)},
                                                    {kUnrollWhole, "1"}};
  const auto loop = [&](const Expr& above, const Expr& left, bool in) {
    Axes axes;
    const Expr a = axes.Add("a", down), b = axes.Add("b", across);
    const Expr outer = axes.Add(in ? "i" : "j", kSide), inner = axes.Add(in ? "j" : "i", kSide);
    const Expr i = in ? outer : inner, j = in ? inner : outer;
    const Expr r = (deal.pieces_down > 1 ? above * MakeInt(down) + a : a) * MakeInt(kSide) + i;
    const Expr c = (deal.pieces_across > 1 ? left * MakeInt(across) + b : b) * MakeInt(kSide) + j;
    const std::vector<Expr> at = {a, b, i, j};
    const Stmt move = in ? ir::MakeStmt<ir::Store>(x.loc, squares, at, x.At(r, c))
                         : x.Store(c, r, ir::MakeLoad(squares, at));
    return axes.Around(move, notes);
  };
  const Stmt pieces = SerialLoop("above", MakeInt(deal.pieces_down), x.loc, [&](const Expr& above) {
    return SerialLoop("left", MakeInt(deal.pieces_across), x.loc, [&](const Expr& left) {
      return ir::MakeSeq({loop(above, left, true), loop(above, left, false)}, x.loc);
    });
  });
  return {ir::MakeStmt<ir::Alloc>(x.loc, squares), pieces};
}

Region Turn(const Operand& x, layout::ThreadRange threads, Turned* turned) {
  turned->before.push_back(ir::MakeStmt<ir::Alloc>(x.loc, x.tile));
  turned->bytes += *ir::BytesOf(x.tile);
  const bool bytes = x.tile->dtype.bits == 8;
  const bool whole = bytes && x.region.buffer->scope == Scope::kShared;
  const auto deal = whole ? target::DealSquares(x.rows, x.columns, threads.count) : std::nullopt;
  if (!deal) {
    turned->before.push_back(ByElement(x, !bytes));
    return ir::WholeBuffer(x.tile);
  }
  for (Stmt& s : BySquares(x, *deal, threads)) turned->before.push_back(std::move(s));
  return ir::WholeBuffer(x.tile);
}

}  // namespace

Turned TurnOperands(const ir::Program& program, const ir::Gemm& gemm, layout::ThreadRange threads,
                    const target::Arch& gpu) {
  Turned turned;
  const std::optional<target::GemmQuery> query = QueryOf(program, gemm, threads);
  if (!query || gemm.sparse() || query->c_space != target::OperandSpace::kRegisters) return turned;
  const bool bytes = query->a.bits == 8 && query->b.bits == 8;
  const bool tf32 = query->tf32 && query->a == kFloat32 && query->b == kFloat32;
  if (!bytes && !tf32) return turned;
  if (ir::PassOption(program, "kiln.turn", bytes ? 1 : 0) == 0) return turned;
  // float32 in registers is multiplied from there.
  const auto turns = [&](const Region& r) { return bytes || r.buffer->scope == Scope::kShared; };
  const bool a = gemm.trans_a && turns(gemm.a), b = !gemm.trans_b && turns(gemm.b);
  if (!a && !b) return turned;
  const Region left = a ? Turn(Operand(gemm.a, gemm.loc), threads, &turned) : gemm.a;
  const Region right = b ? Turn(Operand(gemm.b, gemm.loc), threads, &turned) : gemm.b;
  const Stmt product = ir::MakeStmt<ir::Gemm>(gemm.loc, left, right, gemm.c, gemm.trans_a && !a,
                                              gemm.trans_b || b, gemm.policy, gemm.clear_accum);
  if (bytes) {
    if (target::TurnedBytes(gpu, *query)) turned.gemm = product;
    return turned;
  }
  const auto faster = QueryOf(program, *product.As<ir::Gemm>(), threads);
  const bool gains = faster && target::ChooseGemm(gpu, *faster).unit == "wgmma" &&
                     target::ChooseGemm(gpu, *query).unit != "wgmma";
  if (gains) turned.gemm = product;
  return turned;
}

}  // namespace kiln::passes
