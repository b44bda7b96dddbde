// Every tile operation against a loop written by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/interp/builder.h"

namespace kiln::interp::testing {
namespace {

using ir::ReduceOp;

// out = copy of a region of `in` through a tile, both clipped.
struct ClippedCopy {
  ProgramBuilder p;
  Tensor in, out;
  static constexpr int kRows = 5, kColumns = 7, kTile = 4;

  ClippedCopy(int row, int column, int out_row, int out_column)
      : in(RandomTensor(kFloat32, {kRows, kColumns}, 3)), out(kFloat32, {kRows, kColumns}) {
    for (int i = 0; i < kRows * kColumns; ++i) out.as<float>()[i] = 99;
    const Buffer x = p.Input("x", kFloat32, {Expr(kRows), Expr(kColumns)});
    const Buffer y = p.Input("y", kFloat32, {Expr(kRows), Expr(kColumns)});
    const Buffer t = MakeBuffer("t", kFloat32, {Expr(kTile), Expr(kTile)}, Scope::kShared);
    const auto at = [](const Buffer& b, int r, int c) {
      return Box(b, {{Expr(r), Expr(kTile)}, {Expr(c), Expr(kTile)}});
    };
    p.OneBlock({Alloc(t), Copy(at(x, row, column), WholeBuffer(t)),
                Copy(WholeBuffer(t), at(y, out_row, out_column))});
  }
};

TEST(CopyTest, ClipsSourceToZeroAndLeavesTheRestOfTheDestination) {
  for (int row = -5; row <= 6; ++row) {
    for (int column = -5; column <= 8; column += 1) {
      const int out_row = row / 2 + 1, out_column = 2 - column;
      ClippedCopy c(row, column, out_row, out_column);
      ASSERT_TRUE(interp::Run(c.p.program, Views({&c.in, &c.out}), {}).ok());
      for (int i = 0; i < c.kRows; ++i) {
        for (int j = 0; j < c.kColumns; ++j) {
          const int ti = i - out_row, tj = j - out_column;
          float expected = 99;
          if (ti >= 0 && ti < c.kTile && tj >= 0 && tj < c.kTile) {
            const int si = row + ti, sj = column + tj;
            const bool inside = si >= 0 && si < c.kRows && sj >= 0 && sj < c.kColumns;
            expected = inside ? c.in.as<float>()[si * c.kColumns + sj] : 0;
          }
          ASSERT_EQ(c.out.as<float>()[i * c.kColumns + j], expected) << row << " " << column;
        }
      }
    }
  }
}

TEST(CopyTest, DropsUnitDimensionsAndConverts) {
  ProgramBuilder p;
  const Buffer x = p.Input("x", kFloat32, {Expr(3), Expr(4), Expr(5)});
  const Buffer y = p.Output("y", kInt8, {Expr(5)});
  p.OneBlock(
      {Copy(Box(x, {{Expr(2), Expr(1)}, {Expr(1), Expr(1)}, {Expr(0), Expr(5)}}), WholeBuffer(y))});
  Tensor in(kFloat32, {3, 4, 5}), out(kInt8, {5});
  for (int i = 0; i < 60; ++i) in.as<float>()[i] = static_cast<float>(i) * 3.6f - 150;
  ASSERT_TRUE(interp::Run(p.program, Views({&in, &out}), {}).ok());
  for (int k = 0; k < 5; ++k) {
    const float v = in.as<float>()[(2 * 4 + 1) * 5 + k];
    EXPECT_EQ(out.as<int8_t>()[k], static_cast<int8_t>(static_cast<int>(v)));
  }
}

TEST(CopyTest, StridedViews) {
  ProgramBuilder p;
  const Buffer x = p.Input("x", kFloat32, {Expr(3), Expr(4)});
  const Buffer y = p.Output("y", kFloat32, {Expr(3), Expr(4)});
  p.OneBlock({Copy(WholeBuffer(x), WholeBuffer(y))});
  Tensor in = RandomTensor(kFloat32, {4, 3}, 5), out(kFloat32, {3, 4});
  const TensorView transposed{in.data(), kFloat32, {3, 4}, {1, 3}};
  ASSERT_TRUE(interp::Run(p.program, {transposed, out.View()}, {}).ok());
  EXPECT_TRUE(Compare(out.View(), transposed, {}).ok());
}

void CheckGemm(DType ab, DType acc, bool trans_a, bool trans_b, bool clear) {
  constexpr int kM = 13, kN = 18, kK = 9;
  ProgramBuilder p;
  const auto shape = [](bool t, int r, int c) {
    return t ? std::vector<Expr>{Expr(c), Expr(r)} : std::vector<Expr>{Expr(r), Expr(c)};
  };
  const Buffer a = p.Input("a", ab, shape(trans_a, kM, kK));
  const Buffer b = p.Input("b", ab, shape(trans_b, kK, kN));
  const Buffer c = p.Input("c", acc, {Expr(kM), Expr(kN)});
  p.OneBlock({MakeStmt<ir::Gemm>(kLoc, WholeBuffer(a), WholeBuffer(b), WholeBuffer(c), trans_a,
                                 trans_b, ir::GemmPolicy::kSquare, ir::MakeBool(clear))});
  const auto dims = [](bool t, int r, int c2) {
    return t ? std::vector<int64_t>{c2, r} : std::vector<int64_t>{r, c2};
  };
  const Tensor ta = RandomTensor(ab, dims(trans_a, kM, kK), 1);
  const Tensor tb = RandomTensor(ab, dims(trans_b, kK, kN), 2);
  const Tensor before = RandomTensor(acc, {kM, kN}, 3), tc = RandomTensor(acc, {kM, kN}, 3);
  const auto stats = interp::Run(p.program, {ta.View(), tb.View(), tc.View()}, {});
  ASSERT_TRUE(stats.ok()) << stats.status();
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      double sum = clear ? 0 : before.View().Get(i * kN + j);
      for (int k = 0; k < kK; ++k) {
        sum += ta.View().Get(trans_a ? k * kM + i : i * kK + k) *
               tb.View().Get(trans_b ? j * kK + k : k * kN + j);
      }
      ASSERT_EQ(tc.View().Get(i * kN + j), RoundToType(sum, acc)) << i << " " << j;
    }
  }
}

