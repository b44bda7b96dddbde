#include "compiler/ir/visit.h"

#include <gtest/gtest.h>

#include "compiler/ir/analysis.h"
#include "compiler/ir/printer.h"

namespace kiln::ir {
namespace {

// Every kind of statement and expression in one tree.
struct Everything {
  Expr n = MakeVar("n"), i = MakeVar("i"), k = MakeVar("k"), t = MakeVar("t"), b = MakeVar("bx");
  Buffer a = MakeBuffer("a", kFloat32, {n, Expr(8)}, Scope::kGlobal);
  Buffer s = MakeBuffer("s", kFloat32, {Expr(8), n}, Scope::kShared);
  Buffer v = MakeBuffer("v", kInt32, {Expr(1)}, Scope::kVar);
  Stmt stmt;

  Everything() {
    const Expr load = MakeLoad(a, {i, Expr(2)}, n > Expr(3));
    const Expr value = MakeSelect(i < n, MakeCall(kFloat32, Intrinsic::kExp, {load}),
                                  MakeUnary(UnaryOp::kNeg, MakeCast(kFloat32, n + k)));
    const Region whole = WholeBuffer(s);
    const Region row{a, {{n, Expr(1)}, {Expr(0), Expr(8)}}};
    std::vector<Stmt> body = {
        MakeStmt<Alloc>(SourceLoc{1}, s),
        MakeStmt<Alloc>(SourceLoc{2}, v, n),
        MakeStmt<Bind>(SourceLoc{3}, t, n * Expr(2)),
        MakeStmt<Store>(SourceLoc{4}, s, std::vector<Expr>{i, t}, value, n < Expr(9)),
        MakeStmt<Copy>(SourceLoc{5}, whole, whole),
        MakeStmt<Gemm>(SourceLoc{6}, whole, whole, whole, false, true, GemmPolicy::kSquare,
                       Equal(n, Expr(0))),
        MakeStmt<PairGemm>(SourceLoc{18}, row, row, row),
        MakeStmt<Gemm>(SourceLoc{19}, whole, whole, whole, false, true, GemmPolicy::kSquare,
                       MakeBool(false), row, true),
        MakeStmt<Fill>(SourceLoc{7}, whole, MakeCast(kFloat32, n)),
        MakeStmt<Reduce>(SourceLoc{8}, ReduceOp::kSum, whole, row, 1, true),
        MakeStmt<Atomic>(SourceLoc{9}, AtomicOp::kAdd, whole, whole, Expr()),
        MakeStmt<Evaluate>(SourceLoc{10}, n + Expr(1)),
        MakeStmt<Assert>(SourceLoc{11}, n > Expr(0), "n"),
        MakeStmt<While>(SourceLoc{12}, n > Expr(1), MakeStmt<Break>(SourceLoc{13})),
        MakeStmt<If>(SourceLoc{14}, n > Expr(5), MakeStmt<Evaluate>(SourceLoc{}, n),
                     MakeStmt<Continue>(SourceLoc{15})),
    };
    const Stmt loop = MakeStmt<For>(SourceLoc{16}, ForKind::kPipelined,
                                    std::vector<Axis>{{i, Expr(0), n}}, MakeSeq(body), Expr(2));
    stmt = MakeStmt<Launch>(SourceLoc{17}, std::vector<Axis>{{b, Expr(0), n}},
                            std::vector<Expr>{Expr(128)}, loop);
  }
};

TEST(MutatorTest, UnchangedTreeIsTheSameObject) {
  const Everything e;
  EXPECT_TRUE(Mutator().Mutate(e.stmt).same_as(e.stmt));
  EXPECT_TRUE(Substitute(e.stmt, {{MakeVar("n").get(), Expr(4)}}).same_as(e.stmt));
  EXPECT_TRUE(RewriteExprs(e.stmt, [](const Expr&) { return Expr(); }).same_as(e.stmt));
  EXPECT_TRUE(RewriteStmts(e.stmt, [](const Stmt&) { return Stmt(); }).same_as(e.stmt));
}

TEST(SubstituteTest, ReachesEveryUse) {
  const Everything e;
  EXPECT_TRUE(Uses(e.stmt, e.n));
  const Stmt closed = Substitute(e.stmt, {{e.n.get(), Expr(4)}});
  EXPECT_FALSE(Uses(closed, e.n));
  const std::string text = ToString(closed);
  // The shape of the global buffer belongs to the program's parameters; that of an allocated one
  // is adapted.
  EXPECT_NE(text.find("alloc s: shared float32[8, 4]"), std::string::npos) << text;
  EXPECT_NE(text.find("launch bx in (4)"), std::string::npos) << text;
}

TEST(SubstituteTest, SharesUntouchedParts) {
  const Everything e;
  const Stmt changed = Substitute(e.stmt, {{e.k.get(), Expr(4)}});
  EXPECT_FALSE(changed.same_as(e.stmt));
  const auto* before = e.stmt.As<Launch>()->body.As<For>()->body.As<Seq>();
  const auto* after = changed.As<Launch>()->body.As<For>()->body.As<Seq>();
  for (size_t i = 0; i < before->stmts.size(); ++i) {
    EXPECT_EQ(before->stmts[i].same_as(after->stmts[i]), i != 3) << i;
  }
  EXPECT_EQ(after->stmts[3]->loc.line, 4) << "a rebuilt statement keeps its position";
}

// 2^60 terms, written out.
TEST(SubstituteTest, WhatIsSharedStaysShared) {
  const Expr x = MakeVar("x"), y = MakeVar("y");
  Expr e = x;
  for (int i = 0; i < 60; ++i) e = FloorMod(e * Expr(3), Expr(509)) + e;
  const Expr replaced = Substitute(e, {{x.get(), y}});
  EXPECT_TRUE(Uses(replaced, y));
  EXPECT_FALSE(Uses(replaced, x));
}

TEST(SubstituteTest, RenamesBindingsAndBuffers) {
  const Everything e;
  const Expr fresh = MakeVar("i2");
  const Buffer other = MakeBuffer("s2", kFloat32, {Expr(8), Expr(4)}, Scope::kShared);
  const Stmt renamed = Substitute(e.stmt, {{e.i.get(), fresh}}, {{e.s.get(), other}});
  EXPECT_TRUE(renamed.As<Launch>()->body.As<For>()->axes[0].var.same_as(fresh));
  EXPECT_FALSE(Uses(renamed, e.i));
  for (const Buffer& b : BuffersWritten(renamed)) EXPECT_NE(b, e.s);
  // A loop variable replaced by a value keeps its binding.
  const Stmt broken = Substitute(e.stmt, {{e.i.get(), Expr(3)}});
  EXPECT_TRUE(broken.As<Launch>()->body.As<For>()->axes[0].var.same_as(e.i));
}

TEST(WalkTest, PreOrderAndPruning) {
  const Everything e;
  std::vector<int> lines;
  Walk(e.stmt, [&](const Stmt& s) {
    lines.push_back(s->loc.line);
    return s.kind() != StmtKind::kWhile;
  });
  const std::vector<int> expected = {17, 16, 1, 1, 2,  3,  4,  5,  6, 18,
                                     19, 7,  8, 9, 10, 11, 12, 14, 0, 15};
  EXPECT_EQ(lines, expected);
}

TEST(AnalysisTest, BuffersInOrderOfAppearance) {
  const Everything e;
  EXPECT_EQ(BuffersRead(e.stmt), (std::vector<Buffer>{e.a, e.s}));
  EXPECT_EQ(BuffersWritten(e.stmt), (std::vector<Buffer>{e.v, e.s, e.a}));
}

TEST(MakeSeqTest, FlattensWhatBindsNothing) {
  const Stmt x = MakeStmt<Evaluate>(SourceLoc{}, Expr(1));
  const Stmt bind = MakeStmt<Bind>(SourceLoc{}, MakeVar("q"), Expr(1));
  EXPECT_EQ(MakeSeq({}).As<Seq>()->stmts.size(), 0u);
  EXPECT_TRUE(MakeSeq({x}).same_as(x));
  EXPECT_EQ(MakeSeq({x, MakeSeq({x, x}), Stmt()}).As<Seq>()->stmts.size(), 3u);
  EXPECT_EQ(MakeSeq({x, MakeSeq({bind, x})}).As<Seq>()->stmts.size(), 2u) << "a scope stays";
}

TEST(RewriteTest, ReplacesAndDoesNotDescend) {
  const Everything e;
  int seen = 0;
  const Stmt out = RewriteStmts(e.stmt, [&](const Stmt& s) {
    if (s.kind() != StmtKind::kFor) return Stmt();
    ++seen;
    return MakeSeq({});
  });
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(out.As<Launch>()->body.As<Seq>()->stmts.size(), 0u);
}

}  // namespace
}  // namespace kiln::ir
