// What a program must not do is reported with the source line, and nothing else is.
#include <gtest/gtest.h>

#include "tests/unit/interp/builder.h"

namespace kiln::interp::testing {
namespace {

using ir::MakeFloat;
using ir::MakeVar;

void ExpectFailure(const absl::Status& status, absl::StatusCode code, const std::string& text) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(status.message().find(text), absl::string_view::npos) << status;
  const auto diagnostic = DiagnosticOf(status);
  ASSERT_TRUE(diagnostic.has_value()) << status;
  EXPECT_EQ(diagnostic->path, "k.py");
  EXPECT_EQ(diagnostic->loc.line, 3);
  EXPECT_EQ(diagnostic->source_line, "    three lines");
  EXPECT_FALSE(diagnostic->remedy.empty());
}

// A program with an input x[n], an in-out y[n] and an output z[n].
struct Fixture : ProgramBuilder {
  static constexpr int kN = 16;
  Buffer x = Input("x", kFloat32, {Expr(kN)});
  Buffer y = Input("y", kFloat32, {Expr(kN)});
  Buffer z = Output("z", kFloat32, {Expr(kN)});
  Buffer t = MakeBuffer("t", kFloat32, {Expr(8)}, Scope::kShared);
  Expr i = MakeVar("i"), j = MakeVar("j"), b = MakeVar("b");
  Tensor tx = RandomTensor(kFloat32, {kN}, 1), ty = RandomTensor(kFloat32, {kN}, 2);
  Tensor tz{kFloat32, {kN}};

