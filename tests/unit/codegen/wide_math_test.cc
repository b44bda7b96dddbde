// The functions of double that GPUs run, compiled for this machine, against the C library's of long
// double, whose 64 bits of mantissa leave 2^-11 units of doubt.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "compiler/codegen/emit_math.h"
#include "compiler/codegen/emit_wide.h"
#include "compiler/codegen/link.h"
#include "compiler/codegen/x86_object.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "tests/util/compiled_program.h"

namespace kiln {
namespace {

using llvm::Value;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Emit = std::function<Value*(llvm::IRBuilder<>&, Value*, Value*)>;
using Long = long double;

// out[i] = f(x[i], y[i]) for i in [0, n): an entry as CompiledProgram calls it.
testing::CompiledProgram Compiled(const Emit& emit) {
  llvm::LLVMContext context;
  auto module = std::make_unique<llvm::Module>("wide", context);
  llvm::IRBuilder<> b(context);
  llvm::Type* ptr = b.getPtrTy();
  auto* type = llvm::FunctionType::get(b.getInt32Ty(), {ptr, ptr, ptr, ptr, b.getInt64Ty()}, false);
  auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "wide", *module);
  auto* entry = llvm::BasicBlock::Create(context, "entry", f);
  auto* loop = llvm::BasicBlock::Create(context, "loop", f);
  auto* end = llvm::BasicBlock::Create(context, "end", f);
  b.SetInsertPoint(entry);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  auto* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), entry);
  const auto at = [&](unsigned argument) {
    return b.CreateGEP(b.getDoubleTy(), f->getArg(argument), i);
  };
  llvm::FastMathFlags flags;
  flags.setAllowContract();  // as kernels have it
  b.setFastMathFlags(flags);
  Value* x = b.CreateLoad(b.getDoubleTy(), at(1));
  Value* y = b.CreateLoad(b.getDoubleTy(), at(2));
  b.CreateStore(emit(b, x, y), at(3));
  EXPECT_TRUE(b.getFastMathFlags().allowContract());
  Value* next = b.CreateAdd(i, b.getInt64(1));
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, f->getArg(4)), loop, end);
  b.SetInsertPoint(end);
  b.CreateRet(b.getInt32(0));
  const auto object =
      codegen::EmitX86(std::move(module), "wide", {"x86-64-v3", {}, 256}, codegen::Emit::kObject);
  EXPECT_TRUE(object.ok()) << object.status();
  const auto shared = codegen::LinkSharedObject(*object, "wide.so");
  EXPECT_TRUE(shared.ok()) << shared.status();
  auto program = testing::CompiledProgram::Load(*shared, "wide");
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

Emit One(Value* (*emit)(llvm::IRBuilder<>&, Value*)) {
  return [emit](llvm::IRBuilder<>& b, Value* x, Value*) { return emit(b, x); };
}

std::vector<double> Values(const testing::CompiledProgram& f, std::vector<double> x,
                           std::vector<double> y = {}) {
  y.resize(x.size());
  std::vector<double> out(x.size());
  EXPECT_EQ(f.Run({x.data(), y.data(), out.data()}, {static_cast<int64_t>(x.size())}), 0);
  return out;
}

double Ulps(double got, Long expected) {
  const auto rounded = static_cast<double>(expected);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : 1e9;
  if (std::isnan(got)) return 1e9;
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : 1e9;
  const int exponent = expected == 0 ? -1074 : std::max(std::ilogb(expected) - 52, -1074);
  return static_cast<double>(std::abs(got - expected) / std::ldexp(Long{1}, exponent));
}

Long Exp10(Long x) { return std::pow(Long{10}, x); }
Long Sigmoid(Long x) { return 1 / (1 + std::exp(-x)); }

struct Case {
  const char* name;
  Emit emit;
  Long (*reference)(Long);
  double most;               // ulps
  std::vector<double> ends;  // intervals in which arguments are drawn evenly
};

