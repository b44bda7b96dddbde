// Kernels whose sizes are known at run time alone: what the host checks before a launch
// (T.assume) decides what moves tiles, and the instructions compute what the tiles do.
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using testing::Has;

struct Sizes {
  int64_t m, n, k;
};

constexpr char kProduct[] = R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def kernel():
    M, N, K = T.dynamic("M, N, K")
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"),
             C: T.Tensor((M, N), "float16")):
        ASSUMED
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            A_s = T.alloc_shared((64, 32), "float16")
            B_s = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
                T.copy(A[by * 64, k * 32], A_s)
                T.copy(B[k * 32, bx * 64], B_s)
                T.gemm(A_s, B_s, acc)
            T.copy(acc, C[by * 64, bx * 64])
    return main
)";

ir::Program Tiles(const std::string& assumed) {
  const auto tiles =
      testing::Elaborated("k.py", absl::StrReplaceAll(kProduct, {{"ASSUMED", assumed}}));
  EXPECT_TRUE(tiles.ok()) << tiles.status();
  return tiles.value_or(ir::Program());
}

absl::StatusOr<std::vector<interp::Tensor>> Interpret(const ir::Program& program, const Sizes& s,
                                                      bool tiles) {
  std::mt19937 rng(5);
  std::vector<interp::Tensor> tensors;
  std::vector<interp::TensorView> views;
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{s.m, s.k}, {s.k, s.n}, {s.m, s.n}}) {
    tensors.emplace_back(kFloat16, shape);
    views.push_back(tensors.back().View());
    for (int64_t i = 0; i < views.back().elements(); ++i) {
      views.back().Set(i, static_cast<double>(rng() % 7) - 3);
    }
  }
  interp::Options options;
  options.clip_global = tiles;
  options.meet_at_barriers = !tiles;
  const auto run = interp::Run(program, views, options);
  if (!run.ok()) return run.status();
  return tensors;
}

std::string Difference(const ir::Program& tiles, const ir::Program& lowered, const Sizes& sizes) {
  const auto want = Interpret(tiles, sizes, true), got = Interpret(lowered, sizes, false);
  if (!want.ok()) return absl::StrCat("tiles: ", want.status().message());
  if (!got.ok()) return std::string(got.status().message());
  const interp::Comparison c = interp::Compare((*got)[2].View(), (*want)[2].View(), {0, 0});
  return c.ok() ? "" : c.ToString((*got)[2].shape());
}

TEST(RunTimeSizes, MultiplesOfSixteenBytesGoByTma) {
  const ir::Program tiles = Tiles("T.assume(K % 8 == 0 and N % 8 == 0)");
  for (const char* gpu : {"sm_80", "sm_90a", "sm_100a"}) {
    const auto lowered = testing::Instructions(tiles, gpu, /*cores=*/2);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    const bool hopper = gpu != std::string("sm_80");
    EXPECT_EQ(Has(*lowered, ir::Instruction::kTensorLoad), hopper);
    EXPECT_EQ(Has(*lowered, ir::Instruction::kTensorStore), hopper);
    EXPECT_EQ(Has(*lowered, ir::Instruction::kAsyncCopy), !hopper);
    for (const Sizes& s : {Sizes{64, 64, 32}, {100, 72, 40}, {1, 8, 8}, {130, 136, 200}}) {
      EXPECT_EQ(Difference(tiles, *lowered, s), "")
          << gpu << " " << s.m << " " << s.n << " " << s.k;
    }
  }
}

// Copies of cp.async are 16 bytes wide, whichever version of its tile a step fills.
TEST(RunTimeSizes, CopiesAreWideInEveryStep) {
  const auto lowered = testing::Instructions(Tiles("T.assume(K % 8 == 0 and N % 8 == 0)"), "sm_80");
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  int copies = 0;
  ir::Walk(lowered->body, [&](const ir::Stmt& s) {
    const auto* store = s.As<ir::Store>();
    EXPECT_FALSE(store != nullptr && store->way == ir::StoreWay::kAsync) << ir::ToString(s);
    const auto* copy = s.As<ir::Instruct>();
    if (copy == nullptr || copy->op != ir::Instruction::kAsyncCopy) return true;
    ++copies;
    EXPECT_TRUE(ir::IsConst(copy->regions[0].ranges.back().extent, 8));
    return true;
  });
  EXPECT_GT(copies, 4);
}

TEST(RunTimeSizes, NothingIsTakenForGranted) {
  for (const char* assumed :
       {"pass", "T.assume(K % 8 == 0)", "T.assume(N % 8 == 0)",
        "T.assume(K % 4 == 0 and N % 8 == 0)", "T.assume(K % 8 == 4 and N % 8 == 0)",
        "T.assume(K % 8 == 0 or N % 8 == 0)", "T.assume((K + 4) % 8 == 0 and N % 8 == 0)"}) {
    const ir::Program tiles = Tiles(assumed);
    const auto lowered = testing::Instructions(tiles, "sm_90a", /*cores=*/2);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    int fetched = 0;
    ir::Walk(lowered->body, [&](const ir::Stmt& s) {
      const auto* x = s.As<ir::Instruct>();
      fetched += x != nullptr && x->op == ir::Instruction::kTensorLoad;
      return true;
    });
    EXPECT_LT(fetched, 2) << assumed;
    const Sizes sizes = absl::StrContains(assumed, "== 4") || absl::StrContains(assumed, "+ 4")
                            ? Sizes{70, 72, 44}
                            : Sizes{70, 72, 40};
    EXPECT_EQ(Difference(tiles, *lowered, sizes), "") << assumed;
  }
  // Divisors come together, of several conditions and of multiples.
  for (const char* assumed : {"T.assume(K % 8 == 0); T.assume(N % 8 == 0)",
                              "T.assume(2 * K % 16 == 0 and (N * 3 + 24) % 24 == 0)",
                              "T.assume(K % 64 == 0 and N % 128 == 0)"}) {
    const auto lowered = testing::Instructions(Tiles(assumed), "sm_90a");
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_TRUE(Has(*lowered, ir::Instruction::kTensorStore)) << assumed;
  }
}

TEST(RunTimeSizes, WhatIsAssumedIsChecked) {
  const ir::Program tiles = Tiles("T.assume(K % 8 == 0 and N % 8 == 0)");
  const auto lowered = testing::Instructions(tiles, "sm_90a");
  ASSERT_TRUE(lowered.ok());
  const auto run = Interpret(tiles, {64, 64, 36}, true);
  EXPECT_EQ(run.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(run.status().message(), "T.assume: K % 8 == 0")) << run.status();
  EXPECT_FALSE(Interpret(*lowered, {64, 64, 36}, false).ok());
  // What is said of more than sizes is no check.
  EXPECT_TRUE(absl::StrContains(ir::ToString(Tiles("T.assume(M > 0)")), "assert M > 0"));
  EXPECT_FALSE(absl::StrContains(ir::ToString(Tiles("pass")), "assert"));
}

}  // namespace
}  // namespace kiln
