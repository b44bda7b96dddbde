// A sampled reference equals the same elements of a full run, and runs no more blocks than needed.
#include <gtest/gtest.h>

#include "tests/unit/interp/builder.h"

namespace kiln::interp::testing {
namespace {

using ir::MakeFloat;
using ir::MakeVar;

// c[m, n] = a[m, k] * b[k, n] over tiles; split > 1: each z block adds its part atomically, after a
// launch that clears c.
struct MatMul : ProgramBuilder {
  static constexpr int kM = 50, kN = 70, kK = 40, kTile = 16;
  Tensor a = RandomTensor(kFloat32, {kM, kK}, 1), b = RandomTensor(kFloat32, {kK, kN}, 2);

  explicit MatMul(int split) {
    const Buffer ba = Input("a", kFloat32, {Expr(kM), Expr(kK)});
    const Buffer bb = Input("b", kFloat32, {Expr(kK), Expr(kN)});
    const Buffer bc = Output("c", kFloat32, {Expr(kM), Expr(kN)});
    const Expr bx = MakeVar("bx"), by = MakeVar("by"), bz = MakeVar("bz"), k = MakeVar("k");
    const Expr row = MakeVar("row");
    const auto tile = [](const char* name, Scope scope) {
      return MakeBuffer(name, kFloat32, {Expr(kTile), Expr(kTile)}, scope);
    };
    const Buffer as = tile("as", Scope::kShared), bs = tile("bs", Scope::kShared);
    const Buffer cl = tile("cl", Scope::kFragment);
    const auto at = [](const Buffer& buffer, Expr r, Expr c) {
      return Box(buffer, {{r * Expr(kTile), Expr(kTile)}, {c * Expr(kTile), Expr(kTile)}});
    };
    const Expr step = k * Expr(split) + bz;
    const Stmt multiply =
        MakeStmt<ir::Gemm>(kLoc, WholeBuffer(as), WholeBuffer(bs), WholeBuffer(cl), false, false,
                           ir::GemmPolicy::kSquare, ir::MakeBool(false));
    const Stmt loop =
        For(ir::ForKind::kPipelined, k, Expr((kK + kTile * split - 1) / (kTile * split)),
            Seq({Copy(at(ba, row, step), WholeBuffer(as)), Copy(at(bb, step, bx), WholeBuffer(bs)),
                 multiply}));
    const Region out = at(bc, row, bx);
    const Stmt store =
        split == 1 ? Copy(WholeBuffer(cl), out)
                   : MakeStmt<ir::Atomic>(kLoc, ir::AtomicOp::kAdd, out, WholeBuffer(cl), Expr());
    const Stmt main = Launch({{bx, Expr((kN + kTile - 1) / kTile)},
                              {by, Expr((kM + kTile - 1) / kTile)},
                              {bz, Expr(split)}},
                             Seq({MakeStmt<ir::Bind>(kLoc, row, by), Alloc(as), Alloc(bs),
                                  Alloc(cl), Fill(WholeBuffer(cl), MakeFloat(0)), loop, store}));
    const Expr z = MakeVar("z");
    const Stmt clear =
        Launch({{z, Expr(kM)}}, Fill(Box(bc, {{z, Expr(1)}, {Expr(0), Expr(kN)}}), MakeFloat(0)));
    program.body = split == 1 ? main : Seq({clear, main});
  }

  std::vector<double> Full() {
    const Tensor c(kFloat64, {kM, kN});
    Options options;
    options.mode = Mode::kDouble;
    const auto status = interp::Run(program, {a.View(), b.View(), c.View()}, options).status();
    EXPECT_TRUE(status.ok()) << status;
    return {c.as<double>(), c.as<double>() + c.elements()};
  }
  TensorView NoData() const { return {nullptr, kFloat32, {kM, kN}, {}}; }
};

TEST(SampleTest, MatMulRunsOneBlockAnElement) {
  MatMul f(1);
  const std::vector<double> full = f.Full();
  for (const int64_t element : {0, 69, 70 * 49 + 69, 70 * 17 + 33}) {
    Stats stats;
    const auto got =
        SampleReference(f.program, {f.a.View(), f.b.View(), f.NoData()}, 2, {element}, {}, &stats);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->at(0), full[element]);
    EXPECT_EQ(stats.blocks, 1);
    double sum = 0;
    for (int k = 0; k < f.kK; ++k) {
      sum += f.a.View().Get(element / f.kN * f.kK + k) * f.b.View().Get(k * f.kN + element % f.kN);
    }
    EXPECT_NEAR(got->at(0), sum, 1e-12);
  }
}

TEST(SampleTest, SplitKRunsAllContributorsAndTheClearing) {
  MatMul f(3);
  const std::vector<double> full = f.Full();
  Stats stats;
  const std::vector<int64_t> elements = {70 * 20 + 20, 70 * 21 + 19};
  const auto got =
      SampleReference(f.program, {f.a.View(), f.b.View(), f.NoData()}, 2, elements, {}, &stats);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->at(0), full[elements[0]]);
  EXPECT_EQ(got->at(1), full[elements[1]]);
  EXPECT_EQ(stats.blocks, 3 + 16) << "three parts of one tile, and the rows of that tile";
}

