#include "compiler/ir/expr.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/scalar.h"
#include "compiler/ir/stmt.h"

namespace kiln::ir {
namespace {

Expr Bin(BinaryOp op, Expr a, Expr b) { return MakeBinary(op, std::move(a), std::move(b)); }
int64_t FoldInt(BinaryOp op, int64_t a, int64_t b, DType t = kInt32) {
  const Expr e = Bin(op, MakeInt(a, t), MakeInt(b, t));
  EXPECT_TRUE(ConstInt(e).has_value()) << ToString(e);
  return ConstInt(e).value_or(-999);
}

TEST(FoldTest, IntegerArithmeticFollowsPython) {
  EXPECT_EQ(FoldInt(BinaryOp::kFloorDiv, -7, 2), -4);
  EXPECT_EQ(FoldInt(BinaryOp::kFloorDiv, 7, -2), -4);
  EXPECT_EQ(FoldInt(BinaryOp::kFloorMod, -7, 2), 1);
  EXPECT_EQ(FoldInt(BinaryOp::kFloorMod, 7, -2), -1);
  EXPECT_EQ(FoldInt(BinaryOp::kFloorMod, -8, 2), 0);
  EXPECT_EQ(FoldInt(BinaryOp::kShr, -5, 1), -3);
  EXPECT_EQ(FoldInt(BinaryOp::kMax, -5, 1), 1);
}

TEST(FoldTest, WrapsAroundInTheType) {
  EXPECT_EQ(FoldInt(BinaryOp::kAdd, INT32_MAX, 1), INT32_MIN);
  EXPECT_EQ(FoldInt(BinaryOp::kAdd, 255, 1, kUInt8), 0);
  EXPECT_EQ(FoldInt(BinaryOp::kSub, 0, 1, kUInt32), 4294967295);
  EXPECT_EQ(FoldInt(BinaryOp::kFloorDiv, INT64_MIN, -1, kInt64), INT64_MIN);
  const DType u64{TypeCode::kUInt, 64};
  EXPECT_EQ(FoldInt(BinaryOp::kLt, -1, 1, u64), 0) << "2^64-1 is not less than 1";
  EXPECT_EQ(FoldInt(BinaryOp::kFloorDiv, -1, 2, u64), INT64_MAX);
}

TEST(FoldTest, DivisionByZeroIsLeftAlone) {
  EXPECT_FALSE(ConstInt(Bin(BinaryOp::kFloorDiv, MakeInt(1), MakeInt(0))));
  EXPECT_FALSE(ConstInt(Bin(BinaryOp::kFloorMod, MakeInt(1), MakeInt(0))));
  EXPECT_FALSE(ConstInt(Bin(BinaryOp::kShl, MakeInt(1), MakeInt(32))));
}

TEST(FoldTest, TrivialIdentities) {
  const Expr x = MakeVar("x");
  EXPECT_TRUE((x + Expr(0)).same_as(x));
  EXPECT_TRUE((Expr(0) + x).same_as(x));
  EXPECT_TRUE((x - Expr(0)).same_as(x));
  EXPECT_TRUE((x * Expr(1)).same_as(x));
  EXPECT_TRUE((Expr(1) * x).same_as(x));
  EXPECT_TRUE(IsConst(x * Expr(0), 0));
  EXPECT_TRUE(FloorDiv(x, Expr(1)).same_as(x));
  EXPECT_TRUE(IsConst(FloorMod(x, Expr(1)), 0));
  EXPECT_TRUE(IsConst(x - x, 0));
  EXPECT_TRUE(Min(x, x).same_as(x));
  EXPECT_TRUE(IsConst(x < x, 0));
  EXPECT_TRUE(IsConst(x <= x, 1));
  EXPECT_TRUE((MakeBool(true) && (x < Expr(3))).dtype().is_bool());
  EXPECT_TRUE(IsConst(MakeBool(false) && (x < Expr(3)), 0));
  EXPECT_EQ(ToString((x + Expr(3)) + Expr(4)), "x + 7");
  EXPECT_EQ(ToString((x + Expr(3)) - Expr(4)), "x - 1");
  EXPECT_EQ(ToString((x * Expr(3)) * Expr(4)), "x * 12");
  EXPECT_TRUE(MakeSelect(MakeBool(true), x, x + Expr(1)).same_as(x));
  EXPECT_TRUE(MakeSelect(x < Expr(1), x, x).same_as(x));
}

TEST(FoldTest, FloatIdentitiesKeepNanAndSignedZero) {
  const Expr f = MakeVar("f", kFloat32);
  EXPECT_FALSE((f * MakeFloat(0)).As<FloatImm>()) << "nan * 0 is nan";
  EXPECT_FALSE((f - f).As<FloatImm>()) << "inf - inf is nan";
  EXPECT_FALSE((f < f).As<IntImm>() || Equal(f, f).As<IntImm>()) << "nan != nan";
  EXPECT_FALSE((f + MakeFloat(0)).same_as(f)) << "-0 + 0 is +0";
  EXPECT_TRUE((f * MakeFloat(1)).same_as(f));
  const Expr not_less = MakeUnary(UnaryOp::kNot, f < MakeFloat(1));
  EXPECT_EQ(not_less.kind(), ExprKind::kUnary) << "not (nan < 1) is not nan >= 1";
}

TEST(FoldTest, FloatConstantsRoundToTheirType) {
  EXPECT_EQ(*ConstFloat(MakeFloat(0.1)), static_cast<double>(0.1f));
  EXPECT_EQ(*ConstFloat(MakeFloat(0.1) + MakeFloat(0.2)), static_cast<double>(0.1f + 0.2f));
  EXPECT_EQ(*ConstFloat(MakeFloat(2049, kFloat16)), 2048);
  EXPECT_EQ(*ConstFloat(MakeCast(kBFloat16, MakeFloat(1.00390625))), 1.0);
  EXPECT_EQ(*ConstInt(MakeCast(kInt32, MakeFloat(-2.7))), -2);
  EXPECT_EQ(*ConstInt(MakeCast(kInt8, MakeInt(200))), -56);
  EXPECT_EQ(*ConstFloat(MakeCast(kFloat32, MakeInt(16777217))), 16777216);
  EXPECT_EQ(*ConstFloat(MakeCall(kFloat32, Intrinsic::kSqrt, {MakeFloat(4)})), 2);
}

TEST(ExprTest, IndicesWiden) {
  const Expr i = MakeVar("i"), j = MakeVar("j", kInt64);
  EXPECT_EQ((i + j).dtype(), kInt64);
  EXPECT_EQ(Bin(BinaryOp::kLt, i, j).dtype(), kBool);
  EXPECT_TRUE(MakeCast(kInt32, MakeCast(kInt64, i)).same_as(i));
  EXPECT_FALSE(MakeCast(kInt64, MakeCast(kInt32, j)).same_as(j));
}

TEST(ExprTest, CommonTypes) {
  EXPECT_EQ(CommonType(kFloat16, kBFloat16), kFloat32);
  EXPECT_EQ(CommonType(kFloat16, kFloat32), kFloat32);
  EXPECT_EQ(CommonType(kInt64, kFloat16), kFloat16);
  EXPECT_EQ(CommonType(kBool, kInt8), kInt8);
  EXPECT_EQ(CommonType(kInt8, kInt32), kInt32);
  EXPECT_EQ(CommonType(kUInt32, kInt32), kInt32);
  EXPECT_EQ(CommonType(kInt32, kFloat32.with_lanes(4)), kFloat32.with_lanes(4));
}

TEST(ExprTest, MixedScalarsAndVectorsBroadcast) {
  const Expr i = MakeVar("i");
  const Expr ramp = MakeRamp(i, Expr(1), 4) * Expr(3) + Expr(5);
  EXPECT_EQ(ToString(ramp), "ramp(i * 3 + 5, 3, 4)");
  EXPECT_EQ((ramp < Expr(8)).dtype(), kBool.with_lanes(4));
  EXPECT_TRUE(MakeRamp(i, Expr(0), 4).As<Broadcast>());
  EXPECT_TRUE(MakeRamp(i, Expr(2), 1).same_as(i));
}

TEST(ExprTest, SameIsStructural) {
  const Expr x = MakeVar("x"), y = MakeVar("x");
  EXPECT_TRUE(Same(x * Expr(2) + Expr(1), x * Expr(2) + Expr(1)));
  EXPECT_FALSE(Same(x, y)) << "variables are their nodes, not their names";
  EXPECT_FALSE(Same(MakeFloat(0), MakeFloat(-0.0)));
  EXPECT_TRUE(Same(MakeFloat(NAN), MakeFloat(NAN)));
  EXPECT_FALSE(Same(MakeInt(1), MakeInt(1, kInt64)));
}

// Expressions of few kinds and few leaves, so that many of them are the same.
class FewExprs {
 public:
  Expr Draw(int depth) {
    const Expr leaves[] = {x_, y_, Expr(1), MakeInt(1, kInt64)};
    if (depth == 0) return leaves[Next(4)];
    const Expr a = Draw(depth - 1), b = Draw(depth - 1);
    const Expr narrow = MakeCast(kInt32, a);
    switch (Next(6)) {
      case 0:
        return Bin(BinaryOp::kBitXor, a, b);
      case 1:
        return MakeUnary(UnaryOp::kBitNot, a);
      case 2:
        return MakeCast(kInt32, MakeSelect(MakeCast(kInt32, b) < narrow, a, b));
      case 3:
        return MakeCast(kInt32, MakeLoad(table_, {narrow}));
      case 4:
        return MakeCast(kInt32, MakeCall(kFloat32, Intrinsic::kFloor, {MakeCast(kFloat32, a)}));
      default:
        return narrow - MakeCast(kInt32, b);
    }
  }

