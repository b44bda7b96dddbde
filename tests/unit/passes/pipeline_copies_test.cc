// Which tiles of a pipelined loop are fetched ahead: those whose copies every step to come can be
// asked for; and what TMA fetches of tables. That the fetched ones arrive is checked by kernels in
// the interpreter (tests/kernels).
#include "compiler/passes/pipeline_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/specialise_warps.h"
#include "tests/util/fragment_kernels.h"

namespace kiln::passes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kKernel[] = R"(import tilelang.language as T


@T.prim_func
def kernel(A: T.Tensor((256, 32), "float16"), table: T.Tensor((8,), "int32"),
           mask: T.Tensor((8,), "int32"), C: T.Tensor((16, 32), "float16")):
    with T.Kernel(1, threads=32):
        x = T.alloc_shared((16, 32), "float16")
        y = T.alloc_shared((16, 32), "float16")
        sums = T.alloc_fragment((16, 32), "float16")
        last = T.alloc_var("int32")
        last = table[7]
        T.clear(sums)
        for k in T.Pipelined(STEPS, num_stages=3):
BODY
        T.copy(sums, C)
)";

constexpr char kAdd[] = "for i, j in T.Parallel(16, 32):\n    sums[i, j] += x[i, j]";

// The tiles that have three versions, in a loop of `body`, on a GPU of so much shared memory.
std::vector<std::string> Versioned(const std::string& body, const char* steps = "8",
                                   int64_t shared_bytes = 100 << 10) {
  const std::string indented =
      absl::StrCat("            ", absl::StrReplaceAll(body, {{"\n", "\n            "}}));
  const auto tiles = testing::Elaborated(
      "k.py", absl::StrReplaceAll(kKernel, {{"BODY", indented}, {"STEPS", steps}}));
  EXPECT_TRUE(tiles.ok()) << tiles.status();
  target::Arch gpu = *target::NamedArch("sm_80");
  gpu.smem_block = shared_bytes;
  PassContext context;
  context.gpu = &gpu;
  const auto pipelined = PipelineCopies(*tiles, context);
  EXPECT_TRUE(pipelined.ok()) << pipelined.status();
  std::vector<std::string> names;
  ir::Walk(pipelined->body, [&](const ir::Stmt& s) {
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc != nullptr && alloc->buffer->shape.size() == 3) names.push_back(alloc->buffer->name);
    return true;
  });
  return names;
}

std::string Under(const std::string& head, const std::string& body) {
  return absl::StrCat(head, "\n    ", absl::StrReplaceAll(body, {{"\n", "\n    "}}));
}

// Names n1 to so many, each of which stands for three times as much as the one before it.
std::string Chain(int names, const std::string& indent) {
  std::string chain;
  for (int n = 1; n <= names; ++n) {
    const std::string last = absl::StrCat("n", n - 1);
    absl::StrAppend(&chain, indent, "n", n, " = T.max(", last, " - ", last, " // 3, ", last,
                    " % 5)\n");
  }
  return chain;
}

const std::string kCopy = "T.copy(A[k * 16, 0], x)\n";  // NOLINT: of a test

TEST(PipelineCopies, WholeTilesOfEachStep) {
  EXPECT_THAT(Versioned(kCopy + kAdd), ElementsAre("x"));
  EXPECT_THAT(Versioned(kAdd + std::string("\n") + kCopy), IsEmpty());  // the last step's is used
}

TEST(PipelineCopies, AsManyStepsAsAVariableSays) {
  EXPECT_THAT(Versioned(kCopy + kAdd, "last"), ElementsAre("x"));
  EXPECT_THAT(Versioned(kCopy + kAdd + "\nlast = 0", "last"), IsEmpty());
}

TEST(PipelineCopies, PlacesThatATableSays) {
  EXPECT_THAT(Versioned(std::string("T.copy(A[table[k] * 16, 0], x)\n") + kAdd), ElementsAre("x"));
  EXPECT_THAT(
      Versioned(std::string("at = table[k] * 8\nfrom_ = at * 2\nT.copy(A[from_, 0], x)\n") + kAdd),
      ElementsAre("x"));
  // A place that the loop itself works out, by a name or not.
  EXPECT_THAT(Versioned(std::string("at = last * 2\nT.copy(A[at, 0], x)\nlast += 1\n") + kAdd),
              IsEmpty());
  EXPECT_THAT(Versioned(std::string("T.copy(A[last, 0], x)\nlast += 1\n") + kAdd), IsEmpty());
}

TEST(PipelineCopies, RowsThatATableSays) {
  const auto gather = [](const char* row) {
    return absl::StrCat("for i, j in T.Parallel(16, 32):\n    x[i, j] = A[", row, ", j]\n", kAdd);
  };
  EXPECT_THAT(Versioned(gather("table[k] * 2 + i")), ElementsAre("x"));
  EXPECT_THAT(Versioned(gather("table[i % 8] + k")), ElementsAre("x"));
  EXPECT_THAT(Versioned(gather("last + i") + "\nlast += 1"), IsEmpty());
  EXPECT_THAT(
      Versioned(absl::StrCat("for i, j in T.Parallel(16, 32):\n"
                             "    x[i, j] = T.if_then_else(k * 16 + i < table[0] and j < 30, "
                             "A[k * 16 + i, j], 0)\n",
                             kAdd)),
      ElementsAre("x"));
  // Halves of words that are looked up one by one are no copies of hardware's.
  EXPECT_THAT(Versioned(absl::StrCat("for i, j in T.Parallel(16, 32):\n"
                                     "    x[i, j] = A[k * 16 + i, table[j % 8]]\n",
                                     kAdd)),
              IsEmpty());
}

