// Which tiles of a pipelined loop are fetched ahead: those whose copies every step to come can be
// asked for. That the fetched ones arrive is checked by kernels in the interpreter (tests/kernels).
#include "compiler/passes/pipeline_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/visit.h"
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

// The tiles that have three versions, in a loop of `body`; of lines with spaces in front.
std::vector<std::string> Versioned(const std::string& body, const char* steps = "8") {
  const std::string indented =
      absl::StrCat("            ", absl::StrReplaceAll(body, {{"\n", "\n            "}}));
  const auto tiles = testing::Elaborated(
      "k.py", absl::StrReplaceAll(kKernel, {{"BODY", indented}, {"STEPS", steps}}));
  EXPECT_TRUE(tiles.ok()) << tiles.status();
  const auto pipelined = PipelineCopies(*tiles, {});
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
}

// Names that stand for three times as much each are no place to fetch from, and take no time.
TEST(PipelineCopies, NotFromNamesThatStandForTooMuch) {
  const auto gather = [](int names) {
    std::string body = "for i, j in T.Parallel(16, 32):\n    n0 = table[k]\n";
    for (int n = 1; n <= names; ++n) {
      const std::string last = absl::StrCat("n", n - 1);
      absl::StrAppend(&body, "    n", n, " = T.max(", last, " - ", last, " // 3, ", last,
                      " % 5)\n");
    }
    return absl::StrCat(body, "    x[i, j] = A[n", names, ", j]\n", kAdd);
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

TEST(PipelineCopies, NotUnderWhatTheLoopDecides) {
  EXPECT_THAT(Versioned(Under("if last > k:", kCopy + kAdd) + "\nlast = mask[k]"), IsEmpty());
}

}  // namespace
}  // namespace kiln::passes
