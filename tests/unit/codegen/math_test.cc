// The vector functions against the double-precision C library, over the whole float range.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "tests/util/compiled_program.h"

namespace kiln {
namespace {

using ir::Expr;
using ir::Intrinsic;
using ir::MakeInt;

constexpr int64_t kCount = 1 << 16;

// y[i] = op(x[i]), or op(x[i], second), over kCount elements.
testing::CompiledProgram Elementwise(Intrinsic op, int vector_bits,
                                     std::optional<float> second = std::nullopt) {
  const ir::Buffer x = ir::MakeBuffer("x", kFloat32, {MakeInt(kCount)}, ir::Scope::kGlobal);
  const ir::Buffer y = ir::MakeBuffer("y", kFloat32, {MakeInt(kCount)}, ir::Scope::kGlobal);
  const Expr bx = ir::MakeVar("bx"), i = ir::MakeVar("i");
  const Expr index = bx * MakeInt(1024) + i;
  ir::Program program;
  program.name = "elementwise";
  for (const ir::Buffer& b : {x, y}) {
    ir::Param p;
    p.name = b->name;
    p.buffer = b;
    program.params.push_back(p);
  }
  std::vector<Expr> args = {ir::MakeLoad(x, {index})};
  if (second) args.push_back(ir::MakeFloat(*second, kFloat32));
  const ir::Stmt store = ir::MakeStmt<ir::Store>(SourceLoc{}, y, std::vector<Expr>{index},
                                                 ir::MakeCall(kFloat32, op, std::move(args)));
  const ir::Stmt loop =
      ir::MakeStmt<ir::For>(SourceLoc{}, ir::ForKind::kParallel,
                            std::vector<ir::Axis>{{i, MakeInt(0), MakeInt(1024)}}, store);
  program.body = ir::MakeStmt<ir::Launch>(
      SourceLoc{}, std::vector<ir::Axis>{{bx, MakeInt(0), MakeInt(kCount / 1024)}},
      std::vector<Expr>{MakeInt(128)}, loop);
  auto compiled = testing::CompiledProgram::Compile(program, vector_bits);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

// Distance in units in the last place of a float near `expected`.
double Ulps(float got, double expected) {
  const auto rounded = static_cast<float>(expected);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : 1e9;
  if (std::isnan(got)) return 1e9;
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : 1e9;
  const double unit =
      std::max(std::ldexp(1.0, std::ilogb(std::max(std::abs(expected), 1e-300)) - 23),
               std::ldexp(1.0, -149));
  return std::abs(got - expected) / unit;
}

struct Case {
  Intrinsic op;
  double (*reference)(double);
  double max_ulps;
  float low, high;  // where the bound holds; outside, limits are checked by value
};

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Rsqrt(double x) { return 1 / std::sqrt(x); }
double Exp2(double x) { return std::exp2(x); }
double Exp10(double x) { return std::pow(10.0, x); }

class MathTest : public ::testing::TestWithParam<int> {};

TEST_P(MathTest, StaysWithinItsStatedError) {
  const Case cases[] = {
      {Intrinsic::kExp, std::exp, 2, -1e30f, 1e30f},
      {Intrinsic::kExp2, Exp2, 2, -1e30f, 1e30f},
      {Intrinsic::kLog, std::log, 2, 0, 3e38f},
      {Intrinsic::kLog2, std::log2, 4, 0, 3e38f},
      {Intrinsic::kTanh, std::tanh, 4, -1e30f, 1e30f},
      {Intrinsic::kSigmoid, Sigmoid, 4, -80, 1e30f},
      {Intrinsic::kErf, std::erf, 2, -1e30f, 1e30f},
      {Intrinsic::kSin, std::sin, 3, -3.4e38f, 3.4e38f},
      {Intrinsic::kCos, std::cos, 3, -3.4e38f, 3.4e38f},
      {Intrinsic::kExp10, Exp10, 2, -1e30f, 1e30f},
      {Intrinsic::kLog1p, std::log1p, 4, -1, 3e38f},
      {Intrinsic::kSinh, std::sinh, 3, -1e30f, 1e30f},
      {Intrinsic::kCosh, std::cosh, 3, -1e30f, 1e30f},
      {Intrinsic::kAsinh, std::asinh, 4, -3.4e38f, 3.4e38f},
      {Intrinsic::kAcosh, std::acosh, 4, 1, 3.4e38f},
      {Intrinsic::kAtanh, std::atanh, 4, -1, 1},
      {Intrinsic::kAsin, std::asin, 3, -1, 1},
      {Intrinsic::kAcos, std::acos, 3, -1, 1},
      {Intrinsic::kAtan, std::atan, 3, -3.4e38f, 3.4e38f},
      {Intrinsic::kSqrt, std::sqrt, 0.5, 0, 3e38f},
      {Intrinsic::kRsqrt, Rsqrt, 1.5, 1e-38f, 3e38f},
  };
  for (const Case& c : cases) {
    const testing::CompiledProgram f = Elementwise(c.op, GetParam());
    std::vector<float> x(kCount), y(kCount);
    double worst = 0;
    float worst_at = 0;
    for (uint32_t start = 0; start < 64; ++start) {  // 4 million bit patterns of all exponents
      for (int64_t i = 0; i < kCount; ++i) {
        x[i] = std::bit_cast<float>(static_cast<uint32_t>(i * 65536 + start * 1021));
      }
      ASSERT_EQ(f.Run({x.data(), y.data()}), 0);
      for (int64_t i = 0; i < kCount; ++i) {
        if (!(x[i] >= c.low && x[i] <= c.high)) continue;
        const double ulps = Ulps(y[i], c.reference(x[i]));
        if (ulps > worst) worst = ulps, worst_at = x[i];
      }
    }
    EXPECT_LE(worst, c.max_ulps) << ir::Name(c.op) << " at " << worst_at;
  }
}

TEST_P(MathTest, LimitsAndNans) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  struct Limit {
    Intrinsic op;
    float x, y;
  };
  const Limit limits[] = {
      {Intrinsic::kExp, -inf, 0},     {Intrinsic::kExp, inf, inf},
      {Intrinsic::kExp, nan, nan},    {Intrinsic::kExp2, -inf, 0},
      {Intrinsic::kExp2, inf, inf},   {Intrinsic::kExp2, nan, nan},
      {Intrinsic::kLog, 0, -inf},     {Intrinsic::kLog, inf, inf},
      {Intrinsic::kLog, -1, nan},     {Intrinsic::kLog, nan, nan},
      {Intrinsic::kTanh, inf, 1},     {Intrinsic::kTanh, -inf, -1},
      {Intrinsic::kTanh, nan, nan},   {Intrinsic::kSigmoid, -inf, 0},
      {Intrinsic::kErf, inf, 1},      {Intrinsic::kErf, -inf, -1},
      {Intrinsic::kErf, nan, nan},    {Intrinsic::kSin, inf, nan},
      {Intrinsic::kSin, nan, nan},    {Intrinsic::kCos, -inf, nan},
      {Intrinsic::kCos, nan, nan},    {Intrinsic::kCos, 0, 1},
      {Intrinsic::kSigmoid, inf, 1},  {Intrinsic::kSigmoid, nan, nan},
      {Intrinsic::kSinh, -inf, -inf}, {Intrinsic::kSinh, nan, nan},
      {Intrinsic::kCosh, -inf, inf},  {Intrinsic::kAsinh, inf, inf},
      {Intrinsic::kAcosh, inf, inf},  {Intrinsic::kAcosh, 0.5, nan},
      {Intrinsic::kAtanh, 1, inf},    {Intrinsic::kAtanh, 1.5, nan},
      {Intrinsic::kAsin, 1.5, nan},   {Intrinsic::kAcos, -1.5, nan},
      {Intrinsic::kAtan, nan, nan},   {Intrinsic::kLog1p, -1, -inf},
      {Intrinsic::kLog1p, inf, inf},  {Intrinsic::kLog1p, -2, nan},
      {Intrinsic::kExp10, -inf, 0},   {Intrinsic::kExp10, inf, inf},
      {Intrinsic::kExp10, nan, nan},  {Intrinsic::kAcos, nan, nan},
  };
  for (const Limit& l : limits) {
    const testing::CompiledProgram f = Elementwise(l.op, GetParam());
    std::vector<float> x(kCount, l.x), y(kCount);
    ASSERT_EQ(f.Run({x.data(), y.data()}), 0);
    if (std::isnan(l.y)) {
      EXPECT_TRUE(std::isnan(y[7])) << ir::Name(l.op) << "(" << l.x << ") = " << y[7];
    } else {
      EXPECT_EQ(y[7], l.y) << ir::Name(l.op) << "(" << l.x << ")";
    }
  }
}

TEST_P(MathTest, PowersAreThoseOfC) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float y : {0.0f, 1.0f, -1.0f, 2.0f, 3.0f, -3.0f, 0.5f, -2.5f, 1e-30f, 16777217.0f,
                        1e30f, 37.25f, 0.1f, inf, -inf}) {
    const testing::CompiledProgram f = Elementwise(Intrinsic::kPow, GetParam(), y);
    std::vector<float> x(kCount), power(kCount);
    double worst = 0;
    float worst_at = 0;
    for (uint32_t start = 0; start < 8; ++start) {
      for (int64_t i = 0; i < kCount; ++i) {
        x[i] = std::bit_cast<float>(static_cast<uint32_t>(i * 65536 + start * 8179));
      }
      ASSERT_EQ(f.Run({x.data(), power.data()}), 0);
      for (int64_t i = 0; i < kCount; ++i) {
        const double want = std::pow(static_cast<double>(x[i]), static_cast<double>(y));
        const double ulps = Ulps(power[i], want);
        if (ulps > worst) worst = ulps, worst_at = x[i];
        if (want == 0) EXPECT_EQ(std::signbit(power[i]), std::signbit(want)) << x[i] << " ** " << y;
      }
    }
    EXPECT_LE(worst, 1) << worst_at << " ** " << y;
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, MathTest, ::testing::Values(0, 256));

}  // namespace
}  // namespace kiln
