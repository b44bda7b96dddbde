#include "compiler/ir/verify.h"

#include <gtest/gtest.h>

namespace kiln::ir {
namespace {

using ::testing::Test;

class VerifyTest : public Test {
 protected:
  // A program whose one block runs `body`.
  Program With(std::vector<Stmt> body) {
    Program p;
    p.name = "k";
    p.params = {{Param::kTensor, "g", g, {}, true}};
    p.dims = {n};
    p.body = MakeStmt<Launch>(SourceLoc{1, 1}, std::vector<Axis>{{b, Expr(0), Expr(4)}},
                              std::vector<Expr>{Expr(32)}, MakeSeq(std::move(body)));
    return p;
  }
  void ExpectError(std::vector<Stmt> body, const std::string& what) {
    const absl::Status status = Verify(With(std::move(body)));
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_NE(status.message().find(what), absl::string_view::npos) << status;
  }
  Stmt StoreTo(const Buffer& buffer, Expr index, Expr value) {
    return MakeStmt<Store>(loc, buffer, std::vector<Expr>{std::move(index)}, std::move(value));
  }
  Stmt Loop(Expr var, Stmt body, ForKind kind = ForKind::kSerial) {
    return MakeStmt<For>(loc, kind, std::vector<Axis>{{std::move(var), Expr(0), Expr(4)}},
                         std::move(body));
  }

