#include "tests/util/tile_programs.h"

namespace kiln::testing {

using ir::Axis;
using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

namespace {

ir::Buffer Tensor(const char* name, DType dtype, std::vector<int64_t> shape,
                  ir::Scope scope = ir::Scope::kGlobal) {
  std::vector<Expr> extents;
  for (const int64_t n : shape) extents.push_back(MakeInt(n));
  return ir::MakeBuffer(name, dtype, extents, scope);
}

ir::Param TensorParam(const ir::Buffer& buffer, bool output = false) {
  ir::Param param;
  param.name = buffer->name;
  param.buffer = buffer;
  param.is_output = output;
  return param;
}

ir::Region Tile(const ir::Buffer& buffer, std::vector<Expr> mins, std::vector<int64_t> extents) {
  ir::Region region{buffer, {}};
  for (size_t d = 0; d < mins.size(); ++d) region.ranges.push_back({mins[d], MakeInt(extents[d])});
  return region;
}

Stmt Loop(const Expr& var, const Expr& extent, const Stmt& body, ir::ForKind kind) {
  return ir::MakeStmt<ir::For>(SourceLoc{}, kind, std::vector<Axis>{{var, MakeInt(0), extent}},
                               body, kind == ir::ForKind::kPipelined ? MakeInt(2) : Expr());
}

ir::Program Kernel(const char* name, std::vector<ir::Param> params, std::vector<Axis> grid,
                   std::vector<Stmt> body) {
  ir::Program program;
  program.name = name;
  program.params = std::move(params);
  program.body = ir::MakeStmt<ir::Launch>(
      SourceLoc{}, std::move(grid), std::vector<Expr>{MakeInt(128)}, ir::MakeSeq(std::move(body)));
  return program;
}

Stmt AllocOf(const ir::Buffer& b) { return ir::MakeStmt<ir::Alloc>(SourceLoc{}, b); }
Stmt CopyOf(const ir::Region& from, const ir::Region& to) {
  return ir::MakeStmt<ir::Copy>(SourceLoc{}, from, to);
}
Stmt ParallelStore(const ir::Buffer& to, std::vector<int64_t> extents,
                   const std::function<Expr(const std::vector<Expr>&)>& value) {
  std::vector<Axis> axes;
  std::vector<Expr> vars;
  for (const int64_t n : extents) {
    vars.push_back(ir::MakeVar("i"));
    axes.push_back({vars.back(), MakeInt(0), MakeInt(n)});
  }
  return ir::MakeStmt<ir::For>(SourceLoc{}, ir::ForKind::kParallel, axes,
                               ir::MakeStmt<ir::Store>(SourceLoc{}, to, vars, value(vars)));
}

}  // namespace

ir::Program MatmulProgram(const MatmulShape& s) {
  const auto order = [](bool swapped, int64_t a, int64_t b) {
    return swapped ? std::vector<int64_t>{b, a} : std::vector<int64_t>{a, b};
  };
  const auto at = [](bool swapped, const Expr& a, const Expr& b) {
    return swapped ? std::vector<Expr>{b, a} : std::vector<Expr>{a, b};
  };
  const ir::Buffer a = Tensor("A", s.dtype, order(s.trans_a, s.m, s.k));
  const ir::Buffer b = Tensor("B", s.dtype, order(s.trans_b, s.k, s.n));
  const ir::Buffer c = Tensor("C", s.dtype, {s.m, s.n});
  const ir::Buffer a_tile =
      Tensor("A_shared", s.dtype, order(s.trans_a, s.block_m, s.block_k), ir::Scope::kShared);
  const ir::Buffer b_tile =
      Tensor("B_shared", s.dtype, order(s.trans_b, s.block_k, s.block_n), ir::Scope::kShared);
  const ir::Buffer acc = Tensor("C_local", s.accum, {s.block_m, s.block_n}, ir::Scope::kFragment);
  const Expr bx = ir::MakeVar("bx"), by = ir::MakeVar("by"), k = ir::MakeVar("k");
  const Expr row = by * MakeInt(s.block_m), column = bx * MakeInt(s.block_n);
  const Expr depth = k * MakeInt(s.block_k);
  const Stmt step = ir::MakeSeq(
      {CopyOf(Tile(a, at(s.trans_a, row, depth), order(s.trans_a, s.block_m, s.block_k)),
              ir::WholeBuffer(a_tile)),
       CopyOf(Tile(b, at(s.trans_b, depth, column), order(s.trans_b, s.block_k, s.block_n)),
              ir::WholeBuffer(b_tile)),
       ir::MakeStmt<ir::Gemm>(SourceLoc{}, ir::WholeBuffer(a_tile), ir::WholeBuffer(b_tile),
                              ir::WholeBuffer(acc), s.trans_a, s.trans_b, ir::GemmPolicy::kSquare,
                              ir::MakeBool(false))});
  const auto blocks = [](int64_t n, int64_t block) { return MakeInt((n + block - 1) / block); };
  return Kernel(
      "matmul", {TensorParam(a), TensorParam(b), TensorParam(c, true)},
      {{bx, MakeInt(0), blocks(s.n, s.block_n)}, {by, MakeInt(0), blocks(s.m, s.block_m)}},
      {AllocOf(a_tile), AllocOf(b_tile), AllocOf(acc),
       ir::MakeStmt<ir::Fill>(SourceLoc{}, ir::WholeBuffer(acc), ir::MakeConst(0, s.accum)),
       Loop(k, blocks(s.k, s.block_k), step, ir::ForKind::kPipelined),
       CopyOf(ir::WholeBuffer(acc), Tile(c, {row, column}, {s.block_m, s.block_n}))});
}

ir::Program SoftmaxProgram(int64_t m, int64_t n, int64_t rows, DType dtype) {
  const ir::Buffer x = Tensor("x", dtype, {m, n});
  const ir::Buffer out = Tensor("out", dtype, {m, n});
  const ir::Buffer tile = Tensor("tile", kFloat32, {rows, n}, ir::Scope::kFragment);
  const ir::Buffer top = Tensor("top", kFloat32, {rows}, ir::Scope::kFragment);
  const ir::Buffer sum = Tensor("sum", kFloat32, {rows}, ir::Scope::kFragment);
  const Expr bx = ir::MakeVar("bx");
  const Expr row = bx * MakeInt(rows);
  const auto reduce = [&](ir::ReduceOp op, const ir::Buffer& to) {
    return ir::MakeStmt<ir::Reduce>(SourceLoc{}, op, ir::WholeBuffer(tile), ir::WholeBuffer(to), 1,
                                    true);
  };
  return Kernel("softmax", {TensorParam(x), TensorParam(out, true)},
                {{bx, MakeInt(0), MakeInt((m + rows - 1) / rows)}},
                {AllocOf(tile), AllocOf(top), AllocOf(sum),
                 CopyOf(Tile(x, {row, MakeInt(0)}, {rows, n}), ir::WholeBuffer(tile)),
                 reduce(ir::ReduceOp::kMax, top),
                 ParallelStore(tile, {rows, n},
                               [&](const std::vector<Expr>& i) {
                                 return ir::MakeCall(
                                     kFloat32, ir::Intrinsic::kExp,
                                     {ir::MakeLoad(tile, i) - ir::MakeLoad(top, {i[0]})});
                               }),
                 reduce(ir::ReduceOp::kSum, sum),
                 ParallelStore(tile, {rows, n},
                               [&](const std::vector<Expr>& i) {
                                 return ir::MakeBinary(ir::BinaryOp::kDiv, ir::MakeLoad(tile, i),
                                                       ir::MakeLoad(sum, {i[0]}));
                               }),
                 CopyOf(ir::WholeBuffer(tile), Tile(out, {row, MakeInt(0)}, {rows, n}))});
}

ir::Program ReduceProgram(int64_t m, int64_t n, int64_t block_m, int64_t block_n, ir::ReduceOp op,
                          int dim) {
  const bool rows = dim == 1;
  const ir::Buffer x =
      Tensor("x", kFloat32, rows ? std::vector<int64_t>{m, n} : std::vector<int64_t>{n, m});
  const ir::Buffer out = Tensor("out", kFloat32, {m});
  const ir::Buffer tile =
      Tensor("tile", kFloat32,
             rows ? std::vector<int64_t>{block_m, block_n} : std::vector<int64_t>{block_n, block_m},
             ir::Scope::kFragment);
  const ir::Buffer acc = Tensor("acc", kFloat32, {block_m}, ir::Scope::kFragment);
  const Expr bx = ir::MakeVar("bx"), k = ir::MakeVar("k");
  const Expr kept = bx * MakeInt(block_m), reduced = k * MakeInt(block_n);
  const ir::Region from = rows ? Tile(x, {kept, reduced}, {block_m, block_n})
                               : Tile(x, {reduced, kept}, {block_n, block_m});
  const Stmt step = ir::MakeSeq({CopyOf(from, ir::WholeBuffer(tile)),
                                 ir::MakeStmt<ir::Reduce>(SourceLoc{}, op, ir::WholeBuffer(tile),
                                                          ir::WholeBuffer(acc), dim, false)});
  return Kernel("reduce", {TensorParam(x), TensorParam(out, true)},
                {{bx, MakeInt(0), MakeInt((m + block_m - 1) / block_m)}},
                {AllocOf(tile), AllocOf(acc),
                 ir::MakeStmt<ir::Fill>(SourceLoc{}, ir::WholeBuffer(acc), ir::MakeFloat(0)),
                 Loop(k, MakeInt((n + block_n - 1) / block_n), step, ir::ForKind::kSerial),
                 CopyOf(ir::WholeBuffer(acc), Tile(out, {kept}, {block_m}))});
}

}  // namespace kiln::testing