 private:
  size_t Next(size_t n) { return random_() % n; }
  std::mt19937 random_{5};
  const Expr x_ = MakeVar("x"), y_ = MakeVar("y");
  const Buffer table_ = MakeBuffer("t", kFloat32, {Expr(4)}, Scope::kGlobal);
};

// Printed with its types an expression is itself, where names are.
TEST(ExprTest, SameIsWhatPrintsAlike) {
  FewExprs few;
  std::vector<std::pair<Expr, std::string>> all;
  for (int i = 0; i < 600; ++i) {
    const Expr e = few.Draw(1 + i % 2);
    all.emplace_back(e, absl::StrCat(e.dtype().ToString(), " ", ToString(e)));
  }
  int same = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const auto& [a, text] = all[i];
      const auto& [b, other] = all[j];
      ASSERT_EQ(Same(a, b), text == other) << text << " and " << other;
      same += text == other && !a.same_as(b);
    }
  }
  EXPECT_GT(same, 1000) << "of different nodes";
}

TEST(ExprDeathTest, TypeMismatchIsABug) {
  EXPECT_DEATH(Bin(BinaryOp::kAdd, MakeInt(1), MakeFloat(1)), "CHECK failed");
  EXPECT_DEATH(MakeSelect(MakeInt(1), MakeInt(1), MakeInt(2)), "CHECK failed");
  const Buffer b = MakeBuffer("b", kFloat32, {Expr(4), Expr(4)}, Scope::kShared);
  EXPECT_DEATH(MakeLoad(b, {Expr(1)}), "CHECK failed");
}