TEST(GemmTest, AllTransposesTypesAndClear) {
  for (int bits = 0; bits < 8; ++bits) {
    CheckGemm(kFloat32, kFloat32, bits & 1, bits & 2, bits & 4);
    CheckGemm(kBFloat16, kFloat32, bits & 1, bits & 2, bits & 4);
    CheckGemm(kFloat16, kFloat16, bits & 1, bits & 2, bits & 4);
    CheckGemm(kInt8, kInt32, bits & 1, bits & 2, bits & 4);
  }
}

TEST(GemmTest, TakesSlicesOfHigherRank) {
  ProgramBuilder p;
  const Buffer a = p.Input("a", kFloat32, {Expr(2), Expr(3), Expr(4)});
  const Buffer b = p.Input("b", kFloat32, {Expr(2), Expr(4), Expr(1)});
  const Buffer c = p.Output("c", kFloat32, {Expr(3), Expr(1)});
  p.OneBlock({MakeStmt<ir::Gemm>(
      kLoc, Box(a, {{Expr(1), Expr(1)}, {Expr(0), Expr(3)}, {Expr(0), Expr(4)}}),
      Box(b, {{Expr(1), Expr(1)}, {Expr(0), Expr(4)}, {Expr(0), Expr(1)}}), WholeBuffer(c), false,
      false, ir::GemmPolicy::kSquare, ir::MakeBool(true))});
  const Tensor ta = RandomTensor(kFloat32, {2, 3, 4}, 1), tb = RandomTensor(kFloat32, {2, 4, 1}, 2);
  Tensor tc(kFloat32, {3, 1});
  ASSERT_TRUE(interp::Run(p.program, {ta.View(), tb.View(), tc.View()}, {}).ok());
  for (int i = 0; i < 3; ++i) {
    double sum = 0;
    for (int k = 0; k < 4; ++k) sum += ta.View().Get(12 + i * 4 + k) * tb.View().Get(4 + k);
    EXPECT_EQ(tc.as<float>()[i], static_cast<float>(sum));
  }
}

double Reduced(ReduceOp op, double a, double b) {
  const auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
  switch (op) {
    case ReduceOp::kSum:
      return a + b;
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kAbsSum:
      return a + std::abs(b);
    case ReduceOp::kAbsMax:
      return std::max(a, std::abs(b));
    case ReduceOp::kBitAnd:
      return static_cast<double>(x & y);
    case ReduceOp::kBitOr:
      return static_cast<double>(x | y);
    case ReduceOp::kBitXor:
      return static_cast<double>(x ^ y);
  }
  return 0;
}

