// Functions of numbers that are written out as expressions, and random numbers, against what the
// test computes by other means: the C library, its rounding modes, Philox as its paper has it.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/util/everywhere.h"

namespace kiln {
namespace {

using testing::KernelText;
using testing::RunEverywhere;
using testing::Views;

constexpr int kCount = 512;

// Numbers of all exponents, of everyday size, and pairs of special ones.
void AnyFloats(const Views& v) {
  const float specials[] = {0.0f, -0.0f, 1, -3, HUGE_VALF, -HUGE_VALF, NAN, 1e-45f};
  std::mt19937 rng(11);
  for (const interp::TensorView& t : v) {
    if (t.dtype != kFloat32) continue;
    for (int i = 0; i < kCount; ++i) {
      float x = std::bit_cast<float>(static_cast<uint32_t>(rng()));
      if (i % 3 == 0) x = static_cast<float>(static_cast<int32_t>(rng()) * 0x1p-28);
      if (i % 7 == 0) x = std::round(x);
      t.Set(i, std::isnan(x) ? 1 : x);
    }
  }
  for (int i = 0; i < 64; ++i) {
    v[0].Set(i, specials[i / 8]);
    if (v.size() > 2) v[1].Set(i, specials[i % 8]);
  }
}

std::string Tensors(const std::string& in, const std::string& out, int inputs) {
  std::string text;
  for (int i = 0; i < inputs; ++i) {
    absl::StrAppend(&text, "x", i, ": T.Tensor((", kCount, ",), \"", in, "\"), ");
  }
  return absl::StrCat(text, "B: T.Tensor((", kCount, ",), \"", out, "\")");
}

// B[i] = expression, over all i.
std::string Loop(const std::string& expression) {
  return absl::StrCat("for i in T.Parallel(", kCount, "):\n    B[i] = ", expression);
}

using Reference = std::function<double(const Views&, int)>;

void ExpectFloats(const std::string& expression, int inputs, const Reference& want, double ulps,
                  const std::function<void(const Views&)>& fill = AnyFloats) {
  RunEverywhere(KernelText(Tensors("float32", "float32", inputs), Loop(expression)), fill,
                [&](const Views& v, const std::string& where) {
                  for (int i = 0; i < kCount; ++i) {
                    const double got = v.back().Get(i), wanted = want(v, i);
                    if (std::isnan(wanted)) {
                      ASSERT_TRUE(std::isnan(got)) << where << " at " << v[0].Get(i);
                    } else if (static_cast<float>(wanted) != got) {
                      const double unit = std::max(
                          std::ldexp(1.0, std::ilogb(wanted == 0 ? 1e-45 : wanted) - 23), 0x1p-149);
                      ASSERT_LE(std::abs(got - wanted), ulps * unit)
                          << where << " at " << v[0].Get(i) << ": " << got;
                    }
                  }
                });
}

TEST(Functions, AreThoseOfC) {
  const auto of = [](double (*f)(double)) {
    return [f](const Views& v, int i) { return f(v[0].Get(i)); };
  };
  const auto of2 = [](double (*f)(double, double)) {
    return [f](const Views& v, int i) { return f(v[0].Get(i), v[1].Get(i)); };
  };
  ExpectFloats("T.sinh(x0[i])", 1, of(std::sinh), 3);
  ExpectFloats("T.cosh(x0[i])", 1, of(std::cosh), 3);
  ExpectFloats("T.asin(x0[i])", 1, of(std::asin), 3);
  ExpectFloats("T.acos(x0[i])", 1, of(std::acos), 3);
  ExpectFloats("T.atan(x0[i])", 1, of(std::atan), 3);
  ExpectFloats("T.atan2(x0[i], x1[i])", 2, of2(std::atan2), 4);
  ExpectFloats("T.fmod(x0[i], x1[i])", 2, of2(std::fmod), 0);
  ExpectFloats("T.hypot(x0[i], x1[i])", 2, of2(std::hypot), 0.51);
  ExpectFloats("T.copysign(x0[i], x1[i])", 2, of2(std::copysign), 0);
  ExpectFloats("T.log1p(x0[i])", 1, of(std::log1p), 4);
  ExpectFloats(
      "T.exp10(x0[i])", 1, [](const Views& v, int i) { return exp10(v[0].Get(i)); }, 2);
  ExpectFloats(
      "T.nextafter(x0[i], x1[i])", 2,
      [](const Views& v, int i) {
        return static_cast<double>(
            std::nextafter(static_cast<float>(v[0].Get(i)), static_cast<float>(v[1].Get(i))));
      },
      0);
  ExpectFloats(
      "T.sin(i - 7)", 1, [](const Views&, int i) { return std::sin(i - 7); }, 3);
  ExpectFloats(
      "T.ldexp(x0[i], i - 256)", 1,
      [](const Views& v, int i) {
        return static_cast<double>(std::ldexp(static_cast<float>(v[0].Get(i)), i - 256));
      },
      0);
}

TEST(Functions, LdexpAndHypotOfDouble) {
  std::mt19937_64 rng(3);
  std::vector<double> x(kCount), y(kCount);
  for (int i = 0; i < kCount; ++i) {
    x[i] = std::bit_cast<double>(rng());
    y[i] = std::bit_cast<double>(rng());
    if (!std::isfinite(x[i])) x[i] = 0.7;
    if (!std::isfinite(y[i])) y[i] = 1e-310;
  }
  const auto fill = [&](const Views& v) {
    for (int i = 0; i < kCount; ++i) v[0].Set(i, x[i]), v[1].Set(i, y[i]);
  };
  RunEverywhere(KernelText(Tensors("float64", "float64", 2), Loop("T.ldexp(x0[i], i * 9 - 2300)")),
                fill, [&](const Views& v, const std::string& where) {
                  for (int i = 0; i < kCount; ++i) {
                    ASSERT_EQ(v[2].Get(i), std::ldexp(x[i], i * 9 - 2300)) << where << " " << x[i];
                  }
                });
  RunEverywhere(KernelText(Tensors("float64", "float64", 2), Loop("T.hypot(x0[i], x1[i])")), fill,
                [&](const Views& v, const std::string& where) {
                  for (int i = 0; i < kCount; ++i) {
                    const double want = std::hypot(x[i], y[i]);
                    if (std::isinf(want)) {
                      ASSERT_EQ(v[2].Get(i), want) << where;
                    } else {
                      ASSERT_NEAR(v[2].Get(i), want, std::max(want * 0x1p-51, 0x1p-1073)) << where;
                    }
                  }
                });
}

// Numbers of everyday size after those of AnyFloats: quotients just below integers among them.
void Tenths(const Views& v) {
  AnyFloats(v);
  for (int i = 64; i < 320; ++i) {
    v[0].Set(i, static_cast<float>((i - 190) / 10.0));
    v[1].Set(i, static_cast<float>((i % 13 - 6.5) / 5.0));
  }
}

TEST(Quotients, OfFloatsAreThoseOfPython) {
  ExpectFloats(
      "x0[i] % x1[i]", 2,
      [](const Views& v, int i) {
        const double a = v[0].Get(i), b = v[1].Get(i), rest = std::fmod(a, b);
        if (rest == 0) return std::copysign(0.0, b);
        return (rest < 0) != (b < 0) ? rest + b : rest;
      },
      0, Tenths);
  ExpectFloats(
      "x0[i] // x1[i]", 2,
      [](const Views& v, int i) {
        const long double a = v[0].Get(i), b = v[1].Get(i), q = std::floor(a / b);
        return static_cast<double>(std::fma(-q, b, a) / b < 0 ? q - 1 : q);
      },
      1, Tenths);
}

// The nearest number of so many bits of mantissa, the even one of two.
double Nearest(double x, int bits) {
  const int low = std::ilogb(x) - bits;
  return std::ldexp(std::nearbyint(std::ldexp(x, -low)), low);
}

// Halfway between two numbers of the type, and a little to either side: less than float32 sees.
TEST(Casts, OfDoubleRoundOnce) {
  const std::pair<const char*, int> types[] = {
      {"float16", 10}, {"bfloat16", 7}, {"float8_e4m3fn", 3}, {"float8_e5m2", 2}};
  for (const auto& [type, bits] : types) {
    const auto number = [bits = bits](int i) {
      const double halfway = 1 + (i % (1 << bits) + 0.5) * std::ldexp(1.0, -bits);
      const double aside = (i % 3 - 1) * std::ldexp(1.0, -45);
      return std::ldexp(i % 2 == 0 ? halfway + aside : -halfway - aside, i % 8 - 3);
    };
    RunEverywhere(
        KernelText(Tensors("float64", type, 1),
                   Loop(absl::StrCat("T.cast(x0[i], \"", type, "\")"))),
        [&](const Views& v) {
          for (int i = 0; i < kCount; ++i) v[0].Set(i, number(i));
        },
        [&](const Views& v, const std::string& where) {
          for (int i = 0; i < kCount; ++i) {
            ASSERT_EQ(v[1].Get(i), Nearest(number(i), bits)) << where << type << " " << number(i);
          }
        });
  }
}

TEST(Bits, AreCounted) {
  const auto fill = [](const Views& v) {
    std::mt19937 rng(5);
    for (int i = 0; i < kCount; ++i) {
      static_cast<uint32_t*>(v[0].data)[i] = i == 0 ? 0u : static_cast<uint32_t>(rng()) >> (i % 31);
    }
  };
  const auto expect = [&](const std::string& expression, const std::string& type,
                          const std::function<uint32_t(uint32_t, int)>& want) {
    RunEverywhere(KernelText(Tensors(type, "uint32", 1),
                             Loop(absl::StrCat("T.cast(", expression, ", \"uint32\")"))),
                  fill, [&](const Views& v, const std::string& where) {
                    for (int i = 0; i < kCount; ++i) {
                      const uint32_t x = static_cast<uint32_t*>(v[0].data)[i];
                      ASSERT_EQ(static_cast<uint32_t*>(v[1].data)[i], want(x, i))
                          << where << " of " << x;
                    }
                  });
  };
  for (const char* type : {"uint32", "int32"}) {
    expect("T.popcount(x0[i])", type, [](uint32_t x, int) { return std::popcount(x); });
    expect("T.clz(x0[i])", type, [](uint32_t x, int) { return std::countl_zero(x); });
    expect("T.__ffs(x0[i])", type,
           [](uint32_t x, int) { return x == 0 ? 0 : std::countr_zero(x) + 1; });
  }
  const auto find = [](uint32_t mask, int base, int offset) {
    if (offset == 0) return (mask >> base & 1) != 0 ? static_cast<uint32_t>(base) : ~0u;
    const int step = offset > 0 ? 1 : -1;
    int left = std::abs(offset);
    for (int at = base; at >= 0 && at < 32; at += step) {
      left -= static_cast<int>(mask >> at & 1);
      if (left == 0) return static_cast<uint32_t>(at);
    }
    return ~0u;
  };
  expect("T.__fns(x0[i], i % 32, i % 11 - 5)", "uint32",
         [&](uint32_t x, int i) { return find(x, i % 32, i % 11 - 5); });
}

// The same operation under this processor's own rounding modes.
float Rounded(int mode, const std::function<float()>& f) {
  std::fesetround(mode);
  const float value = f();
  std::fesetround(FE_TONEAREST);
  return value;
}

TEST(Rounding, IsAsItIsTold) {
  const std::pair<const char*, int> modes[] = {
      {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"ru", FE_UPWARD}, {"rd", FE_DOWNWARD}};
  struct Operation {
    const char* text;
    int inputs;
    std::function<float(float, float, float)> f;
  };
  const Operation operations[] = {
      {"T.ieee_add(x0[i], x1[i]", 2,
       [](float x, float y, float) {
         volatile float a = x, b = y;  // computed now, in the mode at hand
         return a + b;
       }},
      {"T.ieee_sub(x0[i], x1[i]", 2,
       [](float x, float y, float) {
         volatile float a = x, b = y;  // computed now, in the mode at hand
         return a - b;
       }},
      {"T.ieee_mul(x0[i], x1[i]", 2,
       [](float x, float y, float) {
         volatile float a = x, b = y;  // computed now, in the mode at hand
         return a * b;
       }},
      {"T.ieee_fdiv(x0[i], x1[i]", 2,
       [](float x, float y, float) {
         volatile float a = x, b = y;  // computed now, in the mode at hand
         return a / b;
       }},
      {"T.ieee_frcp(x0[i]", 1,
       [](float x, float, float) {
         volatile float a = x;
         return 1 / a;
       }},
      {"T.ieee_fsqrt(x0[i]", 1,
       [](float x, float, float) {
         volatile float a = x;
         return std::sqrt(float{a});
       }},
      {"T.ieee_fmaf(x0[i], x1[i], x2[i]", 3,
       [](float x, float y, float z) {
         volatile float a = x, b = y, c = z;
         return std::fma(float{a}, float{b}, float{c});
       }},
  };
  for (const Operation& op : operations) {
    for (const auto& [name, mode] : modes) {
      RunEverywhere(KernelText(Tensors("float32", "float32", op.inputs),
                               Loop(absl::StrCat(op.text, ", rounding_mode=\"", name, "\")"))),
                    AnyFloats, [&, mode = mode](const Views& v, const std::string& where) {
                      for (int i = 0; i < kCount; ++i) {
                        const auto x = [&](int k) {
                          return k < op.inputs ? static_cast<float>(v[k].Get(i)) : 0.0f;
                        };
                        const float want = Rounded(mode, [&] { return op.f(x(0), x(1), x(2)); });
                        const auto got = static_cast<float>(v.back().Get(i));
                        if (std::isnan(want)) {
                          ASSERT_TRUE(std::isnan(got)) << where << " " << x(0) << " " << x(1);
                        } else {
                          ASSERT_EQ(got, want)
                              << where << ": " << x(0) << " " << x(1) << " " << x(2);
                        }
                      }
                    });
    }
  }
}

using Block = std::array<uint32_t, 4>;

// As the paper writes it.
Block Philox(Block c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c;
}

uint32_t Number(uint64_t seed, uint64_t sequence, uint64_t n) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const Block block = Philox({low(n / 4), low(n / 4 >> 32), low(sequence), low(sequence >> 32)},
                             {low(seed), low(seed >> 32)});
  return block[n % 4];
}

TEST(Random, TheReferenceGivesThePublishedAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, NumbersAreCountedAlongTheProgram) {
  const std::string body = R"(T.rng_init(1234567890123, bx + 5, 3)
B[bx, 0] = T.rng_rand()
for i, j in T.Parallel(4, 10):
    if i != 2:
        B[bx, 1 + i * 10 + j] = T.rng_rand()
for k in T.serial(2):
    for i in T.Parallel(9):
        B[bx, 41 + k * 18 + i] = T.rng_rand()
        B[bx, 50 + k * 18 + i] = T.rng_rand()  # after all of the call before
B[bx, 77] = T.rng_rand()
for i in T.Parallel(3):
    for j in T.serial(5):
        B[bx, 78 + i * 5 + j] = T.rng_rand()
B[bx, 93] = T.rng_rand())";
  RunEverywhere(
      KernelText("B: T.Tensor((2, 94), \"uint32\")", body, 64, "2"),
      [](const Views& v) {
        for (int i = 0; i < 188; ++i) v[0].Set(i, 0);
      },
      [](const Views& v, const std::string& where) {
        for (int b = 0; b < 2; ++b) {
          for (int i = 0; i < 94; ++i) {
            const bool skipped = i >= 21 && i < 31;
            const uint32_t want = skipped ? 0 : Number(1234567890123, b + 5, 3 + i);
            ASSERT_EQ(static_cast<uint32_t*>(v[0].data)[b * 94 + i], want)
                << where << " " << b << ", " << i;
          }
        }
      });
}

