// Which tensors are loaded as the first to be evicted: those that a launch reads once.
#include "compiler/passes/stream_loads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/ir/visit.h"
#include "tests/util/fragment_kernels.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> StreamsOf(const absl::StatusOr<ir::Program>& tiles) {
  EXPECT_TRUE(tiles.ok()) << tiles.status();
  if (!tiles.ok()) return {};
  const target::Arch gpu = *target::NamedArch("sm_90a");
  passes::PassContext context;
  context.gpu = &gpu;
  const auto marked = passes::StreamLoads(*tiles, context);
  EXPECT_TRUE(marked.ok()) << marked.status();
  std::vector<std::string> found;
  ir::Walk(marked->body, [&](const ir::Stmt& s) {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr) return true;
    for (const auto& [key, value] : launch->annotations) {
      absl::string_view name = key;
      if (absl::ConsumePrefix(&name, "stream:")) found.emplace_back(name);
    }
    return true;
  });
  return found;
}

std::vector<std::string> Streams(const char* name, const lang::Arguments& arguments) {
  return StreamsOf(
      testing::ElaboratedFile(absl::StrCat("compiler/templates/", name, ".py"), arguments));
}

lang::Arguments Product(const char* m) {
  return {{"M", m}, {"N", "28672"}, {"K", "4096"}, {"dtype", "'bfloat16'"}, {"trans_B", "True"}};
}

TEST(StreamLoads, WhatEveryBlockReadsForItself) {
  const lang::Arguments rows = {{"M", "8192"}, {"N", "8192"}, {"dtype", "bfloat16"}};
  EXPECT_THAT(Streams("reduction", rows), ElementsAre("x"));
  EXPECT_THAT(Streams("reduction_columns", rows), ElementsAre("x"));
  EXPECT_THAT(Streams("gemv", {{"N", "28672"}, {"K", "4096"}, {"dtype", "bfloat16"}}),
              ElementsAre("W"));
}

TEST(StreamLoads, WeightsThatOneRowOfBlocksReads) {
  EXPECT_THAT(Streams("matmul", Product("16")), ElementsAre("B"));
  EXPECT_THAT(Streams("matmul", Product("4096")), IsEmpty());  // every row of blocks reads them
}

// Of n steps that go around, each is done once, wherever a block begins; of any other number, or of
// steps that something else moves too, it does not show.
TEST(StreamLoads, LoopsThatGoAround) {
  lang::Arguments few = Product("16");
  few.erase("trans_B");
  few["rotate"] = "True";
  EXPECT_THAT(Streams("matmul_decode", few), ElementsAre("B"));
  few["K"] = "4000";
  EXPECT_THAT(Streams("matmul_decode", few), ElementsAre("B"));
  few["M"] = "32";
  EXPECT_THAT(Streams("matmul_decode", few), IsEmpty());  // two rows of blocks
  const auto around = [](const char* step) {
    return StreamsOf(testing::Elaborated("k.py", absl::StrCat(R"(import tilelang.language as T


@T.prim_func
def sums(x: T.Tensor((16384, 16384), "float16"), at: T.Tensor((64,), "int32"),
         y: T.Tensor((16384,), "float32")):
    with T.Kernel(1024, threads=128) as bx:
        tile = T.alloc_fragment((16, 256), "float16")
        total = T.alloc_fragment((16,), "float32")
        T.clear(total)
        for j in T.serial(1):
            for k in T.serial(64):
                T.copy(x[bx * 16, )",
                                                              step, R"( * 256], tile)
                T.reduce_sum(tile, total, dim=1, clear=False)
        T.copy(total, y[bx * 16])
)")));
  };
  for (const char* step : {"k", "((k + bx) % 64)", "((bx * 5 + 3 - k) % 64)"}) {
    EXPECT_THAT(around(step), ElementsAre("x")) << step;
  }
  for (const char* step : {"((k + bx) % 63)", "((2 * k + bx) % 64)", "((k + at[k]) % 64)",
                           "((k + k // 2) % 64)", "((k + j) % 64)", "(k * 0)"}) {
    EXPECT_THAT(around(step), IsEmpty()) << step;
  }
}

TEST(StreamLoads, NotWhatIsReadAgainOrFitsTheCache) {
  EXPECT_THAT(Streams("reduction", {{"M", "512"}, {"N", "8192"}}), IsEmpty());
  EXPECT_THAT(Streams("conv2d",  // each pixel under nine taps
                      {{"N", "256"}, {"H", "56"}, {"W", "56"}, {"C", "256"}, {"F", "64"}}),
              IsEmpty());
}

TEST(StreamLoads, NotWhereAsMuchIsWritten) {
  EXPECT_THAT(Streams("softmax", {{"M", "8192"}, {"N", "8192"}}), IsEmpty());
}

}  // namespace
}  // namespace kiln
