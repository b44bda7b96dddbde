// Statements, expressions and vectors: what lowered programs are made of.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/interp/builder.h"

namespace kiln::interp::testing {
namespace {

using ir::BinaryOp;
using ir::Intrinsic;
using ir::MakeBroadcast;
using ir::MakeCall;
using ir::MakeFloat;
using ir::MakeLoad;
using ir::MakeRamp;
using ir::MakeVar;

TEST(ControlTest, WhileBreakContinueAndVar) {
  // Sum of odd numbers below 20, stopped at 15.
  ProgramBuilder p;
  const Buffer y = p.Output("y", kInt32, {Expr(2)});
  const Buffer i = MakeBuffer("i", kInt32, {Expr(1)}, Scope::kVar);
  const Buffer sum = MakeBuffer("sum", kInt32, {Expr(1)}, Scope::kVar);
  const auto get = [](const Buffer& b) { return Load(b, {Expr(0)}); };
  const Stmt step = Store(i, {Expr(0)}, get(i) + Expr(1));
  const Stmt skip_even = MakeStmt<ir::If>(kLoc, Equal(FloorMod(get(i), Expr(2)), Expr(0)),
                                          MakeStmt<ir::Continue>(kLoc));
  const Stmt stop = MakeStmt<ir::If>(kLoc, get(i) > Expr(15), MakeStmt<ir::Break>(kLoc));
  const Stmt add = Store(sum, {Expr(0)}, get(sum) + get(i));
  p.OneBlock({Alloc(i, Expr(0)), Alloc(sum, Expr(0)),
              MakeStmt<ir::While>(kLoc, get(i) < Expr(20), Seq({step, skip_even, stop, add})),
              Store(y, {Expr(0)}, get(sum)), Store(y, {Expr(1)}, get(i))});
  const Tensor out(kInt32, {2});
  ASSERT_TRUE(interp::Run(p.program, {out.View()}, {}).ok());
  EXPECT_EQ(out.as<int32_t>()[0], 1 + 3 + 5 + 7 + 9 + 11 + 13 + 15);
  EXPECT_EQ(out.as<int32_t>()[1], 17);
}

TEST(ControlTest, NestedLoopsBindAndElse) {
  ProgramBuilder p;
  const Buffer y = p.Output("y", kInt32, {Expr(4), Expr(5)});
  const Expr i = MakeVar("i"), j = MakeVar("j"), t = MakeVar("t");
  const Stmt body = Seq({MakeStmt<ir::Bind>(kLoc, t, i * Expr(10) - j),
                         MakeStmt<ir::If>(kLoc, j < i, Store(y, {i, j}, t),
                                          Store(y, {i, j}, MakeUnary(ir::UnaryOp::kNeg, t)))});
  p.OneBlock(
      {For(ir::ForKind::kUnroll, i, Expr(4), For(ir::ForKind::kPipelined, j, Expr(5), body))});
  const Tensor out(kInt32, {4, 5});
  ASSERT_TRUE(interp::Run(p.program, {out.View()}, {}).ok());
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 5; ++b) {
      EXPECT_EQ(out.as<int32_t>()[a * 5 + b], b < a ? a * 10 - b : b - a * 10);
    }
  }
}