  const SourceLoc loc{7, 3};
  Expr n = MakeVar("n"), b = MakeVar("b"), i = MakeVar("i");
  Buffer g = MakeBuffer("g", kFloat32, {n}, Scope::kGlobal);
  Buffer s = MakeBuffer("s", kFloat32, {Expr(8)}, Scope::kShared);
  Buffer m = MakeBuffer("m", kFloat32, {Expr(8), Expr(4)}, Scope::kShared);
  const Expr one = MakeFloat(1);
};

TEST_F(VerifyTest, AcceptsAGoodProgram) {
  EXPECT_TRUE(
      Verify(With({MakeStmt<Alloc>(loc, s), Loop(i, StoreTo(s, i, one)),
                   MakeStmt<Copy>(loc, WholeBuffer(s), WholeBuffer(s)), StoreTo(g, b + n, one)}))
          .ok());
}

TEST_F(VerifyTest, Scopes) {
  ExpectError({StoreTo(g, i, one)}, "variable 'i' is used outside its scope");
  ExpectError({Loop(i, StoreTo(g, i, one)), StoreTo(g, i, one)}, "outside its scope");
  ExpectError({StoreTo(s, Expr(0), one)}, "buffer 's' is used outside its scope");
  ExpectError({StoreTo(s, Expr(0), one), MakeStmt<Alloc>(loc, s)}, "outside its scope");
  ExpectError({Loop(i, Loop(i, StoreTo(g, i, one)))}, "'i' is bound twice");
  ExpectError({MakeStmt<Alloc>(loc, s), MakeStmt<Alloc>(loc, s)}, "allocated twice");
  const Buffer twin = MakeBuffer("s", kFloat32, {Expr(8)}, Scope::kShared);
  ExpectError({MakeStmt<Alloc>(loc, twin), StoreTo(s, Expr(0), one)}, "outside its scope");
  const Expr t = MakeVar("t");
  const Stmt scope =
      MakeStmt<Seq>(loc, std::vector<Stmt>{MakeStmt<Bind>(loc, t, Expr(1)), StoreTo(g, t, one)});
  EXPECT_TRUE(Verify(With({scope})).ok());
  ExpectError({scope, StoreTo(g, t, one)}, "variable 't' is used outside its scope");
}

TEST_F(VerifyTest, Types) {
  ExpectError({StoreTo(g, Expr(0), Expr(1))}, "a int32 is stored to 'g' of float32");
  ExpectError({MakeStmt<If>(loc, n, StoreTo(g, Expr(0), one))}, "not a bool");
  ExpectError({MakeStmt<While>(loc, n, StoreTo(g, Expr(0), one))}, "not a bool");
  ExpectError({MakeStmt<Bind>(loc, i, one)}, "'i' is int32 and its value is float32");
  ExpectError({MakeStmt<Store>(loc, g, std::vector<Expr>{one}, one)}, "index is not an integer");
  ExpectError({MakeStmt<Store>(loc, g, std::vector<Expr>{b, b}, one)},
              "1 dimensions and 2 indices");
  ExpectError({MakeStmt<Fill>(loc, WholeBuffer(g), Expr(0))}, "filled with a int32");
  ExpectError({MakeStmt<Alloc>(loc, s, one)}, "initial value");
}

TEST_F(VerifyTest, VectorIndices) {
  const Expr four = MakeRamp(Expr(0), Expr(1), 4), two = MakeRamp(Expr(0), Expr(1), 2);
  const auto store = [&](Expr row, Expr column) {
    return MakeStmt<Store>(loc, m, std::vector<Expr>{std::move(row), std::move(column)},
                           MakeConst(1, kFloat32.with_lanes(4)));
  };
  const Stmt alloc = MakeStmt<Alloc>(loc, m);
  EXPECT_TRUE(Verify(With({alloc, store(Expr(1), four), store(four, four)})).ok());
  ExpectError({alloc, store(two, four)}, "invalid program");
  ExpectError({alloc, store(four, Expr(1))}, "invalid program");
}

TEST_F(VerifyTest, ProductsOfPairs) {
  const auto matrix = [](DType type, int64_t rows, int64_t columns) {
    return MakeBuffer("p", type, {MakeInt(rows), MakeInt(columns)}, Scope::kShared);
  };
  const auto product = [&](const Buffer& a, const Buffer& b, const Buffer& c) {
    return std::vector<Stmt>{
        MakeStmt<Alloc>(loc, a), MakeStmt<Alloc>(loc, b), MakeStmt<Alloc>(loc, c),
        MakeStmt<PairGemm>(loc, WholeBuffer(a), WholeBuffer(b), WholeBuffer(c))};
  };
  const Buffer a = matrix(kBFloat16, 5, 12), b = matrix(kUInt32, 6, 7), c = matrix(kFloat32, 5, 7);
  EXPECT_TRUE(Verify(With(product(a, b, c))).ok());
  ExpectError(product(matrix(kBFloat16, 5, 6), b, c), "pair_gemm shapes do not match");
  ExpectError(product(a, matrix(kUInt32, 6, 8), c), "pair_gemm shapes do not match");
  ExpectError(product(a, b, matrix(kFloat32, 6, 7)), "pair_gemm shapes do not match");
  ExpectError(product(matrix(kFloat16, 5, 12), b, c), "a pair_gemm of float16 and uint32");
  ExpectError(product(a, matrix(kInt32, 6, 7), c), "a pair_gemm of bfloat16 and int32");
}

TEST_F(VerifyTest, SparseProducts) {
  const auto matrix = [&](const char* name, DType type, int64_t rows, int64_t columns) {
    return MakeBuffer(name, type, {Expr(rows), Expr(columns)}, Scope::kShared);
  };
  const Buffer a = matrix("a", kFloat16, 16, 32), right = matrix("b", kFloat16, 64, 8);
  const Buffer c = matrix("c", kFloat32, 16, 8);
  const auto product = [&](const Buffer& left, const Buffer& e, bool trans_e) {
    return std::vector<Stmt>{
        MakeStmt<Alloc>(loc, left), MakeStmt<Alloc>(loc, e), MakeStmt<Alloc>(loc, right),
        MakeStmt<Alloc>(loc, c),
        MakeStmt<Gemm>(loc, WholeBuffer(left), WholeBuffer(right), WholeBuffer(c), false, false,
                       GemmPolicy::kSquare, MakeBool(false), WholeBuffer(e), trans_e)};
  };
  EXPECT_TRUE(Verify(With(product(a, matrix("e", *ParseDType("int16"), 16, 4), false))).ok());
  EXPECT_TRUE(Verify(With(product(a, matrix("e", kInt32, 2, 16), true))).ok());
  ExpectError(product(a, matrix("e", *ParseDType("int16"), 16, 4), true),
              "metadata does not match");
  ExpectError(product(a, matrix("e", kInt8, 16, 4), false), "metadata does not match");
  ExpectError(product(a, matrix("e", *ParseDType("int16"), 8, 4), false),
              "metadata does not match");
  ExpectError(product(a, matrix("e", kFloat16, 16, 4), false), "a sparse gemm of float16");
  ExpectError(product(matrix("a", kInt32, 16, 32), matrix("e", *ParseDType("int16"), 16, 4), false),
              "a sparse gemm of int32");
  ExpectError(
      product(matrix("a", kFloat16, 16, 64), matrix("e", *ParseDType("int16"), 16, 8), false),
      "gemm shapes do not match");
}

TEST_F(VerifyTest, ShapesOfTileOperations) {
  const Stmt as = MakeStmt<Alloc>(loc, s), am = MakeStmt<Alloc>(loc, m);
  const Region first_row{m, {{Expr(0), Expr(1)}, {Expr(0), Expr(4)}}};
  const Region half{s, {{Expr(0), Expr(4)}}};
  EXPECT_TRUE(Verify(With({as, am, MakeStmt<Copy>(loc, first_row, half)})).ok());
  ExpectError({as, am, MakeStmt<Copy>(loc, first_row, WholeBuffer(s))}, "different shapes");
  const Region whole = WholeBuffer(m);
  ExpectError({am, MakeStmt<Gemm>(loc, whole, whole, whole, false, false, GemmPolicy::kSquare,
                                  MakeBool(false))},
              "gemm shapes do not match");
  ExpectError({as, am,
               MakeStmt<Gemm>(loc, whole, WholeBuffer(s), whole, false, false, GemmPolicy::kSquare,
                              MakeBool(false))},
              "not a matrix");
  EXPECT_TRUE(
      Verify(With({as, am, MakeStmt<Reduce>(loc, ReduceOp::kSum, whole, WholeBuffer(s), 1, true)}))
          .ok());
  ExpectError({as, am, MakeStmt<Reduce>(loc, ReduceOp::kSum, whole, WholeBuffer(s), 0, true)},
              "does not match");
  ExpectError({as, am, MakeStmt<Reduce>(loc, ReduceOp::kSum, whole, WholeBuffer(s), 2, true)},
              "does not match");
  ExpectError({am, MakeStmt<Atomic>(loc, AtomicOp::kAdd, whole, Region{}, one)},
              "atomic of one value");
}

TEST_F(VerifyTest, Structure) {
  ExpectError({MakeStmt<Break>(loc)}, "outside a loop");
  ExpectError({Loop(i, MakeStmt<Break>(loc), ForKind::kParallel)}, "not serial");
  EXPECT_TRUE(Verify(With({Loop(i, MakeStmt<Break>(loc))})).ok());
  ExpectError({With({StoreTo(g, Expr(0), one)}).body}, "launch inside a launch");
  ExpectError({MakeStmt<If>(loc, n < Expr(1), Stmt())}, "undefined statement");
  ExpectError({MakeStmt<Evaluate>(loc, Expr())}, "undefined expression");
  ExpectError({MakeStmt<For>(loc, ForKind::kSerial,
                             std::vector<Axis>{{i, Expr(0), Expr(1)}, {n, Expr(0), Expr(1)}},
                             StoreTo(g, Expr(0), one))},
              "2 axes");
}

TEST_F(VerifyTest, NamesThePosition) {
  Program p = With({StoreTo(g, i, one)});
  p.source = std::make_shared<SourceFile>(SourceFile{"k.py", ""});
  EXPECT_NE(Verify(p).message().find("k.py:7:3"), absl::string_view::npos) << Verify(p);
}

}  // namespace
}  // namespace kiln::ir