TEST(Random, FloatsAreMadeOfNumbers) {
  const std::string body = R"(T.rng_init(7)
for i in T.Parallel(256):
    B[i] = T.rng_rand_float()
for i in T.Parallel(256):
    B[256 + i] = T.rng_rand_float(dist="normal"))";
  RunEverywhere(
      KernelText("B: T.Tensor((512,), \"float32\")", body), [](const Views&) {},
      [](const Views& v, const std::string& where) {
        double sum = 0, squares = 0;
        for (int i = 0; i < 256; ++i) {
          const auto number = static_cast<float>(Number(7, 0, i));
          ASSERT_EQ(v[0].Get(i), number * 0x1p-32f + 0x1p-33f) << where << " " << i;
          const double u = Number(7, 0, 256 + 2 * i) * 0x1p-32 + 0x1p-33;
          const double angle = (Number(7, 0, 257 + 2 * i) * 0x1p-32 + 0x1p-33) * 2 * M_PI;
          const double normal = v[0].Get(256 + i);
          ASSERT_NEAR(normal, std::sqrt(-2 * std::log(u)) * std::sin(angle), 2e-6) << where;
          sum += normal, squares += normal * normal;
        }
        EXPECT_NEAR(sum / 256, 0, 0.25);
        EXPECT_NEAR(squares / 256, 1, 0.35);
      });
  RunEverywhere(
      KernelText("B: T.Tensor((64,), \"float64\")",
                 "T.rng_init(7, 2)\nfor i in T.Parallel(64):\n    B[i] = "
                 "T.rng_rand_float(bit=64)"),
      [](const Views&) {},
      [](const Views& v, const std::string& where) {
        for (int i = 0; i < 64; ++i) {
          const uint64_t bits = Number(7, 2, 2 * i) ^ uint64_t { Number(7, 2, 2 * i + 1) } << 21;
          ASSERT_EQ(v[0].Get(i), static_cast<double>(bits) * 0x1p-53 + 0x1p-54) << where;
        }
      });
}