TEST(ControlTest, RuntimeDimsAndScalars) {
  ProgramBuilder p;
  const Expr n = p.Dim("n");
  const Buffer x = p.Input("x", kFloat32, {n});
  const Buffer y = p.Output("y", kFloat32, {n});
  const Expr scale = MakeVar("scale", kFloat32), i = MakeVar("i"), b = MakeVar("b");
  p.program.params.push_back({ir::Param::kScalar, "scale", nullptr, scale, false});
  const Expr at = b * Expr(4) + i;
  p.program.body =
      Launch({{b, CeilDiv(n, Expr(4))}},
             Parallel({{i, Expr(4)}},
                      MakeStmt<ir::If>(kLoc, at < n, Store(y, {at}, Load(x, {at}) * scale))));
  const Tensor in = RandomTensor(kFloat32, {10}, 1), out(kFloat32, {10});
  Options options;
  EXPECT_EQ(interp::Run(p.program, {in.View(), out.View()}, options).status().code(),
            absl::StatusCode::kInvalidArgument)
      << "scale has no value";
  options.scalars["scale"] = 3;
  ASSERT_TRUE(interp::Run(p.program, {in.View(), out.View()}, options).ok())
      << "n comes from the shape";
  for (int k = 0; k < 10; ++k) EXPECT_EQ(out.as<float>()[k], in.as<float>()[k] * 3);
  options.dims["n"] = 11;
  EXPECT_EQ(interp::Run(p.program, {in.View(), out.View()}, options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ControlTest, HostStatementsAndWorkspaces) {
  // Two launches through a workspace whose size is bound on the host.
  ProgramBuilder p;
  const Expr n = p.Dim("n"), m = MakeVar("m"), a = MakeVar("a"), b = MakeVar("b");
  const Buffer x = p.Input("x", kFloat32, {n});
  const Buffer y = p.Output("y", kFloat32, {n});
  const Buffer w = MakeBuffer("w", kFloat32, {m}, Scope::kGlobal);
  p.program.body =
      Seq({MakeStmt<ir::Bind>(kLoc, m, n + Expr(1)), Alloc(w),
           Launch({{a, m}},
                  Store(w, {a}, MakeSelect(a < n, Load(x, {Min(a, n - Expr(1))}), MakeFloat(100)))),
           Launch({{b, n}}, Store(y, {b}, Load(w, {b}) + Load(w, {b + Expr(1)})))});
  const Tensor in = RandomTensor(kFloat32, {6}, 1), out(kFloat32, {6});
  const auto status = interp::Run(p.program, {in.View(), out.View()}, {}).status();
  ASSERT_TRUE(status.ok()) << status;
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(out.as<float>()[i], in.as<float>()[i] + (i < 5 ? in.as<float>()[i + 1] : 100));
  }
}

TEST(VectorTest, LoadsStoresPredicatesAndReductions) {
  ProgramBuilder p;
  const Buffer x = p.Input("x", kFloat32, {Expr(2), Expr(10)});
  const Buffer y = p.Input("y", kFloat32, {Expr(2), Expr(10)});
  const Buffer r = p.Output("r", kFloat32, {Expr(4)});
  const Expr i = MakeVar("i");
  const Expr lanes = MakeRamp(i * Expr(8), Expr(1), 8);
  const Expr inside = lanes < MakeBroadcast(Expr(10), 8);
  const Expr v = MakeLoad(x, {Expr(1), lanes}, inside);
  const Expr doubled = v * MakeBroadcast(MakeFloat(2), 8);
  const Expr vec = MakeVar("vec", kFloat32.with_lanes(8));
  const auto reduce = [&](Intrinsic op) { return MakeCall(kFloat32, op, {vec}); };
  p.OneBlock({Serial(i, Expr(2), Store(y, {Expr(1), lanes}, doubled, inside)),
              MakeStmt<ir::Bind>(kLoc, vec, MakeLoad(x, {Expr(0), MakeRamp(Expr(9), Expr(-1), 8)})),
              Store(r, {Expr(0)}, reduce(Intrinsic::kReduceAdd)),
              Store(r, {Expr(1)}, reduce(Intrinsic::kReduceMax)),
              Store(r, {Expr(2)}, reduce(Intrinsic::kReduceMin)),
              Store(r, {Expr(3)},
                    MakeCall(kFloat32, Intrinsic::kReduceAdd,
                             {MakeSelect(vec > MakeBroadcast(MakeFloat(0), 8), vec,
                                         MakeBroadcast(MakeFloat(0), 8))})),
              MakeStmt<ir::Evaluate>(kLoc, MakeCall(kInt32, Intrinsic::kPrefetch,
                                                    {MakeLoad(x, {Expr(7), Expr(99)})}))});
  const Tensor in = RandomTensor(kFloat32, {2, 10}, 5), out(kFloat32, {2, 10});
  const Tensor red(kFloat32, {4});
  const auto status = interp::Run(p.program, {in.View(), out.View(), red.View()}, {}).status();
  ASSERT_TRUE(status.ok()) << status;
  double sum = 0, positive = 0;
  float high = -9, low = 9;
  for (int k = 0; k < 10; ++k) {
    EXPECT_EQ(out.as<float>()[10 + k], 2 * in.as<float>()[10 + k]);
    EXPECT_EQ(out.as<float>()[k], 0);
    const float f = in.as<float>()[k];
    if (k < 2) continue;
    sum += f;
    positive += f > 0 ? f : 0;
    high = std::max(high, f);
    low = std::min(low, f);
  }
  EXPECT_NEAR(red.as<float>()[0], sum, 1e-6);
  EXPECT_EQ(red.as<float>()[1], high);
  EXPECT_EQ(red.as<float>()[2], low);
  EXPECT_NEAR(red.as<float>()[3], positive, 1e-6);
}

TEST(VectorTest, SeveralVectorIndices) {
  ProgramBuilder p;
  const Buffer x = p.Input("x", kFloat32, {Expr(4), Expr(4), Expr(2)});
  const Buffer y = p.Output("y", kFloat32, {Expr(4), Expr(4)});
  const Expr lanes = MakeRamp(Expr(0), Expr(1), 4);
  const Expr row = FloorMod(lanes + Expr(1), Expr(4));
  p.OneBlock({Fill(WholeBuffer(y), MakeFloat(0)),
              Store(y, {lanes, row}, MakeLoad(x, {lanes, row, MakeBroadcast(Expr(1), 4)}))});
  const Tensor in = RandomTensor(kFloat32, {4, 4, 2}, 5), out(kFloat32, {4, 4});
  const auto status = interp::Run(p.program, {in.View(), out.View()}, {}).status();
  ASSERT_TRUE(status.ok()) << status;
  for (int k = 0; k < 4; ++k) {
    const int at = k * 4 + (k + 1) % 4;
    EXPECT_EQ(out.as<float>()[at], in.as<float>()[at * 2 + 1]);
  }
}

TEST(ExpressionTest, IntegersOfEveryWidth) {
  ProgramBuilder p;
  const Buffer x = p.Input("x", kUInt8, {Expr(2)});
  const Buffer y = p.Output("y", kInt32, {Expr(6)});
  const Expr a = Load(x, {Expr(0)}), b = Load(x, {Expr(1)});
  const auto wide = [](const Expr& e) { return MakeCast(kInt32, e); };
  const Expr ai = wide(a) - Expr(300), bi = wide(b);
  p.OneBlock(
      {Store(y, {Expr(0)}, wide(a + b)), Store(y, {Expr(1)}, wide(a - b)),
       Store(y, {Expr(2)}, FloorDiv(ai, bi)), Store(y, {Expr(3)}, FloorMod(ai, bi)),
       Store(y, {Expr(4)}, MakeBinary(BinaryOp::kShr, ai, Expr(3))),
       Store(y, {Expr(5)}, MakeCall(kInt32, Intrinsic::kReinterpret, {MakeCast(kFloat32, a)}))});
  const Tensor in(kUInt8, {2}), out(kInt32, {6});
  in.as<uint8_t>()[0] = 200;
  in.as<uint8_t>()[1] = 99;
  ASSERT_TRUE(interp::Run(p.program, {in.View(), out.View()}, {}).ok());
  const std::vector<int32_t> got(out.as<int32_t>(), out.as<int32_t>() + 6);
  EXPECT_EQ(got, (std::vector<int32_t>{43, 101, -2, 98, -13, 0x43480000}));
}

TEST(ExpressionTest, Intrinsics) {
  const std::pair<Intrinsic, double (*)(double)> table[] = {
      {Intrinsic::kExp, std::exp},
      {Intrinsic::kExp2, std::exp2},
      {Intrinsic::kLog, std::log},
      {Intrinsic::kLog2, std::log2},
      {Intrinsic::kSqrt, std::sqrt},
      {Intrinsic::kTanh, std::tanh},
      {Intrinsic::kAbs, std::fabs},
      {Intrinsic::kSin, std::sin},
      {Intrinsic::kCos, std::cos},
      {Intrinsic::kErf, std::erf},
      {Intrinsic::kFloor, std::floor},
      {Intrinsic::kCeil, std::ceil},
      {Intrinsic::kRound, std::nearbyint},
      {Intrinsic::kTrunc, std::trunc},
      {Intrinsic::kRsqrt, [](double v) { return 1 / std::sqrt(v); }},
      {Intrinsic::kSigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }}};
  for (const auto& [op, function] : table) {
    ProgramBuilder p;
    const Buffer x = p.Input("x", kFloat32, {Expr(4)});
    const Buffer y = p.Output("y", kFloat32, {Expr(4)});
    const Expr i = MakeVar("i");
    p.OneBlock({Parallel({{i, Expr(4)}}, Store(y, {i}, MakeCall(kFloat32, op, {Load(x, {i})})))});
    const Tensor in(kFloat32, {4}), out(kFloat32, {4});
    const float values[] = {0.5f, 2.5f, 1.0f, 7.25f};
    std::copy(values, values + 4, in.as<float>());
    ASSERT_TRUE(interp::Run(p.program, {in.View(), out.View()}, {}).ok());
    for (int k = 0; k < 4; ++k) {
      EXPECT_EQ(out.as<float>()[k], static_cast<float>(function(values[k]))) << ir::Name(op);
    }
  }
}