std::vector<Case> Cases() {
  return {
      {"exp", One(codegen::EmitWideExp), std::exp, 1, {1, 40, 708, 746}},
      {"exp2", One(codegen::EmitWideExp2), std::exp2, 1, {1, 40, 1023, 1075}},
      {"log", One(codegen::EmitWideLog), std::log, 1, {1.1, 2, 1000}},
      {"log2", One(codegen::EmitWideLog2), std::log2, 1, {1.1, 2, 1000}},
      {"tanh", One(codegen::EmitWideTanh), std::tanh, 1, {0.4, 1, 25}},
      {"sigmoid", One(codegen::EmitWideSigmoid), Sigmoid, 1, {1, 40, 745}},
      {"erf", One(codegen::EmitWideErf), std::erf, 1, {0.5, 1, 2, 7}},
      {"sin", One(codegen::EmitWideSin), std::sin, 1, {1, 10, 1e6, 1e18}},
      {"cos", One(codegen::EmitWideCos), std::cos, 1, {1, 10, 1e6, 1e18}},
      {"exp10", One(codegen::EmitWideExp10), Exp10, 1.1, {1, 40, 308, 324}},
      {"log1p", One(codegen::EmitWideLog1p), std::log1p, 3, {0.1, 1, 1000}},
      {"sinh", One(codegen::EmitWideSinh), std::sinh, 4, {1, 40, 711}},
      {"cosh", One(codegen::EmitWideCosh), std::cosh, 4, {1, 40, 711}},
      {"asinh", One(codegen::EmitWideAsinh), std::asinh, 4, {1, 40, 1e10}},
      {"acosh", One(codegen::EmitWideAcosh), std::acosh, 4, {1.1, 40, 1e10}},
      {"atanh", One(codegen::EmitWideAtanh), std::atanh, 5, {0.1, 1}},
      {"asin", One(codegen::EmitWideAsin), std::asin, 4, {0.1, 1}},
      {"acos", One(codegen::EmitWideAcos), std::acos, 4, {0.1, 1}},
      {"atan", One(codegen::EmitWideAtan), std::atan, 1, {0.4, 3, 100}},
  };
}

// Numbers of every exponent, evenly drawn ones, and neighbours of multiples of pi/2.
std::vector<double> Arguments(const std::vector<double>& ends) {
  std::mt19937_64 rng(64);
  std::vector<double> x;
  for (int i = 0; i < 1 << 19; ++i) {
    const double any = std::bit_cast<double>(rng());
    if (std::isfinite(any)) x.push_back(any);
  }
  for (const double end : ends) {
    std::uniform_real_distribution<double> even(-end, end);
    for (int i = 0; i < 1 << 17; ++i) x.push_back(even(rng));
  }
  for (int i = 0; i < 1 << 16; ++i) {
    const double near = static_cast<double>(std::numbers::pi_v<Long> / 2 * (1 + rng() % 100000));
    for (const double v : {near, std::nextafter(near, 0.0), std::nextafter(near, kInf)})
      x.push_back(v);
    x.push_back(
        1 + std::ldexp(static_cast<double>(rng()) - 0x1p63, -64 - static_cast<int>(rng() % 48)));
  }
  return x;
}

TEST(WideMath, StaysWithinItsStatedError) {
  for (const Case& c : Cases()) {
    const std::vector<double> x = Arguments(c.ends);
    const std::vector<double> got = Values(Compiled(c.emit), x);
    double worst = 0, worst_at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double ulps = Ulps(got[i], c.reference(x[i]));
      if (ulps > worst) worst = ulps, worst_at = x[i];
    }
    EXPECT_LE(worst, c.most) << c.name << " at " << worst_at;
    RecordProperty(c.name, std::to_string(worst));
    std::printf("%-8s %.3f ulp at %.17g\n", c.name, worst, worst_at);
  }
}

// The doubles that come nearest to multiples of pi/2, by continued fractions: of the whole range
// 6381956970095103 * 2^797 (Muller, "Elementary Functions", 11.3.2).
TEST(WideMath, TheWorstOfAllTurns) {
  const std::vector<double> x = {std::ldexp(6381956970095103.0, 797), 0x1.921fb54442d18p+0,
                                 0x1.921fb54442d18p+1, 5e22, 1e300};
  const std::vector<double> sine = Values(Compiled(One(codegen::EmitWideSin)), x);
  const std::vector<double> cosine = Values(Compiled(One(codegen::EmitWideCos)), x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_LE(Ulps(sine[i], std::sin(Long{x[i]})), 1) << x[i];
    EXPECT_LE(Ulps(cosine[i], std::cos(Long{x[i]})), 1) << x[i];
  }
  EXPECT_NEAR(cosine[0], -4.68716592425462761112e-19, 1e-34);
}

