#include "compiler/roofline/carver.h"

#include <gtest/gtest.h>

namespace kiln::roofline {
namespace {

CarverNode Matmul(int64_t m, int64_t n, int64_t k, DType in = kFloat16, DType accum = kFloat16) {
  CarverNode node;
  node.space = {m, n};
  node.reduce = {k};
  node.inputs = {{{0, 2}, in}, {{1, 2}, in}};  // B is [N, K]
  node.out = node.accum = accum;
  node.contraction = true;
  return node;
}

CarverDevice Device(const char* arch) { return CarverDeviceOf(*target::NamedArch(arch)); }

// The list that the original publishes for 1024^3 in float16 on an RTX 4090.
TEST(CarverTest, PublishedMatmulList) {
  const auto hints = EmitCarver(Matmul(1024, 1024, 1024), Device("sm_89"), 20);
  ASSERT_EQ(hints.size(), 20u);
  const auto expect = [&](int place, std::vector<int64_t> block, int64_t k) {
    EXPECT_EQ(hints[place - 1].block, block) << "#" << place;
    EXPECT_EQ(hints[place - 1].rstep, std::vector<int64_t>{k}) << "#" << place;
  };
  expect(1, {32, 64}, 128);
  expect(2, {64, 32}, 128);
  expect(20, {256, 32}, 32);
  for (const CarverHint& h : hints) {
    EXPECT_TRUE(h.tensor_core);
    EXPECT_EQ(h.pipeline_stage, 1);  // this generation gets no pipeline
    int64_t warps = 1;
    for (size_t d = 0; d < 2; ++d) {
      EXPECT_EQ(h.block[d] % h.warp[d], 0);
      warps *= h.block[d] / h.warp[d];
    }
    EXPECT_EQ(warps * 32, h.threads);
  }
}

TEST(CarverTest, PrioritiesNeverFall) {
  const auto hints = EmitCarver(Matmul(4096, 4096, 4096), Device("sm_90a"), 50);
  ASSERT_FALSE(hints.empty());
  for (size_t i = 1; i < hints.size(); ++i) EXPECT_LE(hints[i - 1].priority, hints[i].priority);
  EXPECT_EQ(hints[0].pipeline_stage, 2);
  EXPECT_TRUE(hints[0].use_async);
}

TEST(CarverTest, GenerationsDecideTensorCores) {
  EXPECT_TRUE(CarverTensorizes(Matmul(64, 64, 64), Device("sm_80")));
  EXPECT_FALSE(CarverTensorizes(Matmul(64, 64, 64), Device("sm_100a")));  // refused by the original
  EXPECT_FALSE(CarverTensorizes(Matmul(15, 64, 64), Device("sm_80")));    // decode runs on vectors
  EXPECT_FALSE(CarverTensorizes(Matmul(64, 64, 64, kFloat32, kFloat32), Device("sm_80")));
  const DType fp8 = *ParseDType("float8_e4m3fn");
  EXPECT_FALSE(CarverTensorizes(Matmul(64, 64, 64, fp8, kFloat32), Device("sm_80")));
  EXPECT_TRUE(CarverTensorizes(Matmul(64, 64, 64, fp8, kFloat32), Device("sm_89")));
  EXPECT_FALSE(CarverTensorizes(Matmul(64, 64, 16, fp8, kFloat32), Device("sm_89")));
}

// Known blind spots that the port must share.
TEST(CarverTest, SharesTheOriginalsBlindSpots) {
  CarverNode elementwise;
  elementwise.space = {1 << 24};
  elementwise.inputs = {{{0}, kFloat16}};
  elementwise.out = elementwise.accum = kFloat16;
  const auto tiny = EmitCarver(elementwise, Device("sm_90a"), 1);
  ASSERT_EQ(tiny.size(), 1u);
  EXPECT_EQ(tiny[0].block, std::vector<int64_t>{64});  // 262,144 blocks of 64 elements

  // Tiles must divide the extents: a prime extent leaves nothing for tensor cores.
  for (const CarverHint& h : EmitCarver(Matmul(4099, 4099, 4096), Device("sm_90a"), 10)) {
    EXPECT_FALSE(h.tensor_core);
  }
  // The raster rule compares generations as text.
  CarverDevice old = Device("sm_90a");
  const auto now = EmitCarver(Matmul(8192, 8192, 8192), old, 1);
  ASSERT_EQ(now.size(), 1u);
  EXPECT_EQ(now[0].panel, 11);  // floor(sqrt(132))
}

TEST(CarverTest, VectorPolicyCoversThreads) {
  const auto hints = EmitCarver(Matmul(512, 512, 512, kFloat32, kFloat32), Device("sm_80"), 10);
  ASSERT_FALSE(hints.empty());
  for (const CarverHint& h : hints) {
    EXPECT_FALSE(h.tensor_core);
    int64_t threads = 1;
    for (int64_t t : h.thread) threads *= t;
    for (int64_t t : h.reduce_thread) threads *= t;
    EXPECT_EQ(threads, h.threads);
    for (size_t d = 0; d < h.block.size(); ++d) EXPECT_EQ(h.block[d] % h.thread[d], 0);
  }
}

}  // namespace
}  // namespace kiln::roofline