TEST(OptionsTest, BlockFilterOrderAndSteps) {
  ProgramBuilder p;
  const Buffer y = p.Input("y", kInt32, {Expr(3), Expr(4)});
  const Expr bx = MakeVar("bx"), by = MakeVar("by"), i = MakeVar("i");
  p.program.body = Launch({{bx, Expr(4)}, {by, Expr(3)}},
                          Serial(i, Expr(10), Store(y, {by, bx}, by * Expr(10) + bx + i)));
  const Tensor out(kInt32, {3, 4});
  Options options;
  options.block_filter = [](int launch, const int64_t(&b)[3]) {
    return launch == 0 && b[0] == 2 && b[1] != 1;
  };
  const auto stats = interp::Run(p.program, {out.View()}, options);
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->blocks, 2);
  EXPECT_EQ(out.as<int32_t>()[2], 11);
  EXPECT_EQ(out.as<int32_t>()[6], 0);
  EXPECT_EQ(out.as<int32_t>()[10], 31);
  options.max_steps = 15;
  EXPECT_EQ(interp::Run(p.program, {out.View()}, options).status().code(),
            absl::StatusCode::kResourceExhausted);
  Options bounded;
  bounded.max_steps = 1000;
  p.OneBlock({MakeStmt<ir::While>(kLoc, Expr(1) < Load(y, {Expr(0), Expr(2)}), Seq({}))});
  EXPECT_EQ(interp::Run(p.program, {out.View()}, bounded).status().code(),
            absl::StatusCode::kResourceExhausted)
      << "an endless loop ends";
}

