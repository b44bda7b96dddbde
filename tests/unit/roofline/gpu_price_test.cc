// What the price of a product on a GPU has to say of pairs of configs that were timed: the tables
// of tests/bench/results/spaces and spaces_h100, and of the main jobs.
#include <gtest/gtest.h>

#include <vector>

#include "compiler/roofline/recommend.h"
#include "compiler/target/gpu_figures.h"
#include "tests/unit/roofline/kernels.h"

namespace kiln::roofline {
namespace {

constexpr int64_t kMiB = 1 << 20;

target::Arch H200() { return *target::NamedArch("sm_90a"); }
target::Arch H100() { return *target::GpuArchOf("sm_90a", {132, 1980, 2619, 5120, 50 * kMiB}); }

// Predicted nanoseconds of configs of C[m, n] = A[m, k] * B[n, k]^T in bfloat16, in their order.
std::vector<double> Prices(const target::Arch& arch, int m, int n, int k,
                           const std::vector<std::string>& configs) {
  const lang::Kernel kernel = TemplateKernel("matmul");
  Request request = MatmulRequest(kernel, m, n, k);
  request.arch = arch;
  for (const char* type : {"dtype", "out_dtype"}) request.arguments[type] = "\"bfloat16\"";
  request.arguments["trans_B"] = "True";
  for (const std::string& config : configs) request.configs.push_back(*Config::Parse(config));
  const auto r = Recommend(request);
  EXPECT_TRUE(r.ok()) << r.status();
  std::vector<double> out;
  for (const Config& config : request.configs) {
    out.push_back(r->space->PredictedAt(r->space->RankOf(config)));
  }
  return out;
}

// 50 and 66 us on an H100: three stages of 16 columns have too few bytes on their way.
TEST(GpuPriceTest, MemoryWaitsForBytesOnTheirWay) {
  const auto ns = Prices(H100(), 16, 4096, 14336,
                         {"block_K=128,block_M=16,block_N=32,num_stages=6,panel=0,threads=128",
                          "block_K=128,block_M=32,block_N=16,kiln.persistent=0,num_stages=3,"
                          "panel=0,threads=128"});
  EXPECT_LT(ns[0], 0.95 * ns[1]);
}

// 23 and 27 us on an H200, 29 and 33 us on an H100: 132 blocks, one an SM, in their chains of
// steps.
TEST(GpuPriceTest, AStageMoreShortensTheChainOfSteps) {
  for (const target::Arch& arch : {H200(), H100()}) {
    const auto ns = Prices(
        arch, 128, 2112, 7168,
        {"block_K=128,block_M=64,block_N=32,kiln.cluster=1,num_stages=6,panel=0,threads=128",
         "block_K=128,block_M=64,block_N=32,kiln.cluster=1,num_stages=4,panel=0,threads=128"});
    EXPECT_LT(ns[0], 0.97 * ns[1]);
  }
}

// 23.4 and 25.3 us on an H200, 29.1 and 30.7 us on an H100: a stage is free when both blocks are
// done.
TEST(GpuPriceTest, ClustersWaitForEachOtherInEveryStep) {
  for (const target::Arch& arch : {H200(), H100()}) {
    const std::string tile = "block_K=128,block_M=64,block_N=32,";
    const auto ns = Prices(arch, 128, 2112, 7168,
                           {tile + "kiln.cluster=1,num_stages=5,panel=4,threads=128",
                            tile + "num_stages=5,panel=4,threads=128"});
    EXPECT_LT(1.045 * ns[0], ns[1]);
  }
}

// What memory takes beside tensor cores that take longer: 0.87 of the speed without a panel on an
// H100.
TEST(GpuPriceTest, WhatIsBusySecondCounts) {
  const auto ns = Prices(
      H100(), 2048, 4096, 14336,
      {"block_K=64,block_M=128,block_N=256,kiln.cluster=1,num_stages=4,panel=16,threads=256",
       "block_K=64,block_M=128,block_N=256,kiln.cluster=1,num_stages=4,panel=0,threads=256"});
  EXPECT_LT(ns[0], ns[1]);
}

// 436 and 504 us on an H100: beside four stages of 56 KiB there is no room for a panel of results,
// and the next tile's operands take the place of this one's.
TEST(GpuPriceTest, ResultsWithoutRoomAreStoredFromRegisters) {
  const std::string tile = "block_K=64,block_M=256,block_N=192,";
  const auto ns = Prices(
      H100(), 4096, 24576, 1536,
      {tile + "num_stages=3,panel=16,threads=256", tile + "num_stages=4,panel=16,threads=256",
       tile + "kiln.persistent=0,num_stages=3,panel=16,threads=256",
       tile + "kiln.persistent=0,num_stages=4,panel=16,threads=256"});
  EXPECT_LT(ns[0], 0.97 * ns[1]);
  // Without a next tile the operands' place is free.
  EXPECT_GT(ns[2], ns[3]);
}

}  // namespace
}  // namespace kiln::roofline