TEST(ScalarTest, FloatModFollowsTheDivisor) {
  EXPECT_EQ(*EvalFloat(BinaryOp::kFloorMod, -1, 3), 2);
  EXPECT_EQ(*EvalFloat(BinaryOp::kFloorMod, 1, -3), -2);
  EXPECT_EQ(*EvalFloat(BinaryOp::kFloorDiv, -1, 3), -1);
  EXPECT_EQ(*EvalFloat(BinaryOp::kMax, NAN, 3), 3);
}

TEST(ScalarTest, Conversions) {
  EXPECT_EQ(FloatToInt(-3.9, kInt32), -3);
  EXPECT_EQ(FloatToInt(300, kUInt8), 255);
  EXPECT_EQ(FloatToInt(-1, kUInt8), 0);
  constexpr DType kUnsigned64{TypeCode::kUInt, 64};
  EXPECT_EQ(FloatToInt(-0.9, kUnsigned64), 0);
  EXPECT_EQ(FloatToInt(128, kInt8), 127);
  EXPECT_EQ(FloatToInt(-1e9, kInt8), -128);
  EXPECT_EQ(FloatToInt(-1e30, kInt64), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(FloatToInt(0x1.8p63, kUnsigned64),
            std::numeric_limits<int64_t>::min() + (int64_t{1} << 62));
  EXPECT_EQ(FloatToInt(1e30, kUnsigned64), -1);
  EXPECT_EQ(FloatToInt(NAN, kInt32), 0);
  EXPECT_EQ(FloatToInt(1e30, kInt64), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Reinterpret({.real = 1.0}, kFloat32, kInt32).integer, 0x3f800000);
  EXPECT_EQ(Reinterpret({.integer = 0x3f800000}, kInt32, kFloat32).real, 1.0);
  EXPECT_EQ(Reinterpret({.real = -2.0}, kFloat16, DType{TypeCode::kUInt, 16}).integer, 0xC000);
}

}  // namespace
}  // namespace kiln::ir