void CheckReduce(ReduceOp op, int dim, bool clear, DType type) {
  constexpr int kShape[3] = {3, 4, 5};
  ProgramBuilder p;
  const Buffer x = p.Input("x", type, {Expr(3), Expr(4), Expr(5)});
  std::vector<Expr> rest;
  std::vector<int64_t> dims;
  for (int d = 0; d < 3; ++d) {
    if (d == dim) continue;
    rest.push_back(Expr(kShape[d]));
    dims.push_back(kShape[d]);
  }
  const Buffer y = p.Input("y", type, rest);
  p.OneBlock({MakeStmt<ir::Reduce>(kLoc, op, WholeBuffer(x), WholeBuffer(y), dim, clear)});
  const Tensor in = RandomTensor(type, {3, 4, 5}, 4);
  const Tensor before = RandomTensor(type, dims, 5), out = RandomTensor(type, dims, 5);
  ASSERT_TRUE(interp::Run(p.program, {in.View(), out.View()}, {}).ok());
  for (int o = 0; o < out.elements(); ++o) {
    const int outer = static_cast<int>(o / dims[1]), inner = static_cast<int>(o % dims[1]);
    const bool sum = op == ReduceOp::kSum || op == ReduceOp::kAbsSum;
    double total = 0;
    for (int k = 0; k < kShape[dim]; ++k) {
      const int i = dim == 0 ? k : outer, j = dim == 1 ? k : dim == 0 ? outer : inner;
      const int l = dim == 2 ? k : inner;
      const double v = in.View().Get((i * 4 + j) * 5 + l);
      const double first = op == ReduceOp::kAbsMax ? std::abs(v) : v;
      total = k == 0 && !sum ? first : Reduced(op, total, v);
    }
    if (!clear) {
      const double old = before.View().Get(o);
      total = sum ? old + total
                  : Reduced(op, op == ReduceOp::kAbsMax ? total : old,
                            op == ReduceOp::kAbsMax ? 0 : total);
      if (op == ReduceOp::kAbsMax) total = std::max(total, old);
    }
    ASSERT_EQ(out.View().Get(o), RoundToType(total, type)) << "dim " << dim << " at " << o;
  }
}

TEST(ReduceTest, EveryOperationDimensionAndClear) {
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAbsSum, ReduceOp::kAbsMax}) {
    for (int dim = 0; dim < 3; ++dim) {
      for (const bool clear : {true, false}) {
        CheckReduce(op, dim, clear, kFloat32);
        CheckReduce(op, dim, clear, kFloat16);
        CheckReduce(op, dim, clear, kInt32);
      }
    }
  }
}

TEST(ReduceTest, OfBits) {
  for (const ReduceOp op : {ReduceOp::kBitAnd, ReduceOp::kBitOr, ReduceOp::kBitXor}) {
    for (int dim = 0; dim < 3; ++dim) {
      for (const bool clear : {true, false}) CheckReduce(op, dim, clear, kInt32);
    }
  }
}

TEST(ReduceTest, KeepsAUnitDimension) {
  ProgramBuilder p;
  const Buffer x = p.Input("x", kFloat32, {Expr(3), Expr(4)});
  const Buffer y = p.Output("y", kFloat32, {Expr(3), Expr(1)});
  p.OneBlock({MakeStmt<ir::Reduce>(kLoc, ReduceOp::kSum, WholeBuffer(x), WholeBuffer(y), 1, true)});
  const Tensor in = RandomTensor(kFloat32, {3, 4}, 4);
  const Tensor out(kFloat32, {3, 1});
  ASSERT_TRUE(interp::Run(p.program, {in.View(), out.View()}, {}).ok());
  const float* f = in.as<float>() + 4;
  EXPECT_EQ(out.as<float>()[1], static_cast<float>(double{f[0]} + f[1] + f[2] + f[3]));
}

TEST(FillTest, ARegion) {
  ProgramBuilder p;
  const Buffer y = p.Input("y", kFloat32, {Expr(4), Expr(4)});
  p.OneBlock({Fill(Box(y, {{Expr(1), Expr(2)}, {Expr(0), Expr(3)}}), ir::MakeFloat(2.5))});
  const Tensor out(kFloat32, {4, 4});
  ASSERT_TRUE(interp::Run(p.program, {out.View()}, {}).ok());
  for (int i = 0; i < 16; ++i) {
    const bool inside = i / 4 >= 1 && i / 4 < 3 && i % 4 < 3;
    EXPECT_EQ(out.as<float>()[i], inside ? 2.5f : 0.f);
  }
}

