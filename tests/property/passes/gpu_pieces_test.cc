// Pipelined loops that stand in others or under conditions, as in persistent and stream-K kernels:
// on Hopper by TMA, with barriers whose phases go on from piece to piece, against their tiles. And
// the mistakes that a compiler could make there, each of which must show.
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "tests/property/passes/gpu_products.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using testing::Difference;
using testing::ExpectNoticed;
using testing::Has;
using testing::Lowered;
using testing::Nothing;
using testing::Tiles;
using testing::With;

// A product of 192 x 448 by 128 x 448 in tiles of 64 x 64, 7 steps each. PIECES says which tiles a
// block does, and which steps of them: names `tile`, and the loop over `k`.
constexpr char kKernel[] = R"(import tilelang
import tilelang.language as T


@T.prim_func
def pieces(A: T.Tensor((192, 448), "bfloat16"), B: T.Tensor((128, 448), "bfloat16"),
           I: T.Tensor((8,), "int32"), C: T.Tensor((192, 128), "float32")):
    with T.Kernel(4, threads=128) as block:
        a = T.alloc_shared((64, 64), "bfloat16")
        b = T.alloc_shared((64, 64), "bfloat16")
        c = T.alloc_fragment((64, 64), "float32")
PIECES)";

// Lines of a block's body, indented; LOOP, CLEAR and STORE are the product's.
std::string Kernel(const std::string& pieces) {
  const auto indented = [&](const char* word, std::vector<std::string> lines) {
    const size_t at = pieces.find(word);
    const size_t line = pieces.rfind('\n', at);
    const std::string indent(at - (line == std::string::npos ? 0 : line + 1), ' ');
    std::string text = lines[0];
    for (size_t i = 1; i < lines.size(); ++i) text += "\n" + indent + lines[i];
    return std::pair<std::string, std::string>{word, text};
  };
  const std::string body = absl::StrReplaceAll(
      pieces, {indented("CLEAR", {"T.clear(c)"}),
               indented("STEP", {"T.copy(A[tile // 2 * 64, k * 64], a)",
                                 "T.copy(B[tile % 2 * 64, k * 64], b)",
                                 "T.gemm(a, b, c, transpose_B=True)"}),
               indented("STORE", {"T.copy(c, C[tile // 2 * 64, tile % 2 * 64])"})});
  return absl::StrReplaceAll(kKernel, {{"PIECES", body}});
}

// Blocks 0 and 1 do two tiles, the others one.
constexpr char kGuarded[] = R"(
        for turn in T.serial(2):
            tile = turn * 4 + block
            if tile < 6:
                CLEAR
                for k in T.Pipelined(7, num_stages=3):
                    STEP
                STORE
)";
// The same tiles, each in two pieces of another length.
constexpr char kHalves[] = R"(
        for turn in T.serial((9 - block) // 4):
            tile = turn * 4 + block
            CLEAR
            for half in T.serial(2):
                first = T.if_then_else(half == 0, 0, tile)
                for k in T.Pipelined(first, T.if_then_else(half == 0, tile, 7), num_stages=3):
                    STEP
            STORE
)";
// A loop in one that does something else in between, and pieces without a step.
constexpr char kUneven[] = R"(
        for tile in T.serial(block * 6 // 4, (block + 1) * 6 // 4):
            CLEAR
            for k in T.Pipelined(7 - tile * 2, num_stages=2):
                STEP
            STORE
)";
constexpr char kLookedUp[] = R"(
        for turn in T.serial(T.if_then_else(I[block] > 1000, 2, 1)):
            tile = block
            CLEAR
            for k in T.Pipelined(7, num_stages=2):
                STEP
            STORE
)";
// The same of a tensor that the kernel writes.
constexpr char kLookedUpAndWritten[] = R"(
        for turn in T.serial(T.if_then_else(I[block] > 1000, 2, 1)):
            tile = block
            CLEAR
            for k in T.Pipelined(7, num_stages=2):
                STEP
            STORE
            I[block] = turn
)";
constexpr char kBroken[] = R"(
        for turn in T.serial(2):
            tile = turn * 3 + block % 3
            if block == 3:
                break
            CLEAR
            for k in T.Pipelined(7, num_stages=2):
                STEP
            STORE
)";

void ExpectComputes(const std::string& pieces, const char* gpu, bool fetches) {
  const auto tiles = Tiles(Kernel(pieces));
  ASSERT_TRUE(tiles.ok()) << tiles.status() << Kernel(pieces);
  const auto instructions = Lowered(*tiles, {.gpu = gpu});
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_EQ(Has(*instructions, ir::Instruction::kTensorLoad), fetches)
      << ir::ToString(*instructions);
  EXPECT_EQ(Difference(*tiles, *instructions), "") << ir::ToString(*instructions);
}

TEST(GpuPieces, AreFetchedByAPartOfTheBlock) {
  for (const char* pieces : {kGuarded, kHalves, kUneven, kLookedUp}) {
    ExpectComputes(pieces, "sm_90a", true);
    ExpectComputes(pieces, "sm_80", false);
  }
  ExpectComputes(kUneven, "sm_100a", true);
}

// What changes while they run, or what leaves a loop, both parts cannot tell.
TEST(GpuPieces, ThatPartsCannotTellGoAnotherWay) {
  for (const char* pieces : {kLookedUpAndWritten, kBroken}) {
    ExpectComputes(pieces, "sm_90a", false);
  }
}

TEST(GpuPieces, WrongPhasesAreNoticed) {
  for (const char* pieces : {kGuarded, kHalves}) {
    const auto tiles = Tiles(Kernel(pieces));
    ASSERT_TRUE(tiles.ok()) << tiles.status();
    const auto instructions = Lowered(*tiles, {});
    ASSERT_TRUE(instructions.ok()) << instructions.status();
    const int phases = ExpectNoticed(*tiles, *instructions, [](const ir::Instruct& x) {
      if (x.op != ir::Instruction::kBarrierWait) return ir::Stmt();
      return With(x, {ir::MakeInt(1) - x.args[0]}, x.annotations);
    });
    EXPECT_EQ(phases, 2);
    const int arrivals = ExpectNoticed(*tiles, *instructions, [](const ir::Instruct& x) {
      return x.op == ir::Instruction::kBarrierArrive ? Nothing(x) : ir::Stmt();
    });
    EXPECT_GT(arrivals, 0);
  }
}

// A part that forgets the steps of earlier pieces, either of them or both.
TEST(GpuPieces, StepsThatAreNotCountedAreNoticed) {
  for (const char* pieces : {kGuarded, kHalves}) {
    const auto tiles = Tiles(Kernel(pieces));
    ASSERT_TRUE(tiles.ok()) << tiles.status();
    const auto instructions = Lowered(*tiles, {});
    ASSERT_TRUE(instructions.ok()) << instructions.status();
    for (const int which : {0, 1, 2}) {
      int counts = 0;
      ir::Program changed = *instructions;
      changed.body = ir::RewriteStmts(changed.body, [&](const ir::Stmt& s) -> ir::Stmt {
        const auto* store = s.As<ir::Store>();
        if (store == nullptr || store->buffer->name.rfind("steps", 0) != 0) return {};
        return which == 2 || which == counts++ ? ir::MakeSeq({}, s->loc) : ir::Stmt();
      });
      EXPECT_NE(Difference(*tiles, changed), "") << which << ir::ToString(changed);
    }
  }
}

}  // namespace
}  // namespace kiln
