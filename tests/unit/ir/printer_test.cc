#include "compiler/ir/printer.h"

#include <gtest/gtest.h>

#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

Program Sample(const std::string& loop_name, const std::string& tile_name, int line,
               const std::string& layout_of = "") {
  Program p;
  p.name = "scale";
  const Expr n = MakeVar("n");
  const Buffer x = MakeBuffer("x", kFloat32, {n, Expr(64)}, Scope::kGlobal);
  const Buffer y = MakeBuffer("y", kFloat16, {n, Expr(64)}, Scope::kGlobal);
  p.params = {{Param::kTensor, "x", x, {}, false}, {Param::kTensor, "y", y, {}, true}};
  p.dims = {n};
  const Expr b = MakeVar("bx"), i = MakeVar(loop_name), j = MakeVar("j");
  const Buffer tile = MakeBuffer(tile_name, kFloat32, {Expr(8), Expr(64)}, Scope::kShared);
  const SourceLoc loc{line, 3, 9};
  const Region rows{x, {{b * Expr(8), Expr(8)}, {Expr(0), Expr(64)}}};
  const Stmt store = MakeStmt<Store>(loc, y, std::vector<Expr>{b * Expr(8) + i, j},
                                     MakeCast(kFloat16, MakeLoad(tile, {i, j}) * MakeFloat(0.1)));
  const Stmt loop =
      MakeStmt<For>(loc, ForKind::kParallel,
                    std::vector<Axis>{{i, Expr(0), Expr(8)}, {j, Expr(0), Expr(64)}}, store);
  std::map<std::string, std::string> notes = {{"swizzle_panel", "4"}};
  if (!layout_of.empty()) notes["layout:" + layout_of] = "swizzled";
  p.body = MakeStmt<Launch>(
      loc, std::vector<Axis>{{b, Expr(0), CeilDiv(n, Expr(8))}}, std::vector<Expr>{Expr(128)},
      MakeSeq({MakeStmt<Alloc>(loc, tile), MakeStmt<Copy>(loc, rows, WholeBuffer(tile)), loop}),
      notes);
  return p;
}

TEST(PrinterTest, WholeProgram) {
  EXPECT_EQ(ToString(Sample("i", "tile", 4)),
            "def scale(x: global float32[n, 64], y: out global float16[n, 64]) dims(n):\n"
            "  launch bx in ((n + 7) // 8) threads(128) {swizzle_panel=\"4\"}:\n"
            "    alloc tile: shared float32[8, 64]\n"
            "    copy x[bx * 8 : +8, 0 : +64] -> tile\n"
            "    for parallel i, j in (8, 64):\n"
            "      y[bx * 8 + i, j] = float16(tile[i, j] * 0.1)\n");
}

TEST(PrinterTest, NamesAreMadeUniqueInOrderOfAppearance) {
  const Expr a = MakeVar("i"), b = MakeVar("i"), c = MakeVar("i_1");
  EXPECT_EQ(ToString(a - b * c), "i - i_1 * i_1_1");
}

TEST(PrinterTest, Precedence) {
  const Expr a = MakeVar("a"), b = MakeVar("b"), c = MakeVar("c");
  EXPECT_EQ(ToString((a + b) * c), "(a + b) * c");
  EXPECT_EQ(ToString(a - (b - c)), "a - (b - c)");
  EXPECT_EQ(ToString((a - b) - c), "a - b - c");
  EXPECT_EQ(ToString(FloorDiv(a, b * c)), "a // (b * c)");
  EXPECT_EQ(ToString((a < b) && ((b < c) || (c < a))), "a < b and (b < c or c < a)");
  EXPECT_EQ(ToString(MakeUnary(UnaryOp::kNeg, a + b)), "-(a + b)");
  EXPECT_EQ(ToString(MakeUnary(UnaryOp::kNot, (a < b) && (b < c))), "not (a < b and b < c)");
  EXPECT_EQ(ToString(Min(a, b) + Expr(-3)), "min(a, b) + -3");
}

TEST(PrinterTest, ConstantsKeepTypeAndValue) {
  EXPECT_EQ(ToString(MakeFloat(0.1)), "0.1");
  EXPECT_EQ(ToString(MakeFloat(1)), "1.0");
  EXPECT_EQ(ToString(MakeFloat(0.1, kFloat64)), "float64(0.1)");
  EXPECT_EQ(ToString(MakeFloat(-INFINITY)), "float32(-inf)");
  EXPECT_EQ(ToString(MakeInt(7, kInt64)), "int64(7)");
  EXPECT_EQ(ToString(MakeBool(true)), "True");
}

TEST(DigestTest, IgnoresLocalNamesAndPositions) {
  const std::string digest = ProgramDigest(Sample("i", "tile", 4));
  EXPECT_EQ(digest, ProgramDigest(Sample("row", "staging", 77)));
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_EQ(ProgramDigest(Sample("i", "tile", 4, "tile")),
            ProgramDigest(Sample("i", "other", 4, "other")))
      << "an annotation follows the buffer that it names";
  EXPECT_NE(digest, ProgramDigest(Sample("i", "tile", 4, "tile")));
}

TEST(DigestTest, SeesEveryDifferenceThatMatters) {
  const Program base = Sample("i", "tile", 4);
  const std::string digest = ProgramDigest(base);
  Program p = base;
  p.name = "other";
  EXPECT_NE(ProgramDigest(p), digest);
  p = base;
  p.params[1].is_output = false;
  EXPECT_NE(ProgramDigest(p), digest);
  p = base;
  p.params[0].name = "input";
  EXPECT_NE(ProgramDigest(p), digest);
  p = base;
  p.attrs["fast_math"] = "1";
  EXPECT_NE(ProgramDigest(p), digest);
  p = base;
  p.body = RewriteExprs(
      base.body, [](const Expr& e) { return e.As<FloatImm>() ? MakeFloat(0.10000001) : Expr(); });
  EXPECT_NE(ProgramDigest(p), digest) << "one unit in the last place of a constant";
  p = base;
  p.body =
      RewriteExprs(base.body, [](const Expr& e) { return IsConst(e, 128) ? Expr(256) : Expr(); });
  EXPECT_NE(ProgramDigest(p), digest);
}

}  // namespace
}  // namespace kiln::ir