TEST(Dp4a, AddsFourProducts) {
  const std::string body = R"(for i in T.Parallel(64):
    a = T.alloc_local((4,), "int8")
    b = T.alloc_local((4,), "int8")
    c = T.alloc_local((1,), "int32")
    for k in T.serial(4):
        a[k] = A[i, k]
        b[k] = A[i, 4 + k]
    c[0] = i
    T.dp4a(a, b, c)
    B[i] = c[0])";
  RunEverywhere(
      KernelText("A: T.Tensor((64, 8), \"int8\"), B: T.Tensor((64,), \"int32\")", body),
      [](const Views& v) {
        for (int i = 0; i < 512; ++i) v[0].Set(i, i * 77 % 256 - 128);
      },
      [](const Views& v, const std::string& where) {
        for (int i = 0; i < 64; ++i) {
          double sum = i;
          for (int k = 0; k < 4; ++k) sum += v[0].Get(i * 8 + k) * v[0].Get(i * 8 + 4 + k);
          ASSERT_EQ(v[1].Get(i), sum) << where;
        }
      });
}

TEST(Words, AreThirtyTwoBits) {
  const std::string body = R"(for i in T.Parallel(16):
    B[i] = T.ldg32(A[2 * i], pred=i < 15)
    T.stg32(C[4 * i], B[i] + 1)
    D[i] = T.__ldg(A[i]) + T.__ldg(A, i + 1))";
  RunEverywhere(
      KernelText("A: T.Tensor((32,), \"float16\"), B: T.Tensor((16,), \"uint32\"), "
                 "C: T.Tensor((64,), \"uint8\"), D: T.Tensor((16,), \"float16\")",
                 body, 32),
      [](const Views& v) {
        for (int i = 0; i < 32; ++i) v[0].Set(i, i * 0.5);
      },
      [](const Views& v, const std::string& where) {
        for (int i = 0; i < 16; ++i) {
          const uint32_t word = i < 15 ? static_cast<uint32_t*>(v[0].data)[i] : 0;
          ASSERT_EQ(static_cast<uint32_t*>(v[1].data)[i], word) << where;
          ASSERT_EQ(static_cast<uint32_t*>(v[2].data)[i], word + 1) << where;
          ASSERT_EQ(v[3].Get(i), i * 0.5 + (i + 1) * 0.5) << where;
        }
      });
}

}  // namespace
}  // namespace kiln
