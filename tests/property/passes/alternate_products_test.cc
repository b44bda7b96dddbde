// Loops that multiply and work on each step's result alone: on Hopper the products of every other
// step go to registers of their own, beside the work. Against their tiles, and the mistakes that a
// compiler could make there, each of which must show.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "tests/property/passes/gpu_products.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using testing::Difference;
using testing::ExpectNoticed;
using testing::Lowered;
using testing::Nothing;
using testing::Tiles;
using testing::With;

// Two blocks of 64 * groups rows; LOOP is a block's body from where its sums are clear, STEPS the
// steps of 64, STAGES the versions of a tile.
constexpr char kKernel[] = R"(import tilelang
import tilelang.language as T


@T.prim_func
def steps(A: T.Tensor((ROWS * 2, STEPS * 64), "bfloat16"),
          B: T.Tensor((64, STEPS * 64), "bfloat16"), S: T.Tensor((ROWS * 2, STEPS), "float32"),
          C: T.Tensor((2, ROWS * 2, 64), "float32")):
    with T.Kernel(2, threads=THREADS) as block:
        a = T.alloc_shared((ROWS, 64), "bfloat16")
        b = T.alloc_shared((64, 64), "bfloat16")
        c = T.alloc_fragment((ROWS, 64), "float32")
        sums = T.alloc_fragment((ROWS, 64), "float32")
        T.clear(sums)
LOOP
        T.copy(sums, C[0, block * ROWS, 0])
)";

struct Shape {
  int steps = 6, stages = 3, groups = 1;  // groups of warps, of 64 rows each
};

std::string Kernel(const std::string& loop, const Shape& shape) {
  const std::string filled = absl::StrReplaceAll(
      absl::StrReplaceAll(kKernel, {{"LOOP\n", loop.substr(1)}}),
      {{"TILES", "T.copy(A[block * ROWS, k * 64], a)\n            T.copy(B[0, k * 64], b)"}});
  return absl::StrReplaceAll(filled, {{"STEPS", absl::StrCat(shape.steps)},
                                      {"STAGES", absl::StrCat(shape.stages)},
                                      {"ROWS", absl::StrCat(shape.groups * 64)},
                                      {"THREADS", absl::StrCat(shape.groups * 128)}});
}

constexpr char kPromoted[] = R"(
        for k in T.Pipelined(STEPS, num_stages=STAGES):
            TILES
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(ROWS, 64):
                sums[i, j] += c[i, j]
)";
// With a factor of each row and step, and a name that memory decides on.
constexpr char kScaled[] = R"(
        for k in T.Pipelined(STEPS, num_stages=STAGES):
            TILES
            first = S[0, k]
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(ROWS, 64):
                sums[i, j] += c[i, j] * (S[block * ROWS + i, k] + first)
)";
constexpr char kClearedAfterwards[] = R"(
        T.clear(c)
        for k in T.Pipelined(STEPS, num_stages=STAGES):
            TILES
            T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(ROWS, 64):
                sums[i, j] += c[i, j] * S[block * ROWS + i, k]
            T.clear(c)
)";
// The work changes the result before it uses it, and reads a tile.
constexpr char kChanged[] = R"(
        for k in T.Pipelined(STEPS, num_stages=STAGES):
            TILES
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(ROWS, 64):
                c[i, j] = c[i, j] * 2 + a[i, j]
            for i, j in T.Parallel(ROWS, 64):
                sums[i, j] = T.max(sums[i, j], c[i, j])
)";
// The work adds to memory that others may add to.
constexpr char kAdds[] = R"(
        for k in T.Pipelined(STEPS, num_stages=STAGES):
            TILES
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(ROWS, 64):
                T.atomic_add(C[1, block * ROWS + i, j], c[i, j])
)";
constexpr char kOfTheBlock[] = R"(
        for k in T.Pipelined(STEPS - block * 3, num_stages=STAGES):
            TILES
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(ROWS, 64):
                sums[i, j] += c[i, j]
)";
// Of the last pieces less than nothing is left.
constexpr char kInPieces[] = R"(
        for piece in T.serial(3):
            for k in T.Pipelined(STEPS - piece * 4, num_stages=STAGES):
                T.copy(A[block * ROWS, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, c, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(ROWS, 64):
                    sums[i, j] += c[i, j] * (piece + 1)
)";

// What must stay as it is.
constexpr char kUsedLater[] = R"(
        for k in T.Pipelined(STEPS, num_stages=STAGES):
            TILES
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(ROWS, 64):
                sums[i, j] += c[i, j]
        T.copy(c, C[1, block * ROWS, 0])
)";
constexpr char kGoesOn[] = R"(
        T.clear(c)
        for k in T.Pipelined(STEPS, num_stages=STAGES):
            TILES
            T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(ROWS, 64):
                sums[i, j] += c[i, j]
)";
constexpr char kUsedBefore[] = R"(
        T.clear(c)
        for k in T.Pipelined(STEPS, num_stages=STAGES):
            TILES
            for i, j in T.Parallel(ROWS, 64):
                sums[i, j] += c[i, j]
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(ROWS, 64):
                c[i, j] = c[i, j] * 2
)";
constexpr char kClearedAndUsedLater[] = R"(
        T.clear(c)
        for k in T.Pipelined(STEPS, num_stages=STAGES):
            TILES
            T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(ROWS, 64):
                sums[i, j] += c[i, j]
            T.clear(c)
        T.copy(c, C[1, block * ROWS, 0])
)";

