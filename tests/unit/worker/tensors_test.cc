#include "worker/profile/tensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "tests/unit/worker/profile_fixture.h"

namespace kiln::worker {
namespace {

TEST(SeededValueTest, RangesByType) {
  for (const char* name :
       {"float32", "float64", "float16", "bfloat16", "int32", "int8", "uint8", "bool", "int64"}) {
    DType type = *ParseDType(name);
    double low = type.is_float() ? -1 : type.is_bool() || type.is_uint() ? 0 : -8;
    double high = type.is_float() || type.is_bool() ? 1 : 8;
    double sum = 0;
    std::set<double> seen;
    constexpr int kCount = 20000;
    for (int64_t i = 0; i < kCount; ++i) {
      double value = SeededValue(5, 0, type, i);
      EXPECT_GE(value, low) << name;
      EXPECT_LE(value, high) << name;
      EXPECT_EQ(value, RoundToType(value, type)) << name;
      sum += value;
      seen.insert(value);
    }
    EXPECT_NEAR(sum / kCount, (low + high) / 2, (high - low) / 50) << name;
    EXPECT_GE(seen.size(), type.is_bool() ? 2u : 9u) << name;
  }
}

TEST(SeededValueTest, FillAgreesWithSingleValuesWhereverItStarts) {
  constexpr int64_t kElements = 100'000;  // some are subnormal in float16
  for (const char* name : {"float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2",
                           "float8_e4m3fnuz", "float64", "int8"}) {
    DType type = *ParseDType(name);
    const auto width = static_cast<size_t>(type.bytes());
    std::vector<uint8_t> memory(static_cast<size_t>(kElements) * width), one(width);
    std::vector<double> apart(static_cast<size_t>(kElements));
    FillSeeded(3, 1, type, 777, kElements, memory.data());
    SeededValues(3, 1, type, 5, 3, kElements, apart.data());
    for (int64_t i = 0; i < kElements; ++i) {
      const double value = SeededValue(3, 1, type, 777 + i);
      StoreElement(one.data(), type, value);  // by its bits: a zero has its sign
      ASSERT_EQ(std::memcmp(&memory[static_cast<size_t>(i) * width], one.data(), width), 0)
          << name << " " << value;
      ASSERT_EQ(apart[static_cast<size_t>(i)], SeededValue(3, 1, type, 5 + 3 * i)) << name;
    }
  }
  EXPECT_NE(SeededValue(1, 0, kFloat32, 5), SeededValue(2, 0, kFloat32, 5)) << "by seed";
  EXPECT_NE(SeededValue(1, 0, kFloat32, 5), SeededValue(1, 1, kFloat32, 5)) << "by parameter";
}

class TensorSetTest : public testing::Test {
 protected:
  std::unique_ptr<TensorSet> Make(int copies, int64_t rows = 600, int64_t columns = 700) {
    manifest_ = *BindManifest(*ParseManifest(AffineManifest(rows, columns, "float32")), {});
    return *TensorSet::Create(&device_, manifest_, copies, {1, 2});
  }
  FakeDevice device_;
  BoundManifest manifest_;
};

TEST_F(TensorSetTest, CopiesAlternateSeedsAndPoisonOutputs) {
  std::unique_ptr<TensorSet> tensors = Make(3);
  for (int copy = 0; copy < 3; ++copy) {
    const float* a = static_cast<const float*>(tensors->Arguments(copy, {}).pointers[0]);
    EXPECT_EQ(tensors->seed_of(copy), copy % 2 == 0 ? 1u : 2u);
    for (int64_t i : {0, 1, 300000, 600 * 700 - 1}) {
      EXPECT_EQ(a[i], SeededValue(tensors->seed_of(copy), 0, kFloat32, i));
    }
    const float* c = static_cast<const float*>(tensors->Arguments(copy, {}).pointers[1]);
    EXPECT_TRUE(std::isnan(c[0]));
    EXPECT_TRUE(tensors->VerifyUntouched(copy).ok());
  }
  EXPECT_EQ(tensors->footprint(), 2 * 600 * 700 * 4);
}

TEST_F(TensorSetTest, ReadingBeyondATensorGivesNaN) {
  std::unique_ptr<TensorSet> tensors = Make(2, 3, 5);
  const float* a = static_cast<const float*>(tensors->Arguments(0, {}).pointers[0]);
  EXPECT_TRUE(std::isnan(a[-1]));
  EXPECT_TRUE(std::isnan(a[15]));
}

TEST_F(TensorSetTest, EveryDamagedByteIsFoundAndRestored) {
  std::unique_ptr<TensorSet> tensors = Make(2, 30, 7);
  uint8_t* a = static_cast<uint8_t*>(tensors->Arguments(1, {}).pointers[0]);
  int64_t bytes = 30 * 7 * 4;
  for (int64_t at : {-kRedZoneBytes, int64_t{-1}, int64_t{0}, int64_t{17}, bytes - 1, bytes,
                     bytes + kRedZoneBytes - 1}) {
    a[at] ^= 0x10;
    EXPECT_TRUE(absl::IsDataLoss(tensors->VerifyUntouched(1))) << at;
    EXPECT_TRUE(tensors->VerifyUntouched(0).ok()) << at;
    ASSERT_TRUE(tensors->Restore(1).ok());
    EXPECT_TRUE(tensors->VerifyUntouched(1).ok()) << at;
  }
}

// A table is passed in the place of its tensors, which lie one after the other.
TEST_F(TensorSetTest, TablesHoldTheAddressesOfTheirTensors) {
  manifest_ = *BindManifest(*ParseManifest(R"({"name": "k", "params": [
           {"name": "p", "kind": "tensor", "dtype": "float32", "shape": ["n", 4, 5], "table": true,
            "output": false, "accumulates": false},
           {"name": "c", "kind": "tensor", "dtype": "float32", "shape": [4], "output": true,
            "accumulates": false}], "dims": ["n"]})"),
                            {{"n", "3"}});
  EXPECT_TRUE(manifest_.tensors[0].table);
  EXPECT_FALSE(manifest_.tensors[1].table);
  auto tensors = *TensorSet::Create(&device_, manifest_, 2, {1, 2});
  for (int copy = 0; copy < 2; ++copy) {
    auto* const* table = static_cast<float* const*>(tensors->Arguments(copy, {}).pointers[0]);
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(table[i], table[0] + 20 * i);
      EXPECT_EQ(table[i][7], SeededValue(tensors->seed_of(copy), 0, kFloat32, 20 * i + 7));
    }
    EXPECT_TRUE(tensors->VerifyUntouched(copy).ok());
    table[2][19] += 1;
    EXPECT_TRUE(absl::IsDataLoss(tensors->VerifyUntouched(copy)));
  }
  tensors.reset();
  EXPECT_EQ(device_.allocated_bytes(), 0);
}

TEST_F(TensorSetTest, NoRoomIsAnErrorAndLeavesNothingBehind) {
  device_.set_memory_bytes(5 << 20);
  manifest_ = *BindManifest(*ParseManifest(AffineManifest(600, 700, "float32")), {});
  absl::Status status = TensorSet::Create(&device_, manifest_, 10, {1}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(device_.allocated_bytes(), 0);
}

}  // namespace
}  // namespace kiln::worker