// They are no place to fetch from, and take no time.
TEST(PipelineCopies, NotFromNamesThatStandForTooMuch) {
  const auto gather = [](int names) {
    return absl::StrCat("for i, j in T.Parallel(16, 32):\n    n0 = table[k]\n",
                        Chain(names, "    "), "    x[i, j] = A[n", names, ", j]\n", kAdd);
  };
  EXPECT_THAT(Versioned(gather(2)), ElementsAre("x"));
  EXPECT_THAT(Versioned(gather(40)), IsEmpty());
}

TEST(PipelineCopies, BlocksOfAMask) {
  EXPECT_THAT(Versioned(Under("if mask[k] != 0:", kCopy + kAdd)), ElementsAre("x"));
  EXPECT_THAT(Versioned(Under("if mask[k] != 0:", Under("if table[k] != 3:", kCopy + kAdd))),
              ElementsAre("x"));
  EXPECT_THAT(Versioned(Under("if mask[k] != 0:", kCopy + kAdd) + "\n" +
                        Under("else:", absl::StrReplaceAll(kCopy + kAdd, {{"x", "y"}}))),
              ElementsAre("x", "y"));
}

TEST(PipelineCopies, NotWhatAStepWithoutACopyUses) {
  EXPECT_THAT(Versioned(Under("if mask[k] != 0:", kCopy) + "\n" + kAdd), IsEmpty());
  EXPECT_THAT(
      Versioned(Under("if mask[k] != 0:", kCopy + kAdd) + "\n" + Under("else:", std::string(kAdd))),
      IsEmpty());
}

// Tiles of 1 KiB: versions of one fit 4 KiB, of both of a mask's do not.
TEST(PipelineCopies, WhatMemoryDecidesOnHasVersionsWhereTheyFit) {
  const std::string either = Under("if mask[k] != 0:", kCopy + kAdd) + "\n" +
                             Under("else:", absl::StrReplaceAll(kCopy + kAdd, {{"x", "y"}}));
  EXPECT_THAT(Versioned(either, "8", 8 << 10), ElementsAre("x", "y"));
  EXPECT_THAT(Versioned(either, "8", 4 << 10), IsEmpty());
  EXPECT_THAT(Versioned(kCopy + kAdd, "8", 1 << 10), ElementsAre("x"));  // refused for its size
  // The plain one of two keeps its versions.
  EXPECT_THAT(Versioned(std::string("T.copy(A[k * 16, 0], x)\nT.copy(A[table[k] * 16, 0], y)\n") +
                            kAdd + "\n" + absl::StrReplaceAll(kAdd, {{"x", "y"}}),
                        "8", 4 << 10),
              ElementsAre("x"));
}

TEST(PipelineCopies, NotPastAnAcquire) {
  EXPECT_THAT(Versioned(std::string("seen = T.atomic_load(mask[k], \"acquire\")\n"
                                    "T.copy(A[k * 16, 0], x)\n") +
                        kAdd),
              IsEmpty());
}

TEST(PipelineCopies, NotUnderWhatTheLoopDecides) {
  EXPECT_THAT(Versioned(Under("if last > k:", kCopy + kAdd) + "\nlast = mask[k]"), IsEmpty());
}

constexpr char kProduct[] = R"(import tilelang.language as T


@T.prim_func
def kernel(A: T.Tensor((1024, 64), "float16"), B: T.Tensor((1024, 64), "float16"),
           table: T.Tensor((16,), "int32"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        x = T.alloc_shared((64, 64), "float16")
        y = T.alloc_shared((64, 64), "float16")
        sums = T.alloc_fragment((64, 64), "float32")
        T.clear(sums)
        for k in T.Pipelined(16, num_stages=3):
            n0 = table[k]
NAMES            T.copy(A[k * 64, 0], x)
            T.copy(B[LAST * 64, 0], y)
            T.gemm(x, y, sums)
        T.copy(sums, C)
)";

// The tiles that TMA fetches where a chain of names says where one of them lies.
int Fetched(int names) {
  const std::string chain = Chain(names, "            ");
  const auto tiles = testing::Elaborated(
      "k.py",
      absl::StrReplaceAll(kProduct, {{"NAMES", chain}, {"LAST", absl::StrCat("n", names)}}));
  EXPECT_TRUE(tiles.ok()) << tiles.status();
  const target::Arch gpu = *target::NamedArch("sm_90a");
  PassContext context;
  context.gpu = &gpu;
  context.instruct = true;
  const auto parts = SpecialiseWarps(*tiles, context);
  EXPECT_TRUE(parts.ok()) << parts.status();
  int fetched = 0;
  ir::Walk(parts->body, [&](const ir::Stmt& s) {
    const auto* op = s.As<ir::Instruct>();
    fetched += op != nullptr && op->op == ir::Instruction::kTensorLoad;
    return true;
  });
  return fetched;
}

TEST(SpecialiseWarps, FetchesFromPlacesThatNamesSay) {
  EXPECT_EQ(Fetched(0), 2);
  EXPECT_EQ(Fetched(1), 2);
  EXPECT_EQ(Fetched(40), 1);  // too much to say twice, and to look at
}

}  // namespace
}  // namespace kiln::passes