// The product is a part of what the step clears, or of what goes from step to step.
constexpr char kPartIsCleared[] = R"(
        wide = T.alloc_fragment((ROWS, 128), "float32")
        T.clear(wide)
        for k in T.Pipelined(STEPS, num_stages=STAGES):
            TILES
            T.gemm(a, b, wide[:, 0:64], transpose_B=True)
            for i, j in T.Parallel(ROWS, 64):
                sums[i, j] += wide[i, j] + wide[i, j + 64] + 1
            T.clear(wide)
)";
constexpr char kPartGoesOn[] = R"(
        tall = T.alloc_fragment((ROWS * 2, 32), "float32")
        both = T.alloc_fragment((ROWS * 2, 32), "float32")
        T.clear(both)
        for k in T.Pipelined(STEPS, num_stages=STAGES):
            TILES
            T.gemm(a, b[0:32, :], tall[0:ROWS, :], transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(ROWS * 2, 32):
                if i >= ROWS:
                    tall[i, j] = T.if_then_else(k == 0, 0.0, tall[i, j]) + 1.0
            for i, j in T.Parallel(ROWS * 2, 32):
                both[i, j] += tall[i, j]
        T.copy(both[ROWS:ROWS * 2, :], C[1, block * ROWS, 0])
)";

bool Alternates(const ir::Program& program) {
  return absl::StrContains(ir::ToString(program), ".other: register");
}

void ExpectComputes(const std::string& loop, const Shape& shape, bool alternates,
                    const char* gpu = "sm_90a") {
  const std::string text = Kernel(loop, shape);
  const auto tiles = Tiles(text);
  ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
  const auto instructions = Lowered(*tiles, {.gpu = gpu});
  ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
  EXPECT_EQ(Alternates(*instructions), alternates) << text << ir::ToString(*instructions);
  EXPECT_EQ(Difference(*tiles, *instructions), "") << text << ir::ToString(*instructions);
}

TEST(AlternateProducts, ComputeWhatTheirTilesDo) {
  for (const char* loop : {kPromoted, kScaled, kClearedAfterwards, kChanged, kAdds, kOfTheBlock}) {
    for (const int steps : {1, 3, 4, 6, 9}) {
      for (const int stages : {2, 3, 4}) ExpectComputes(loop, {steps, stages}, true);
    }
    ExpectComputes(loop, {7, 5, 2}, true);
    ExpectComputes(loop, {6, 3}, false, "sm_80");
  }
  for (const int steps : {3, 5, 8}) ExpectComputes(kInPieces, {steps, 3}, true);
}

TEST(AlternateProducts, LeaveResultsThatOthersLookAt) {
  for (const char* loop :
       {kUsedLater, kGoesOn, kUsedBefore, kClearedAndUsedLater, kPartIsCleared, kPartGoesOn}) {
    for (const int steps : {3, 4, 6}) ExpectComputes(loop, {steps, 3}, false);
  }
  ExpectComputes(kPromoted, {6, 1}, false);
}

TEST(AlternateProducts, MistakesAreNoticed) {
  for (const int stages : {2, 3}) {
    const auto tiles = Tiles(Kernel(kInPieces, {9, stages}));
    ASSERT_TRUE(tiles.ok()) << tiles.status();
    const auto instructions = Lowered(*tiles, {});
    ASSERT_TRUE(instructions.ok()) << instructions.status();
    ASSERT_TRUE(Alternates(*instructions));
    const int waits = ExpectNoticed(*tiles, *instructions, [](const ir::Instruct& x) {
      if (x.op != ir::Instruction::kWgmmaWait) return ir::Stmt();
      return With(x, {x.args[0] + ir::MakeInt(1)}, x.annotations);
    });
    EXPECT_GE(waits, 4);
    const int arrivals = ExpectNoticed(*tiles, *instructions, [](const ir::Instruct& x) {
      return x.op == ir::Instruction::kBarrierArrive ? Nothing(x) : ir::Stmt();
    });
    EXPECT_GE(arrivals, 4);
  }
}

// Counters that forget to go round, each alone.
TEST(CountRemainders, CountersThatStopAreNoticed) {
  const auto tiles = Tiles(Kernel(kInPieces, {9, 3}));
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  const auto instructions = Lowered(*tiles, {});
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  int counters = 0;
  const auto without = [&](int which) {
    int seen = 0;
    ir::Program changed = *instructions;
    changed.body = ir::RewriteStmts(changed.body, [&](const ir::Stmt& s) -> ir::Stmt {
      const auto* store = s.As<ir::Store>();
      if (store == nullptr || store->buffer->name.rfind("count", 0) != 0) return {};
      return seen++ == which ? ir::MakeSeq({}, s->loc) : ir::Stmt();
    });
    counters = seen;
    return changed;
  };
  without(-1);
  ASSERT_GE(counters, 4) << ir::ToString(*instructions);
  for (int i = 0; i < counters; ++i) {
    const ir::Program changed = without(i);
    EXPECT_NE(Difference(*tiles, changed), "") << i << ir::ToString(changed);
  }
}

}  // namespace
}  // namespace kiln