TEST(SampleTest, ReadsOfEarlierLaunchesAreFollowed) {
  // w = x reversed, y[i] = w[i] + w[i+1], both in blocks of 4.
  ProgramBuilder p;
  const Buffer x = p.Input("x", kFloat32, {Expr(32)});
  const Buffer y = p.Output("y", kFloat32, {Expr(31)});
  const Buffer w = MakeBuffer("w", kFloat32, {Expr(32)}, Scope::kGlobal);
  const Expr a = MakeVar("a"), b = MakeVar("b"), i = MakeVar("i"), j = MakeVar("j");
  const Expr first = a * Expr(4) + i, second = b * Expr(4) + j;
  p.program.body = Seq(
      {Alloc(w),
       Launch({{a, Expr(8)}},
              Parallel({{i, Expr(4)}}, Store(w, {first}, Load(x, {Expr(31) - first})))),
       Launch({{b, Expr(8)}},
              Parallel({{j, Expr(4)}},
                       MakeStmt<ir::If>(
                           kLoc, second < Expr(31),
                           Store(y, {second}, Load(w, {second}) + Load(w, {second + Expr(1)})))))});
  const Tensor tx = RandomTensor(kFloat32, {32}, 1);
  Stats stats;
  const auto got = SampleReference(p.program, {tx.View(), {nullptr, kFloat32, {31}, {}}}, 1,
                                   {5, 30}, {}, &stats);
  ASSERT_TRUE(got.ok()) << got.status();
  for (int s = 0; s < 2; ++s) {
    const int e = s ? 30 : 5;
    EXPECT_EQ(got->at(s), tx.View().Get(31 - e) + tx.View().Get(30 - e));
  }
  EXPECT_EQ(stats.blocks, 2 + 3) << "blocks 1 and 7 read w[4..8] and w[28..32]";
}

TEST(SampleTest, IndicesThatAnalysisCannotFollowRunEverything) {
  // y[p[b]] = x[b]: the destination is data.
  ProgramBuilder p;
  const Buffer x = p.Input("x", kFloat32, {Expr(8)});
  const Buffer perm = p.Input("p", kInt32, {Expr(8)});
  const Buffer y = p.Output("y", kFloat32, {Expr(8)});
  const Expr b = MakeVar("b");
  p.program.body = Launch({{b, Expr(8)}}, Store(y, {Load(perm, {b})}, Load(x, {b})));
  const Tensor tx = RandomTensor(kFloat32, {8}, 1), tp(kInt32, {8});
  for (int i = 0; i < 8; ++i) tp.as<int32_t>()[i] = (i * 3) % 8;
  Stats stats;
  const auto got = SampleReference(p.program, {tx.View(), tp.View(), {nullptr, kFloat32, {8}, {}}},
                                   2, {3}, {}, &stats);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->at(0), tx.View().Get(1));
  EXPECT_EQ(stats.blocks, 8);
}

TEST(SampleTest, SwizzledBlocksAreFollowedExactly) {
  // Block ids through division and remainder: tile = (b % 3) * 4 + b // 3.
  ProgramBuilder p;
  const Buffer x = p.Input("x", kFloat32, {Expr(48)});
  const Buffer y = p.Output("y", kFloat32, {Expr(48)});
  const Expr b = MakeVar("b"), t = MakeVar("t");
  p.program.body = Launch(
      {{b, Expr(12)}},
      Seq({MakeStmt<ir::Bind>(kLoc, t, FloorMod(b, Expr(3)) * Expr(4) + FloorDiv(b, Expr(3))),
           Copy(Box(x, {{t * Expr(4), Expr(4)}}), Box(y, {{t * Expr(4), Expr(4)}}))}));
  const Tensor tx = RandomTensor(kFloat32, {48}, 1);
  for (int e = 0; e < 48; e += 5) {
    Stats stats;
    const auto got =
        SampleReference(p.program, {tx.View(), {nullptr, kFloat32, {48}, {}}}, 1, {e}, {}, &stats);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->at(0), tx.View().Get(e));
    EXPECT_EQ(stats.blocks, 1) << e;
  }
}

