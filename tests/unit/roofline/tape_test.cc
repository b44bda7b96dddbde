#include "compiler/roofline/tape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace kiln::roofline {
namespace {

TEST(TapeTest, FoldsConstantsAndSharesEqualNodes) {
  Tape t;
  const Num x = t.Input(0);
  EXPECT_EQ((t.Const(3) * t.Const(4) + 5.0).constant(), 17.0);
  EXPECT_TRUE((x + 0.0).same_as(x));
  EXPECT_TRUE((x * 1.0).same_as(x));
  EXPECT_EQ((x * 0.0).constant(), 0.0);
  EXPECT_EQ((x - x).constant(), 0.0);
  EXPECT_TRUE(Min(x, x).same_as(x));
  EXPECT_TRUE((x + 2.0).same_as(2.0 + x));
  EXPECT_TRUE(Select(t.Const(1), x, x * 2.0).same_as(x));
  const size_t before = t.nodes().size();
  const Num a = FloorDiv(x + 7.0, t.Const(8));
  const size_t middle = t.nodes().size();
  const Num b = FloorDiv(x + 7.0, t.Const(8));
  EXPECT_TRUE(a.same_as(b));
  EXPECT_GT(middle, before);
  EXPECT_EQ(t.nodes().size(), middle);
}

TEST(TapeTest, IntegerDivisionRoundsDown) {
  Tape t;
  for (double a : {-7.0, -8.0, 0.0, 7.0, 8.0, 4503599627370495.0}) {
    for (double b : {1.0, 3.0, 8.0}) {
      EXPECT_EQ(FloorDiv(t.Const(a), t.Const(b)).constant(), std::floor(a / b));
      EXPECT_EQ(CeilDiv(t.Const(a), t.Const(b)).constant(), std::ceil(a / b));
    }
  }
  EXPECT_EQ(FloorMod(t.Const(-1), t.Const(4)).constant(), 3.0);
}

// Random expressions, evaluated in bulk, against a direct recursive evaluation of the same nodes.
class RandomTape {
 public:
  RandomTape(uint64_t seed, int inputs, int operations) : rng_(seed) {
    for (int i = 0; i < inputs; ++i) all_.push_back(tape.Input(i));
    for (double c : {0.0, 1.0, 2.5, -3.0, 64.0}) all_.push_back(tape.Const(c));
    constexpr TapeOp kOps[] = {TapeOp::kAdd,   TapeOp::kSub, TapeOp::kMul,   TapeOp::kDiv,
                               TapeOp::kFloor, TapeOp::kMin, TapeOp::kMax,   TapeOp::kLt,
                               TapeOp::kLe,    TapeOp::kEq,  TapeOp::kSelect};
    for (int i = 0; i < operations; ++i) {
      const TapeOp op = kOps[rng_() % std::size(kOps)];
      const bool unary = op == TapeOp::kFloor;
      all_.push_back(
          tape.Make(op, Any(), unary ? Num() : Any(), op == TapeOp::kSelect ? Any() : Num()));
    }
  }

  Num Any() { return all_[rng_() % all_.size()]; }

  double Direct(Num n, const std::vector<double>& in) const {
    const Tape::Node& node = tape.nodes()[n.id()];
    if (node.op == TapeOp::kConst) return node.value;
    if (node.op == TapeOp::kInput) return in[node.a];
    auto self = const_cast<Tape*>(&tape);
    const auto at = [&](int32_t id) { return id < 0 ? 0.0 : Direct(Num(self, id), in); };
    return ApplyTapeOp(node.op, at(node.a), at(node.b), at(node.c));
  }

  Tape tape;

 private:
  std::mt19937_64 rng_;
  std::vector<Num> all_;
};

TEST(TapeTest, BulkEvaluationEqualsDirectEvaluation) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    RandomTape random(seed, 3, 60);
    std::vector<Num> outputs;
    for (int i = 0; i < 8; ++i) outputs.push_back(random.Any());
    const TapeProgram program = TapeProgram::Compile(random.tape, outputs);
    const int64_t count = 1 + static_cast<int64_t>(seed * 37 % 300);  // around the block size
    std::mt19937_64 rng(seed);
    std::vector<std::vector<double>> in(3, std::vector<double>(count));
    for (auto& column : in) {
      for (double& v : column) v = static_cast<double>(rng() % 512);
    }
    std::vector<std::vector<double>> out(outputs.size(), std::vector<double>(count));
    std::vector<double*> pointers;
    for (auto& o : out) pointers.push_back(o.data());
    program.Run({in[0].data(), in[1].data(), in[2].data()}, count, pointers);
    for (int64_t j = 0; j < count; ++j) {
      for (size_t k = 0; k < outputs.size(); ++k) {
        const double want = random.Direct(outputs[k], {in[0][j], in[1][j], in[2][j]});
        const double got = out[k][j];
        ASSERT_TRUE(want == got || (std::isnan(want) && std::isnan(got)))
            << "seed " << seed << " config " << j << " output " << k << ": " << want << " " << got;
      }
    }
  }
}

TEST(TapeTest, DeadNodesAreNotEvaluated) {
  Tape t;
  Num x = t.Input(0), dead = x;
  for (int i = 0; i < 50; ++i) dead = dead * x + 1.0;
  const TapeProgram program = TapeProgram::Compile(t, {x + 1.0});
  EXPECT_EQ(program.steps(), 2);  // the input and the sum
}

}  // namespace
}  // namespace kiln::roofline