TEST(WideMath, Angles) {
  std::mt19937_64 rng(66);
  std::vector<double> y, x;
  for (int i = 0; i < 1 << 18; ++i) {
    const double scale = std::ldexp(1.0, static_cast<int>(rng() % 80) - 40);
    y.push_back((static_cast<double>(rng()) * 0x1p-63 - 1) * scale);
    x.push_back(static_cast<double>(rng()) * 0x1p-63 - 1);
  }
  const double ends[] = {0.0, -0.0, 1, -1, kInf, -kInf, kNan, 5e-324, -1e308};
  for (const double a : ends) {
    for (const double b : ends) y.push_back(a), x.push_back(b);
  }
  const std::vector<double> got = Values(Compiled(codegen::EmitWideAtan2), y, x);
  double worst = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const Long want = std::atan2(Long{y[i]}, Long{x[i]});
    worst = std::max(worst, Ulps(got[i], want));
    EXPECT_TRUE(std::isnan(want) || std::signbit(want) == std::signbit(got[i]))
        << y[i] << " " << x[i] << ": " << got[i];
  }
  std::printf("atan2    %.3f ulp\n", worst);
  EXPECT_LE(worst, 3);
}

// Exact, whatever the quotient: by the loop that GPUs run.
TEST(WideMath, Remainders) {
  std::mt19937_64 rng(67);
  std::vector<double> x, y;
  for (int i = 0; i < 1 << 14; ++i) {
    x.push_back(std::bit_cast<double>(rng()));
    y.push_back(i % 2 == 0 ? std::bit_cast<double>(rng())
                           : x.back() * std::ldexp(1.0, -static_cast<int>(rng() % 90)) * 0.7);
  }
  const double ends[] = {0.0, -0.0, 1, -1, 3, kInf, -kInf, kNan, 5e-324, 1e308};
  for (const double a : ends) {
    for (const double b : ends) x.push_back(a), y.push_back(b);
  }
  const std::vector<double> got = Values(Compiled(codegen::EmitFmod), x, y);
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::fmod(x[i], y[i]);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got[i])) << x[i] << " " << y[i];
    } else {
      EXPECT_EQ(got[i], want) << x[i] << " " << y[i];
      EXPECT_EQ(std::signbit(got[i]), std::signbit(want)) << x[i] << " " << y[i];
    }
  }
}

TEST(WideMath, Powers) {
  std::mt19937_64 rng(65);
  std::vector<double> x, y;
  std::uniform_real_distribution<double> exponent(-1074, 1024), small(0.5, 2), whole(-40, 40);
  for (int i = 0; i < 1 << 19; ++i) {
    const double a = i % 3 == 0 ? small(rng) : std::exp2(exponent(rng));
    const double log = std::log2(a);
    x.push_back(i % 5 == 0 ? -a : a);
    // Results of every size.
    y.push_back(i % 5 == 0 ? std::round(whole(rng))
                : log == 0 ? exponent(rng)
                           : exponent(rng) / log);
  }
  const testing::CompiledProgram pow = Compiled(codegen::EmitWidePow);
  const std::vector<double> got = Values(pow, x, y);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double ulps = Ulps(got[i], std::pow(Long{x[i]}, Long{y[i]}));
    if (ulps > worst) worst = ulps, at = i;
  }
  std::printf("pow      %.3f ulp at %.17g, %.17g\n", worst, x[at], y[at]);
  EXPECT_LE(worst, 1.1) << x[at] << " " << y[at];

  const double specials[] = {0.0,    -0.0,   1,   -1,   0.5,    -0.5,      2,
                             -2,     3,      -3,  kInf, -kInf,  kNan,      1e308,
                             -1e308, 5e-324, 2.5, -2.5, 0x1p53, 0x1p53 + 2};
  x.clear(), y.clear();
  for (const double a : specials) {
    for (const double e : specials) x.push_back(a), y.push_back(e);
  }
  const std::vector<double> powers = Values(pow, x, y);
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::pow(x[i], y[i]);
    EXPECT_LE(Ulps(powers[i], want), 1) << x[i] << " " << y[i] << ": " << powers[i];
    EXPECT_TRUE(std::isnan(want) || std::signbit(want) == std::signbit(powers[i]))
        << x[i] << " " << y[i] << ": " << powers[i];
  }
}

TEST(WideMath, LimitsAndNans) {
  for (const Case& c : Cases()) {
    const std::vector<double> x = {0.0, -0.0, kInf, -kInf, kNan, -1, 1, 5e-324, -5e-324};
    const std::vector<double> got = Values(Compiled(c.emit), x);
    for (size_t i = 0; i < x.size(); ++i) {
      const auto want = static_cast<double>(c.reference(x[i]));
      EXPECT_LE(Ulps(got[i], c.reference(x[i])), c.most)
          << c.name << "(" << x[i] << ") = " << got[i];
      EXPECT_TRUE(std::isnan(want) || std::signbit(want) == std::signbit(got[i]))
          << c.name << "(" << x[i] << ") = " << got[i];
    }
  }
}

}  // namespace
}  // namespace kiln