TEST(SampleTest, InOutTensorsStartFromTheirValuesAndStayUntouched) {
  ProgramBuilder p;
  const Buffer y = p.Input("y", kFloat16, {Expr(8)});
  const Expr b = MakeVar("b");
  p.program.body = Launch({{b, Expr(8)}},
                          Store(y, {b}, MakeCast(kFloat16, Load(y, {b})) * MakeFloat(3, kFloat16)));
  const Tensor ty = RandomTensor(kFloat16, {8}, 1), copy = RandomTensor(kFloat16, {8}, 1);
  const auto got = SampleReference(p.program, {ty.View()}, 0, {7, 2}, {});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->at(0), ty.View().Get(7) * 3);
  EXPECT_EQ(got->at(1), ty.View().Get(2) * 3);
  EXPECT_TRUE(Compare(ty.View(), copy.View(), {}).ok());
}

// A parameter that nothing marks as an output needs no data where the kernel only writes it.
TEST(SampleTest, WrittenTensorsNeedNoDataUnlessTheyAreRead) {
  for (const bool reads : {false, true}) {
    ProgramBuilder p;
    const Buffer y = p.Input("y", kFloat32, {Expr(8)});
    const Expr b = MakeVar("b");
    p.program.body =
        Launch({{b, Expr(4)}}, Store(y, {b}, reads ? Load(y, {b}) : MakeFloat(5, kFloat32)));
    const TensorView none{nullptr, kFloat32, {8}, {}};
    const auto got = SampleReference(p.program, {none}, 0, {3}, {});
    EXPECT_EQ(got.ok(), !reads) << got.status();
    if (got.ok()) EXPECT_EQ(got->at(0), 5);
  }
}

TEST(SampleTest, Errors) {
  ProgramBuilder p;
  const Buffer y = p.Output("y", kFloat32, {Expr(8)});
  p.OneBlock({Fill(Box(y, {{Expr(0), Expr(7)}}), MakeFloat(1))});
  const TensorView none{nullptr, kFloat32, {8}, {}};
  EXPECT_EQ(SampleReference(p.program, {none}, 0, {7}, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(SampleReference(p.program, {none}, 0, {8}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SampleReference(p.program, {none}, 1, {0}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SampleReference(p.program, {}, 0, {0}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// y[j] = a[j] + the sum of all a: the loop that sums goes over the same tile as the one that
// stores, but must not shrink with it.
TEST(SampleTest, NarrowedBlocksStillSumOverEverything) {
  ProgramBuilder p;
  const Buffer a = p.Input("a", kFloat32, {Expr(32)}), y = p.Output("y", kFloat32, {Expr(32)});
  const Buffer t = MakeBuffer("t", kFloat32, {Expr(32)}, Scope::kFragment);
  const Buffer s = MakeBuffer("s", kFloat32, {Expr(1)}, Scope::kFragment);
  const Expr i = MakeVar("i"), j = MakeVar("j"), zero = Expr(0);
  p.OneBlock({Alloc(t), Alloc(s), Copy(WholeBuffer(a), WholeBuffer(t)),
              Fill(WholeBuffer(s), MakeFloat(0)),
              Parallel({{i, Expr(32)}}, Store(s, {zero}, Load(s, {zero}) + Load(t, {i}))),
              Parallel({{j, Expr(32)}}, Store(y, {j}, Load(t, {j}) + Load(s, {zero})))});
  const Tensor ta = RandomTensor(kFloat32, {32}, 1);
  const std::vector<TensorView> views = {ta.View(), {nullptr, kFloat32, {32}, {}}};
  Options options;
  options.detect_races = false;  // the order of a sum does not matter here
  const auto want = SampleReference(p.program, views, 1, {5, 6}, options);
  options.narrow = true;
  const auto got = SampleReference(p.program, views, 1, {5, 6}, options);
  ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
  EXPECT_EQ(*got, *want);
}

TEST(SampleTest, LaunchesUnderALoopAllRun) {
  ProgramBuilder p;
  const Buffer y = p.Input("y", kFloat32, {Expr(4)});
  const Expr b = MakeVar("b"), i = MakeVar("i");
  p.program.body =
      Serial(i, Expr(3), Launch({{b, Expr(4)}}, Store(y, {b}, Load(y, {b}) + MakeFloat(1))));
  const Tensor ty(kFloat32, {4});
  const auto got = SampleReference(p.program, {ty.View()}, 0, {2}, {});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->at(0), 3);
}

}  // namespace
}  // namespace kiln::interp::testing
