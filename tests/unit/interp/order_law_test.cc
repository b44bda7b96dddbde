// Laws of unordered execution, over random small programs: a race that is found in one order is
// found in the other, and a program without one computes the same in both orders.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/interp/builder.h"

namespace kiln::interp::testing {
namespace {

constexpr int kN = 6;

class RandomProgram : public ProgramBuilder {
 public:
  explicit RandomProgram(uint64_t seed) : rng_(seed) {
    y_ = Input("y", kInt32, {Expr(kN)});
    const Buffer t = MakeBuffer("t", kInt32, {Expr(kN)}, Scope::kShared);
    const Expr b = ir::MakeVar("b"), i = ir::MakeVar("i");
    std::vector<Stmt> parallel;
    const int count = Pick(1, 3);
    for (int s = 0; s < count; ++s) parallel.push_back(Statement(t, i));
    program.body = Launch(
        {{b, Expr(2)}},
        Seq({Alloc(t), Fill(WholeBuffer(t), Expr(5)), Parallel({{i, Expr(kN)}}, Seq(parallel)),
             Pick(0, 1) ? Store(y_, {Index(b)}, Load(t, {Expr(Pick(0, kN - 1))}) + b)
                        : Update(y_, Index(b), b + Expr(1))}));
  }
  // The outcome and y.
  std::pair<absl::Status, std::vector<int32_t>> Outcome(Order order) const {
    const Tensor y = RandomTensor(kInt32, {kN}, 3);
    Options options;
    options.order = order;
    const absl::Status status = interp::Run(program, {y.View()}, options).status();
    return {status, {y.as<int32_t>(), y.as<int32_t>() + kN}};
  }

 private:
  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng_); }
  Expr Index(const Expr& i) {
    switch (Pick(0, 4)) {
      case 0:
        return Expr(Pick(0, kN - 1));
      case 1:
        return FloorMod(i + Expr(Pick(1, kN)), Expr(kN));
      case 2:
        return FloorDiv(i, Expr(2));
      default:
        return i;
    }
  }
  Stmt Update(const Buffer& b, const Expr& at, const Expr& value) {
    return MakeStmt<ir::Atomic>(kLoc, ir::AtomicOp::kAdd, Box(b, {{at, Expr(1)}}), Region{}, value);
  }
  Stmt Statement(const Buffer& t, const Expr& i) {
    if (Pick(0, 3) == 0) return Update(t, Index(i), i + Expr(1));
    const Stmt store = Store(t, {Index(i)}, Load(t, {Index(i)}) * Expr(3) + i);
    return Pick(0, 2) ? store : MakeStmt<ir::If>(kLoc, i < Expr(Pick(1, kN)), store);
  }

  std::mt19937_64 rng_;
  Buffer y_;
};

TEST(OrderLaw, RacesAndResultsDoNotDependOnTheOrder) {
  int racy = 0, clean = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const RandomProgram p(seed);
    const auto [forward, a] = p.Outcome(Order::kForward);
    const auto [reverse, b] = p.Outcome(Order::kReverse);
    ASSERT_EQ(forward.code(), reverse.code()) << "seed " << seed << "\n"
                                              << forward << "\n"
                                              << reverse;
    racy += !forward.ok();
    clean += forward.ok();
    if (!forward.ok()) {
      ASSERT_NE(forward.message().find("race"), absl::string_view::npos) << forward;
    } else {
      ASSERT_EQ(a, b) << "seed " << seed;
    }
  }
  EXPECT_GT(racy, 400);
  EXPECT_GT(clean, 400);
}

}  // namespace
}  // namespace kiln::interp::testing