  absl::Status Execute(Options options = {}) {
    return interp::Run(program, {tx.View(), ty.View(), tz.View()}, options).status();
  }
  Stmt AddAtomically(const Buffer& buffer, Expr index, Expr value) {
    return MakeStmt<ir::Atomic>(kLoc, ir::AtomicOp::kAdd, Box(buffer, {{index, Expr(1)}}), Region{},
                                value);
  }
};

TEST(BoundsTest, LoadsAndStores) {
  Fixture f;
  f.OneBlock({Serial(f.i, Expr(17), Store(f.y, {Min(f.i, Expr(3))}, Load(f.x, {f.i})))});
  ExpectFailure(f.Execute(), absl::StatusCode::kOutOfRange,
                "access outside 'x': index 16 of dimension 0, whose extent is 16");
  EXPECT_NE(f.Execute().message().find("in the loop with i = 16"), absl::string_view::npos);
  f.OneBlock({Store(f.y, {Expr(-1) + f.i * Expr(0)}, MakeFloat(1))});
  ExpectFailure(f.Execute(), absl::StatusCode::kOutOfRange, "access outside 'y': index -1");
  f.OneBlock({Alloc(f.t), Store(f.t, {Expr(8)}, MakeFloat(1))});
  Options clip;
  clip.clip_global = true;
  ExpectFailure(f.Execute(clip), absl::StatusCode::kOutOfRange, "access outside 't'");
}

TEST(BoundsTest, ClipsGlobalElementAccessesOnRequest) {
  Fixture f;
  f.program.body = Launch(
      {{f.b, Expr(3)}},
      Parallel({{f.i, Expr(8)}},
               Store(f.y, {f.b * Expr(8) + f.i}, Load(f.x, {f.b * Expr(8) + f.i - Expr(1)}))));
  EXPECT_EQ(f.Execute().code(), absl::StatusCode::kOutOfRange);
  Options clip;
  clip.clip_global = true;
  ASSERT_TRUE(f.Execute(clip).ok()) << f.Execute(clip);
  EXPECT_EQ(f.ty.as<float>()[0], 0);
  for (int k = 1; k < 16; ++k) EXPECT_EQ(f.ty.as<float>()[k], f.tx.as<float>()[k - 1]);
}

TEST(BoundsTest, TileOperations) {
  Fixture f;
  f.OneBlock({Fill(Box(f.y, {{Expr(10), Expr(7)}}), MakeFloat(0))});
  ExpectFailure(f.Execute(), absl::StatusCode::kOutOfRange, "region outside 'y'");
  Options clip;
  clip.clip_global = true;
  EXPECT_TRUE(f.Execute(clip).ok());
  const Buffer one = MakeBuffer("one", kFloat32, {Expr(1)}, Scope::kFragment);
  f.OneBlock(
      {Alloc(one), MakeStmt<ir::Reduce>(kLoc, ir::ReduceOp::kSum, Box(f.x, {{Expr(10), Expr(7)}}),
                                        WholeBuffer(one), 0, true)});
  ExpectFailure(f.Execute(), absl::StatusCode::kOutOfRange, "region outside 'x'");
  f.OneBlock({Copy(Box(f.x, {{Expr(10), Expr(7)}}), Box(f.y, {{Expr(12), Expr(7)}}))});
  EXPECT_TRUE(f.Execute().ok()) << "a copy clips";
}

TEST(BoundsTest, GuardsProtect) {
  Fixture f;
  const Expr inside = f.i < Expr(16);
  f.OneBlock(
      {Serial(f.i, Expr(20),
              Seq({Store(f.y, {f.i}, Load(f.x, {f.i}), inside),
                   MakeStmt<ir::If>(kLoc, inside, Store(f.y, {f.i}, MakeFloat(1))),
                   Store(f.y, {Expr(0)}, MakeSelect(inside, Load(f.x, {f.i}), MakeFloat(0)))}))});
  EXPECT_TRUE(f.Execute().ok()) << f.Execute();
}

TEST(UninitialisedTest, Reads) {
  Fixture f;
  f.OneBlock({Alloc(f.t), Store(f.t, {Expr(2)}, MakeFloat(1)),
              Store(f.y, {Expr(0)}, Load(f.t, {Expr(3)}))});
  ExpectFailure(f.Execute(), absl::StatusCode::kFailedPrecondition,
                "read of 't[3]', which nothing has written");
  Options off;
  off.detect_uninitialised = false;
  EXPECT_TRUE(f.Execute(off).ok());
  f.OneBlock({Alloc(f.t), Copy(WholeBuffer(f.t), Box(f.y, {{Expr(0), Expr(8)}}))});
  ExpectFailure(f.Execute(), absl::StatusCode::kFailedPrecondition, "'t[0]'");
  f.OneBlock({Store(f.y, {Expr(0)}, Load(f.z, {Expr(5)}))});
  ExpectFailure(f.Execute(), absl::StatusCode::kFailedPrecondition, "'z[5]'");
  f.OneBlock({f.AddAtomically(f.z, Expr(4), MakeFloat(1))});
  ExpectFailure(f.Execute(), absl::StatusCode::kFailedPrecondition, "'z[4]'");
}

TEST(UninitialisedTest, EachAllocationStartsAnew) {
  Fixture f;
  f.OneBlock({Serial(
      f.i, Expr(2),
      Seq({Alloc(f.t), MakeStmt<ir::If>(kLoc, f.i < Expr(1), Fill(WholeBuffer(f.t), MakeFloat(1))),
           Store(f.y, {f.i}, Load(f.t, {Expr(0)}))}))});
  ExpectFailure(f.Execute(), absl::StatusCode::kFailedPrecondition, "'t[0]'");
  EXPECT_NE(f.Execute().message().find("i = 1"), absl::string_view::npos);
}

TEST(UninitialisedTest, PartsThatNobodyNeedsMayStayUnwritten) {
  Fixture f;
  // Only the last three elements of the tile leave it: the rest is clipped away.
  f.OneBlock({Alloc(f.t), Fill(Box(f.t, {{Expr(0), Expr(3)}}), MakeFloat(4)),
              Copy(WholeBuffer(f.t), Box(f.y, {{Expr(13), Expr(8)}}))});
  EXPECT_TRUE(f.Execute().ok()) << f.Execute();
  EXPECT_EQ(f.ty.as<float>()[15], 4);
}

TEST(RaceTest, IterationsOfAParallelLoop) {
  Fixture f;
  const auto loop = [&](Stmt body) {
    f.OneBlock({Alloc(f.t), Fill(WholeBuffer(f.t), MakeFloat(0)),
                Parallel({{f.i, Expr(4)}, {f.j, Expr(2)}}, body)});
    return f.Execute();
  };
  ExpectFailure(loop(Store(f.t, {f.i}, MakeFloat(1))), absl::StatusCode::kFailedPrecondition,
                "race: two iterations of a parallel loop (number 0 and number 1, in row-major "
                "order) both write 't[0]'");
  ExpectFailure(loop(Store(f.t, {f.i * Expr(2) + f.j}, Load(f.t, {Expr(3)}))),
                absl::StatusCode::kFailedPrecondition, "race");
  const Expr own = f.i * Expr(2) + f.j;
  ExpectFailure(loop(Store(f.t, {own}, Load(f.t, {Max(own - Expr(1), Expr(0))}))),
                absl::StatusCode::kFailedPrecondition, "write and read 't[0]'");
  ExpectFailure(loop(Store(f.t, {own}, Load(f.t, {Min(own + Expr(1), Expr(7))}))),
                absl::StatusCode::kFailedPrecondition, "read and write 't[1]'");
  ExpectFailure(loop(Seq({f.AddAtomically(f.t, Expr(0), MakeFloat(1)),
                          Store(f.y, {own}, Load(f.t, {Expr(0)}))})),
                absl::StatusCode::kFailedPrecondition, "atomically");
  Options off;
  off.detect_races = false;
  EXPECT_TRUE(f.Execute(off).ok());
}

TEST(RaceTest, RemembersThatSeveralIterationsTouchedAnElement) {
  Fixture f;
  const auto loop = [&](Stmt body) {
    f.OneBlock(
        {Alloc(f.t), Fill(WholeBuffer(f.t), MakeFloat(0)), Parallel({{f.i, Expr(8)}}, body)});
    return f.Execute();
  };
  const Expr last = Equal(f.i, Expr(7));
  const Stmt read = Store(f.y, {Expr(0)}, Load(f.t, {Expr(0)}));
  ExpectFailure(
      loop(Seq({f.AddAtomically(f.t, Expr(0), MakeFloat(1)), MakeStmt<ir::If>(kLoc, last, read)})),
      absl::StatusCode::kFailedPrecondition, "(several others");
  ExpectFailure(loop(Seq({Store(f.y, {f.i}, Load(f.t, {Expr(0)})),
                          MakeStmt<ir::If>(kLoc, last, Store(f.t, {Expr(0)}, MakeFloat(1)))})),
                absl::StatusCode::kFailedPrecondition, "(several others");
}

TEST(RaceTest, NotReportedFalsely) {
  Fixture f;
  const Expr own = f.i * Expr(2) + f.j, k = MakeVar("k");
  const Buffer mine = MakeBuffer("mine", kFloat32, {Expr(1)}, Scope::kLocal);
  const auto axes = std::vector<std::pair<Expr, Expr>>{{f.i, Expr(4)}, {f.j, Expr(2)}};
  f.OneBlock(
      {Alloc(f.t), Fill(WholeBuffer(f.t), MakeFloat(0)),
       Parallel(axes, Seq({Store(f.t, {own}, Load(f.t, {own}) + MakeFloat(1)),  // its own element
                           Alloc(mine), Store(mine, {Expr(0)}, Load(f.x, {Expr(3)})),  // private
                           Store(f.t, {own}, Load(mine, {Expr(0)})),
                           f.AddAtomically(f.y, Expr(0), MakeFloat(1))})),  // atomics only
       // A later loop may read what an earlier one wrote.
       Parallel({{k, Expr(8)}}, Store(f.y, {k + Expr(1)}, Load(f.t, {Expr(7) - k})))});
  EXPECT_TRUE(f.Execute().ok()) << f.Execute();
}

TEST(RaceTest, NestedParallelLoopsAreTwoLevels) {
  Fixture f;
  const Expr a = MakeVar("a"), c = MakeVar("c");
  const Buffer m = MakeBuffer("m", kFloat32, {Expr(4), Expr(4)}, Scope::kShared);
  // Inside one outer iteration the second inner loop may read what the first wrote...
  const auto body = [&](Expr row) {
    return Seq(
        {Parallel({{f.j, Expr(4)}}, Store(m, {f.i, f.j}, MakeFloat(1))),
         Parallel({{a, Expr(4)}}, Store(f.y, {f.i * Expr(4) + a}, Load(m, {row, Expr(3) - a})))});
  };
  f.OneBlock({Alloc(m), Fill(WholeBuffer(m), MakeFloat(0)), Parallel({{f.i, Expr(4)}}, body(f.i))});
  EXPECT_TRUE(f.Execute().ok()) << f.Execute();
  // ... but not what another outer iteration wrote.
  f.OneBlock(
      {Alloc(m), Fill(WholeBuffer(m), MakeFloat(0)), Parallel({{f.i, Expr(4)}}, body(Expr(0)))});
  ExpectFailure(f.Execute(), absl::StatusCode::kFailedPrecondition, "race");
}

TEST(RaceTest, Blocks) {
  Fixture f;
  const auto launch = [&](Stmt body) {
    f.program.body = Launch({{f.b, Expr(4)}}, body);
    return f.Execute();
  };
  ExpectFailure(launch(Store(f.z, {Expr(1)}, MakeCast(kFloat32, f.b))),
                absl::StatusCode::kFailedPrecondition,
                "race: two blocks (number 0 and number 1, in row-major order) both write 'z[1]'");
  EXPECT_TRUE(launch(Store(f.z, {Expr(1)}, MakeFloat(7))).ok()) << "equal values do no harm";
  EXPECT_TRUE(launch(f.AddAtomically(f.y, Expr(1), MakeFloat(7))).ok());
  ExpectFailure(launch(Store(f.y, {f.b}, Load(f.y, {Expr(0)}) + MakeFloat(1))),
                absl::StatusCode::kFailedPrecondition, "race: two blocks");
  EXPECT_TRUE(launch(Store(f.y, {f.b}, Load(f.y, {f.b}) + MakeFloat(1))).ok()) << "in place";
}

TEST(RaceTest, OverlappingCopiesOfBlocks) {
  Fixture f;
  f.program.body = Launch({{f.b, Expr(4)}}, Copy(Box(f.x, {{f.b * Expr(4), Expr(5)}}),
                                                 Box(f.z, {{f.b * Expr(3), Expr(5)}})));
  ExpectFailure(f.Execute(), absl::StatusCode::kFailedPrecondition, "both write 'z[3]'");
  f.program.body = Launch({{f.b, Expr(4)}}, Copy(Box(f.x, {{f.b * Expr(3), Expr(5)}}),
                                                 Box(f.z, {{f.b * Expr(3), Expr(5)}})));
  EXPECT_TRUE(f.Execute().ok()) << "overlapping, but with equal values";
}

TEST(ArithmeticTest, DivisionByZeroShiftsAndAsserts) {
  Fixture f;
  const Buffer n = f.Input("n", kInt32, {Expr(1)});
  Tensor tn(kInt32, {1});
  const Expr v = Load(n, {Expr(0)});
  const auto run = [&](Stmt s, int value) {
    tn.as<int32_t>()[0] = value;
    f.OneBlock({std::move(s)});
    return interp::Run(f.program, {f.tx.View(), f.ty.View(), f.tz.View(), tn.View()}, {}).status();
  };
  const auto store = [&](const Expr& e) { return Store(n, {Expr(0)}, e); };
  ExpectFailure(run(store(FloorDiv(Expr(7), v)), 0), absl::StatusCode::kFailedPrecondition,
                "division of 7 by zero");
  EXPECT_TRUE(run(store(FloorDiv(Expr(7), v)), 2).ok());
  ExpectFailure(run(store(MakeBinary(ir::BinaryOp::kShl, Expr(1), v)), 32),
                absl::StatusCode::kFailedPrecondition, "shift of a int32 by 32");
  const Stmt check = MakeStmt<ir::Assert>(kLoc, v > Expr(3), "n must be above 3");
  ExpectFailure(run(check, 3), absl::StatusCode::kFailedPrecondition,
                "assertion failed: n must be above 3");
  EXPECT_TRUE(run(check, 4).ok());
}

TEST(ArgumentTest, ViewsMustFit) {
  Fixture f;
  f.OneBlock({});
  const TensorView x = f.tx.View(), y = f.ty.View();
  const auto code = [&](const std::vector<TensorView>& views) {
    return interp::Run(f.program, views, {}).status().code();
  };
  EXPECT_EQ(code({x, y}), absl::StatusCode::kInvalidArgument);
  TensorView bad = f.tz.View();
  bad.shape = {15};
  EXPECT_EQ(code({x, y, bad}), absl::StatusCode::kInvalidArgument);
  bad = f.tz.View();
  bad.dtype = kInt32;
  EXPECT_EQ(code({x, y, bad}), absl::StatusCode::kInvalidArgument);
  bad = f.tz.View();
  bad.data = nullptr;
  EXPECT_EQ(code({x, y, bad}), absl::StatusCode::kInvalidArgument);
  bad = f.tz.View();
  bad.strides = {-1};
  EXPECT_EQ(code({x, y, bad}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({x, y, f.tz.View()}), absl::StatusCode::kOk);
  const Buffer big = MakeBuffer("big", kFloat32, {Expr(1 << 20), Expr(1 << 20)}, Scope::kShared);
  f.OneBlock({Alloc(big)});
  EXPECT_EQ(code({x, y, f.tz.View()}), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace kiln::interp::testing
