// The element types of 8 and 4 bits against tables that are computed here, code by code, from what
// the formats say: fields, bias, and which codes are no numbers.
#include "compiler/base/dtype.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace kiln {
namespace {

struct Format {
  const char* name;
  int exponent_bits, mantissa_bits, bias;
  bool infinities;   // the largest exponent is infinity and NaN
  bool largest_nan;  // the largest code of a sign is NaN
  bool fnuz;         // the negative zero's code is NaN
  int codes;
};

constexpr Format kFormats[] = {
    {"float8_e4m3fn", 4, 3, 7, false, true, false, 256},
    {"float8_e5m2", 5, 2, 15, true, false, false, 256},
    {"float8_e4m3fnuz", 4, 3, 8, false, false, true, 256},
    {"float8_e5m2fnuz", 5, 2, 16, false, false, true, 256},
    {"float4_e2m1_unpacked", 2, 1, 1, false, false, false, 16},
};

// What a code stands for.
double ValueOf(const Format& f, int code) {
  const int half = f.codes / 2, size = code % half;
  const double sign = code < half ? 1 : -1;
  const int fraction = size % (1 << f.mantissa_bits), field = size >> f.mantissa_bits;
  const int top = (1 << f.exponent_bits) - 1;
  if (f.fnuz && code == half) return NAN;
  if (f.largest_nan && size == half - 1) return NAN;
  if (f.infinities && field == top) return fraction == 0 ? sign * INFINITY : NAN;
  const double one = 1 << f.mantissa_bits;
  if (field == 0) return sign * fraction / one * std::pow(2.0, 1 - f.bias);
  return sign * (1 + fraction / one) * std::pow(2.0, field - f.bias);
}

bool SameNumber(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

int Stored(DType type, double value) {
  uint8_t code = 0;
  StoreElement(&code, type, value);
  return code;
}

TEST(NarrowTypes, EveryCodeIsItsFormatsNumberAndComesBack) {
  for (const Format& f : kFormats) {
    const auto type = ParseDType(f.name);
    ASSERT_TRUE(type.has_value()) << f.name;
    EXPECT_EQ(type->ToString(), f.name);
    EXPECT_TRUE(type->is_float());
    for (int code = 0; code < f.codes; ++code) {
      const auto raw = static_cast<uint8_t>(code);
      const double value = LoadElement(&raw, *type);
      EXPECT_TRUE(SameNumber(value, ValueOf(f, code))) << f.name << " " << code << ": " << value;
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(ValueOf(f, Stored(*type, value)))) << f.name << " " << code;
      } else {
        EXPECT_EQ(Stored(*type, value), code) << f.name;
      }
    }
  }
}

// The nearest of the table's numbers, of two the one with the even code; beyond all of them the
// largest.
TEST(NarrowTypes, NumbersGoToTheNearest) {
  for (const Format& f : kFormats) {
    const DType type = *ParseDType(f.name);
    std::vector<double> sizes;  // by code
    for (int code = 0; code < f.codes / 2 && std::isfinite(ValueOf(f, code)); ++code) {
      sizes.push_back(ValueOf(f, code));
    }
    std::vector<double> inputs = {0, 1e-30, 1e30, INFINITY};
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      const double middle = (sizes[i] + sizes[i + 1]) / 2;
      for (const double x : {sizes[i], middle, std::nextafter(middle, 0.0), middle * (1 + 1e-9)}) {
        inputs.push_back(x);
      }
    }
    for (const double size : inputs) {
      size_t best = 0;
      for (size_t i = 0; i < sizes.size(); ++i) {
        const double now = std::abs(size - sizes[i]), before = std::abs(size - sizes[best]);
        if (now < before || (now == before && i % 2 == 0)) best = i;
      }
      if (size > sizes.back()) best = sizes.size() - 1;
      for (const double sign : {1.0, -1.0}) {
        const bool no_sign = f.fnuz && sizes[best] == 0;
        const double want = no_sign ? 0 : sign * sizes[best];
        EXPECT_TRUE(SameNumber(RoundToType(sign * size, type), want)) << f.name << " " << size;
        // float8_e5m2 has an infinity, which memory keeps.
        if (f.infinities && std::isinf(size)) continue;
        const int half = sign < 0 && !no_sign ? f.codes / 2 : 0;
        EXPECT_EQ(Stored(type, sign * size), static_cast<int>(best) + half)
            << f.name << " " << size;
      }
    }
  }
  const DType e2m1 = *ParseDType("float4_e2m1_unpacked");
  EXPECT_EQ(RoundToType(NAN, e2m1), 6);
  EXPECT_EQ(Stored(e2m1, NAN), 7);
}

TEST(NarrowTypes, PowersOfTwo) {
  const DType type = *ParseDType("float8_e8m0fnu");
  for (int code = 0; code < 256; ++code) {
    const auto raw = static_cast<uint8_t>(code);
    const double value = LoadElement(&raw, type);
    if (code == 255) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_EQ(Stored(type, NAN), 255);
      continue;
    }
    const double power = std::pow(2.0, code - 127);
    EXPECT_EQ(value, power);
    const int next = std::min(code + 1, 254);
    for (const double sign : {1.0, -1.0}) {
      EXPECT_EQ(Stored(type, sign * power), code);
      EXPECT_EQ(Stored(type, sign * power * 1.25), next) << power;
      EXPECT_EQ(Stored(type, sign * power * 1.999), next) << power;
      EXPECT_EQ(RoundToType(sign * power * 1.5, type), std::pow(2.0, next - 127));
    }
  }
  EXPECT_EQ(Stored(type, 0), 0);
  EXPECT_EQ(Stored(type, 1e-45), 0);
  EXPECT_EQ(Stored(type, INFINITY), 254);
}

TEST(NarrowTypes, FourBits) {
  for (const char* name : {"int4", "uint4", "float4_e2m1fn"}) {
    const auto type = ParseDType(name);
    ASSERT_TRUE(type.has_value());
    EXPECT_EQ(type->ToString(), name);
    EXPECT_TRUE(type->is_packed());
    EXPECT_EQ(type->bits, 4);
  }
  EXPECT_EQ(RoundToType(9, *ParseDType("int4")), -7);
  EXPECT_EQ(RoundToType(-1, *ParseDType("uint4")), 15);
  EXPECT_EQ(RoundToType(2.5, *ParseDType("float4_e2m1fn")), 2);
}

}  // namespace
}  // namespace kiln