TEST(AtomicTest, ElementsAndTilesFromManyBlocks) {
  for (const ir::AtomicOp op : {ir::AtomicOp::kAdd, ir::AtomicOp::kMax, ir::AtomicOp::kMin}) {
    ProgramBuilder p;
    const Buffer x = p.Input("x", kFloat32, {Expr(8), Expr(6)});
    const Buffer y = p.Input("y", kFloat32, {Expr(6)});
    const Buffer count = p.Input("count", kInt32, {Expr(1)});
    const Expr b = ir::MakeVar("b");
    // The tile is one column wider than the buffers: both sides clip.
    const Stmt tile = MakeStmt<ir::Atomic>(kLoc, op, Box(y, {{Expr(0), Expr(7)}}),
                                           Box(x, {{b, Expr(1)}, {Expr(0), Expr(7)}}), Expr());
    const Stmt element =
        MakeStmt<ir::Atomic>(kLoc, op, Box(count, {{Expr(0), Expr(1)}}), Region{}, b + Expr(1));
    p.program.body = Launch({{b, Expr(8)}}, Seq({tile, element}));
    const Tensor in = RandomTensor(kFloat32, {8, 6}, 1), out(kFloat32, {6}), n(kInt32, {1});
    const auto stats = interp::Run(p.program, {in.View(), out.View(), n.View()}, {});
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_EQ(stats->blocks, 8);
    for (int j = 0; j < 6; ++j) {
      float expected = 0;
      for (int i = 0; i < 8; ++i) {
        const float v = in.as<float>()[i * 6 + j];
        expected = op == ir::AtomicOp::kAdd   ? expected + v
                   : op == ir::AtomicOp::kMax ? std::max(expected, v)
                                              : std::min(expected, v);
      }
      EXPECT_EQ(out.as<float>()[j], expected);
    }
    EXPECT_EQ(n.as<int32_t>()[0], op == ir::AtomicOp::kAdd ? 36 : op == ir::AtomicOp::kMax ? 8 : 0);
  }
}

TEST(ModeTest, DoubleKeepsWhatTypesRound) {
  ProgramBuilder p;
  const Buffer x = p.Input("x", kFloat32, {Expr(1)});
  const Buffer y = p.Output("y", kFloat16, {Expr(1)});
  const Expr v = Load(x, {Expr(0)});
  const Expr third = MakeBinary(ir::BinaryOp::kDiv, v, ir::MakeFloat(3));
  p.OneBlock({Store(y, {Expr(0)}, MakeCast(kFloat16, third))});
  const Tensor in(kFloat32, {1}), half(kFloat16, {1}), wide(kFloat64, {1});
  in.as<float>()[0] = 1.0f;
  ASSERT_TRUE(interp::Run(p.program, {in.View(), half.View()}, {}).ok());
  EXPECT_EQ(half.View().Get(0), RoundToType(static_cast<float>(1.0 / 3), kFloat16));
  Options options;
  options.mode = Mode::kDouble;
  ASSERT_TRUE(interp::Run(p.program, {in.View(), wide.View()}, options).ok());
  EXPECT_EQ(wide.View().Get(0), 1.0 / 3);
  EXPECT_EQ(interp::Run(p.program, {in.View(), wide.View()}, {}).status().code(),
            absl::StatusCode::kInvalidArgument)
      << "exact types take the declared type only";
}

TEST(ModeTest, Float32ExpressionsRoundAfterEachOperation) {
  ProgramBuilder p;
  const Buffer x = p.Input("x", kFloat32, {Expr(3)});
  const Buffer y = p.Output("y", kFloat32, {Expr(2)});
  const auto at = [&](int i) { return Load(x, {Expr(i)}); };
  p.OneBlock({Store(y, {Expr(0)}, at(0) * at(1) + at(2)),
              Store(y, {Expr(1)}, MakeCall(kFloat32, ir::Intrinsic::kFma, {at(0), at(1), at(2)}))});
  const Tensor in = RandomTensor(kFloat32, {3}, 0), out(kFloat32, {2});
  for (uint64_t seed = 0; seed < 200; ++seed) {
    FillRandom(in.View(), seed);
    const volatile float a = in.as<float>()[0], b = in.as<float>()[1], c = in.as<float>()[2];
    const volatile float product = a * b;
    ASSERT_TRUE(interp::Run(p.program, {in.View(), out.View()}, {}).ok());
    ASSERT_EQ(out.as<float>()[0], product + c);
    ASSERT_EQ(out.as<float>()[1], std::fmaf(a, b, c));
  }
}

}  // namespace
}  // namespace kiln::interp::testing
