#include "compiler/interp/tensor.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kiln::interp {
namespace {

TEST(TensorTest, StridedViews) {
  Tensor t(kInt32, {6});
  for (int i = 0; i < 6; ++i) t.as<int32_t>()[i] = i;
  const TensorView transposed{t.data(), kInt32, {3, 2}, {1, 3}};
  EXPECT_EQ(transposed.Get(0), 0);
  EXPECT_EQ(transposed.Get(1), 3);
  EXPECT_EQ(transposed.Get(2), 1);
  transposed.Set(5, 77);
  EXPECT_EQ(t.as<int32_t>()[5], 77);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 64, 0u);
}

TEST(TensorTest, RandomIsReproducibleAndInRange) {
  for (const DType type : {kFloat32, kFloat16, kInt8, kUInt8, kBool}) {
    const Tensor a = RandomTensor(type, {1000}, 7), b = RandomTensor(type, {1000}, 7);
    const Tensor c = RandomTensor(type, {1000}, 8);
    EXPECT_TRUE(Compare(a.View(), b.View(), {}).ok());
    EXPECT_FALSE(Compare(a.View(), c.View(), {}).ok());
    double low = 1e9, high = -1e9;
    for (int i = 0; i < 1000; ++i) {
      low = std::min(low, a.View().Get(i));
      high = std::max(high, a.View().Get(i));
    }
    EXPECT_GE(low, type.is_float() ? -1 : type == kInt8 ? -4 : 0) << type.ToString();
    EXPECT_LE(high, type.is_float() || type.is_bool() ? 1 : type == kInt8 ? 4 : 8);
    EXPECT_LT(low, high);
  }
}

TEST(TensorTest, CompareFindsTheFirstMismatch) {
  Tensor a(kFloat32, {2, 3}), b(kFloat32, {2, 3});
  a.as<float>()[1] = NAN;
  b.as<float>()[1] = NAN;
  a.as<float>()[2] = INFINITY;
  b.as<float>()[2] = INFINITY;
  a.as<float>()[4] = 1.5f;
  b.as<float>()[4] = 2.0f;
  b.as<float>()[5] = NAN;
  const Comparison c = Compare(a.View(), b.View(), {0.1, 0.1});
  EXPECT_EQ(c.mismatches, 2);
  EXPECT_EQ(c.first, 4);
  EXPECT_EQ(c.max_absolute_error, 0.5);
  EXPECT_NE(c.ToString({2, 3}).find("first at (1, 1): got 1.5, want 2"), std::string::npos)
      << c.ToString({2, 3});
  EXPECT_TRUE(Compare(a.View(), a.View(), {}).ok());
  b.as<float>()[2] = -INFINITY;
  EXPECT_EQ(Compare(a.View(), b.View(), {1e30, 1e30}).first, 2) << "infinities have signs";
}

TEST(TensorTest, ToleranceGrowsWithTermsAndNarrowness) {
  EXPECT_LT(DefaultTolerance(kFloat32, 1).relative, DefaultTolerance(kFloat32, 10000).relative);
  EXPECT_LT(DefaultTolerance(kFloat32, 100).relative, DefaultTolerance(kBFloat16, 100).relative);
  EXPECT_LT(DefaultTolerance(kFloat64, 100).relative, DefaultTolerance(kFloat32, 100).relative);
  EXPECT_EQ(DefaultTolerance(kInt32, 100).relative, 0);
}

}  // namespace
}  // namespace kiln::interp
