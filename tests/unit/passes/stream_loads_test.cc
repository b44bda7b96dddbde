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

std::vector<std::string> Streams(const char* name, const lang::Arguments& arguments) {
  const auto tiles =
      testing::ElaboratedFile(absl::StrCat("compiler/templates/", name, ".py"), arguments);
  EXPECT_TRUE(tiles.ok()) << tiles.status();
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