TEST(OptionsTest, OrderOfBlocksAndIterationsDoesNotMatter) {
  ProgramBuilder p;
  const Buffer x = p.Input("x", kFloat32, {Expr(16)});
  const Buffer y = p.Output("y", kFloat32, {Expr(16)});
  const Buffer t = MakeBuffer("t", kFloat32, {Expr(4)}, Scope::kShared);
  const Expr b = MakeVar("b"), i = MakeVar("i"), j = MakeVar("j");
  p.program.body =
      Launch({{b, Expr(4)}},
             Seq({Alloc(t), Parallel({{i, Expr(4)}}, Store(t, {i}, Load(x, {b * Expr(4) + i}))),
                  Parallel({{j, Expr(4)}},
                           Store(y, {b * Expr(4) + j}, Load(t, {Expr(3) - j}) + Load(t, {j})))}));
  const Tensor in = RandomTensor(kFloat32, {16}, 1), forward(kFloat32, {16}), back(kFloat32, {16});
  Options reverse;
  reverse.order = Order::kReverse;
  ASSERT_TRUE(interp::Run(p.program, {in.View(), forward.View()}, {}).ok());
  ASSERT_TRUE(interp::Run(p.program, {in.View(), back.View()}, reverse).ok());
  EXPECT_TRUE(Compare(forward.View(), back.View(), {}).ok());
  EXPECT_NE(forward.as<float>()[0], 0);
}

TEST(ArgumentsTest, ShapesAndRandomArguments) {
  ProgramBuilder p;
  const Expr n = p.Dim("n");
  const Buffer x = p.Input("x", kFloat32, {n, n + Expr(1)});
  const Buffer y = p.Output("y", kFloat32, {n});
  p.OneBlock({Fill(WholeBuffer(y), MakeFloat(0))});
  Options options;
  EXPECT_FALSE(ParamShapes(p.program, options).ok());
  options.dims["n"] = 3;
  const auto shapes = ParamShapes(p.program, options);
  ASSERT_TRUE(shapes.ok());
  EXPECT_EQ(*shapes, (std::vector<std::vector<int64_t>>{{3, 4}, {3}}));
  const auto args = RandomArguments(p.program, options, 1);
  ASSERT_TRUE(args.ok());
  EXPECT_TRUE(std::isnan((*args)[1].as<float>()[0]));
  EXPECT_LE(std::abs((*args)[0].as<float>()[5]), 1);
  options.dims["n"] = -3;
  EXPECT_EQ(ParamShapes(p.program, options).status().code(), absl::StatusCode::kInvalidArgument);
  options.dims["n"] = 1 << 30;
  EXPECT_EQ(RandomArguments(p.program, options, 1).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace kiln::interp::testing
