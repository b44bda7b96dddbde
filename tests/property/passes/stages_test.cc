// T.Pipelined with order=, stage= and group=: what is lowered computes what the kernel says step by
// step, whatever the lists; and lists that cannot be obeyed are refused, with the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/arrange_stages.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/tile_versions.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using testing::Difference;
using testing::Has;

constexpr const char* kGpus[] = {"sm_80", "sm_90a", "sm_100a"};

// Weights of four bits are widened on the way to a product: four statements, tile to tile.
std::string Widening(const std::string& lists, int k = 160, const std::string& before = "") {
  return absl::StrReplaceAll(R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def kernel():
    @T.prim_func
    def main(A: T.Tensor((128, KKK), "float16"), Q: T.Tensor((64, KKK // 2), "uint8"),
             C: T.Tensor((128, 64), "float16")):
        with T.Kernel(1, 2, threads=128) as (bx, by):
            A_s = T.alloc_shared((64, 32), "float16")
            Q_s = T.alloc_shared((64, 16), "uint8")
            B_s = T.alloc_shared((64, 32), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            BEFORE
            for k in T.Pipelined(KKK // 32, LISTS):
                T.copy(A[by * 64, k * 32], A_s)
                T.copy(Q[bx * 64, k * 16], Q_s)
                for i, j in T.Parallel(64, 32):
                    B_s[i, j] = T.cast((Q_s[i, j // 2] >> ((j % 2) * 4)) & 3, "float16") - 1
                T.gemm(A_s, B_s, acc, transpose_B=True)
            T.copy(acc, C[by * 64, 0])
    return main
)",
                             {{"KKK", absl::StrCat(k)}, {"LISTS", lists}, {"BEFORE", before}});
}

std::string Lists(const std::vector<int>& order, const std::vector<int>& stage) {
  return absl::StrCat("order=[", absl::StrJoin(order, ", "), "], stage=[",
                      absl::StrJoin(stage, ", "), "]");
}

ir::Program Tiles(const std::string& text) {
  const auto tiles = testing::Elaborated("k.py", text);
  EXPECT_TRUE(tiles.ok()) << tiles.status() << text;
  return tiles.value_or(ir::Program());
}

void ExpectComputes(const std::string& text, double tolerance = 0) {
  const ir::Program tiles = Tiles(text);
  for (const char* gpu : kGpus) {
    const auto instructions = testing::Instructions(tiles, gpu, /*cores=*/2);
    ASSERT_TRUE(instructions.ok()) << gpu << ": " << instructions.status() << text;
    EXPECT_EQ(Difference(tiles, *instructions, tolerance), "") << gpu << text;
  }
}

void ExpectRefused(const std::string& text, const std::string& saying) {
  const ir::Program tiles = Tiles(text);
  for (const auto* pipeline : {&passes::CpuPipeline(), &passes::GpuPipeline()}) {
    const auto lowered = passes::RunPipeline(*pipeline, tiles, {});
    EXPECT_EQ(lowered.status().code(), absl::StatusCode::kInvalidArgument) << lowered.status();
    EXPECT_NE(lowered.status().message().find(saying), std::string::npos) << lowered.status();
  }
}

// The one pipelined loop that is left, after the pass alone.
const ir::For* ArrangedLoop(const ir::Program& program, ir::Program* arranged) {
  *arranged = *passes::ArrangeStages(program, {});
  const ir::For* loop = nullptr;
  ir::Walk(arranged->body, [&](const ir::Stmt& s) {
    const auto* x = s.As<ir::For>();
    if (x != nullptr && x->loop == ir::ForKind::kPipelined) loop = x;
    return true;
  });
  return loop;
}

TEST(Stages, WhatThePassesDoAnywayStaysAsItIs) {
  // Two copies, and all else one stage later: num_stages says how far ahead.
  const ir::Program plain = Tiles(Widening("num_stages=3"));
  const ir::Program listed =
      Tiles(Widening("num_stages=3, order=[0, 1, 2, 3], stage=[0, 0, 1, 1]"));
  const ir::Program apart =
      Tiles(Widening("num_stages=3, order=[-1, -1, 0, 1], stage=[-1, -1, 0, 0]"));
  for (const char* gpu : kGpus) {
    const std::string want = ir::ToString(*testing::Instructions(plain, gpu));
    EXPECT_EQ(ir::ToString(*testing::Instructions(listed, gpu)), want) << gpu;
    EXPECT_EQ(ir::ToString(*testing::Instructions(apart, gpu)), want) << gpu;
  }
}

TEST(Stages, CopiesRunAheadAsFarAsTheirStagesAsk) {
  ir::Program arranged;
  const ir::For* loop =
      ArrangedLoop(Tiles(Widening("order=[0, 1, 2, 3], stage=[0, 0, 3, 3]")), &arranged);
  EXPECT_EQ(ir::ConstInt(loop->num_stages), 4);
  EXPECT_EQ(ir::ConstInt(loop->axes[0].extent), 5);
  const auto hopper = testing::Instructions(arranged, "sm_90a");
  EXPECT_TRUE(Has(*hopper, ir::Instruction::kTensorLoad));
  loop = ArrangedLoop(Tiles(Widening("num_stages=2, order=[0, 1, 2, 3], stage=[0, 1, 2, 3]")),
                      &arranged);
  EXPECT_EQ(ir::ConstInt(loop->num_stages), 4);  // of A_s, that the last stage reads
  EXPECT_EQ(ir::ConstInt(loop->axes[0].extent), 6);
}

TEST(Stages, OfEveryKind) {
  for (const std::vector<int>& stage : {std::vector{0, 0, 0, 0},
                                        {0, 0, 1, 2},
                                        {0, 0, 0, 1},
                                        {1, 0, 1, 2},
                                        {0, 0, 2, 4},
                                        {-1, -1, 0, 1},
                                        {-1, 0, 1, 2}}) {
    std::vector<int> order = {0, 1, 2, 3};
    for (size_t i = 0; i < 4; ++i) order[i] = stage[i] < 0 ? -1 : order[i];
    for (const int k : {32, 64, 160}) ExpectComputes(Widening(Lists(order, stage), k));
    ExpectComputes(Widening(absl::StrCat(Lists(order, stage), ", num_stages=3")));
  }
  // The product of the step before first, then the next step's weights.
  ExpectComputes(Widening("order=[0, 1, 3, 2], stage=[0, 0, 1, 2], num_stages=2"));
  ExpectComputes(Widening("order=[0, 1, 3, 2], stage=[-0, 0, 0, 1]"));
  ExpectComputes(Widening("stage=[0, 0, 1, 2]"));
  ExpectComputes(Widening("order=[1, 0, 2, 3]"));
  ExpectComputes(Widening("order=[0, 1, 2], stage=[0, 1, 2], group=[[0, 1], [2], [3]]"));
  ExpectComputes(Widening("order=[1, 0], stage=[0, 1], group=[[0, 1, 2], [3]]"));
}

// A schedule is lawful where no statement runs before one that it depends on; then it computes.
TEST(Stages, Random) {
  std::mt19937 rng(20);
  int computed = 0, refused = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<int> order(4), stage(4);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), rng);
    for (int& s : stage) s = static_cast<int>(rng() % 4);
    const auto before = [&](size_t i, size_t j) {
      return std::pair(stage[i], order[i]) < std::pair(stage[j], order[j]);
    };
    const bool lawful = before(0, 3) && before(1, 2) && before(2, 3);
    const std::string text = Widening(absl::StrCat(Lists(order, stage), ", num_stages=", rng() % 4),
                                      32 * (1 + rng() % 5));
    if (lawful) {
      ExpectComputes(text);
      ++computed;
    } else {
      ExpectRefused(text, "of the same step");
      ++refused;
    }
  }
  EXPECT_GT(computed, 3);
  EXPECT_GT(refused, 3);
}

// Attention as its kernels are written: scores of the next step, the values of this one, the rest
// of the scores.
TEST(Stages, Attention) {
  constexpr char kLists[] =
      "num_stages=num_stages, order=[-1, 0, 3, 1, -1, 2], stage=[-1, 0, 0, 1, -1, 1], "
      "group=[[0], [1, 2], [3, 4, 5, 6, 7, 8, 9, 10], [11], [12], [13]]";
  const std::string path = "tests/golden/lang/flash_attention.py";
  std::ifstream file(path);
  const std::string plain{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string listed = absl::StrReplaceAll(plain, {{"num_stages=num_stages", kLists}});
  ASSERT_NE(plain, listed);
  for (const char* causal : {"False", "True"}) {
    const lang::Arguments args = {{"batch", "1"},       {"heads", "2"}, {"seq_q", "96"},
                                  {"seq_kv", "160"},    {"dim", "64"},  {"block_M", "64"},
                                  {"is_causal", causal}};
    const auto tiles = testing::Elaborated(path, listed, args);
    ASSERT_TRUE(tiles.ok()) << tiles.status();
    for (const char* gpu : kGpus) {
      const auto instructions = testing::Instructions(*tiles, gpu);
      ASSERT_TRUE(instructions.ok()) << instructions.status();
      EXPECT_EQ(Difference(*tiles, *instructions, 2e-3), "") << gpu;
    }
    // On Hopper that is what chain-products makes of the kernel without lists.
    const auto unlisted = testing::Elaborated(path, plain, args);
    EXPECT_EQ(ir::ToString(*testing::Instructions(*tiles, "sm_90a")),
              ir::ToString(*testing::Instructions(*unlisted, "sm_90a")));
    ir::Program unchained = *tiles;
    unchained.attrs["kiln.chain"] = "0";
    const auto in_turn = testing::Instructions(unchained, "sm_90a");
    ASSERT_TRUE(in_turn.ok()) << in_turn.status();
    EXPECT_EQ(Difference(*tiles, *in_turn, 2e-3), "");
  }
}

// Places that are looked up, gathers, scalars: each stage has those of its own step.
TEST(Stages, NamesAreOfTheirStep) {
  constexpr char kText[] = R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def kernel():
    @T.prim_func
    def main(A: T.Tensor((256, 32), "float32"), Index: T.Tensor((8,), "int32"),
             C: T.Tensor((8, 32), "float32"), D: T.Tensor((8, 32), "float32")):
        with T.Kernel(1, threads=32) as bx:
            a = T.alloc_shared((8, 32), "float32")
            b = T.alloc_shared((8, 32), "float32")
            sums = T.alloc_fragment((32,), "float32")
            for k in T.Pipelined(2, 8, LISTS):
                at = T.abs(Index[k]) * 8
                twice = k * 2
                T.copy(A[at, 0], a)
                for i, j in T.Parallel(8, 32):
                    b[i, j] = a[i, j] * twice + at
                T.reduce_sum(b, sums, dim=0)
                for j in T.Parallel(32):
                    C[k, j] = sums[j] + at
                    D[k, j] = sums[j] - twice
    return main
)";
  for (const char* lists : {"stage=[0, 1, 1, 1]", "stage=[0, 1, 2, 2]", "stage=[0, 0, 2, 2]",
                            "order=[3, 2, 1, 0], stage=[0, 1, 2, 3], num_stages=2"}) {
    const ir::Program tiles = Tiles(absl::StrReplaceAll(kText, {{"LISTS", lists}}));
    for (const char* gpu : kGpus) {
      const auto instructions = testing::Instructions(tiles, gpu);
      ASSERT_TRUE(instructions.ok()) << lists << instructions.status();
      EXPECT_EQ(Difference(tiles, *instructions), "") << lists << gpu;
    }
  }
}

TEST(Stages, ListsThatAreNotOfTheBody) {
  ExpectRefused(Widening("order=[0, 1, 2], stage=[0, 0, 1]"),
                "order has 3 entries, but the body has 4");
  ExpectRefused(Widening("order=[0, 1, 2, 3], stage=[0, 0, 1]"), "stage has 3 entries");
  ExpectRefused(Widening("order=[0, 1, 2, 3], stage=[0, 0, 1, -2]"), "stage -2");
  ExpectRefused(Widening("order=[0, 1, 2, 3], stage=[0, 0, 65, 65]"), "use stages from 0 to 64");
  ExpectRefused(Widening("order=[0, 1, 2, 3], stage=[0, 0, 0, 9223372036854775807]"), "stage 9223");
  ExpectRefused(Widening("order=[0, 1, 1, 3], stage=[0, 0, 1, 1]"), "two entries of order are 1");
  ExpectRefused(Widening("order=[-1, 1, 2, 3], stage=[0, 0, 1, 1]"),
                "-1 in one of order and stage");
  ExpectRefused(Widening("order=[0, 1, -1, 3], stage=[0, 0, -1, 1]"), "leave a statement to warps");
  ExpectRefused(Widening("order=[0, 1], stage=[0, 1], group=[[0, 1], [3]]"), "where 2 comes next");
  ExpectRefused(Widening("order=[0, 1], stage=[0, 1], group=[[0, 1], [2]]"),
                "group names 3 statements");
  ExpectRefused(Widening("order=[0], stage=[0, 1], group=[[0, 1, 2], [3]]"), "there are 2 groups");
  EXPECT_FALSE(testing::Elaborated("k.py", Widening("group=[[0, 1, 2, 3]]")).ok());
  EXPECT_FALSE(testing::Elaborated("k.py", Widening("sync=[[0, 1]]")).ok());
}

TEST(Stages, WhatHasNoVersions) {
  constexpr char kText[] = R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def kernel():
    @T.prim_func
    def main(A: T.Tensor((8, 32), "float32"), C: T.Tensor((8, 32), "float32")):
        with T.Kernel(1, threads=32) as bx:
            t = SCOPE((32,), "float32")
            s = T.alloc_shared((32,), "float32")
            LAYOUT
            T.clear(s)
            for k in T.Pipelined(8, stage=[0, 2]):
                for j in T.Parallel(32):
                    FIRST
                for j in T.Parallel(32):
                    C[k, j] = t[j]
    return main
)";
  const auto text = [&](const char* scope, const char* first, const char* layout = "") {
    return absl::StrReplaceAll(kText, {{"SCOPE", scope}, {"FIRST", first}, {"LAYOUT", layout}});
  };
  ExpectComputes(text("T.alloc_shared", "t[j] = A[k, j]"));
  ExpectRefused(text("T.alloc_fragment", "t[j] = A[k, j]"), "registers have one");
  ExpectRefused(text("T.alloc_shared", "t[j] += A[k, j]"), "do not fill anew");
  ExpectRefused(text("T.alloc_shared", "t[31 - j] = A[k, j]"), "do not fill anew");
  ExpectRefused(text("T.alloc_shared", "t[j] = A[k, j]",
                     "T.annotate_layout({t: T.Layout((32,), lambda j: 31 - j)})"),
                "a tile whose layout the kernel gives");
}

// Mistakes in the arrangement show: versions too few.
TEST(Stages, OneVersionTooFewIsNoticed) {
  const ir::Program tiles = Tiles(Widening("order=[0, 1, 2, 3], stage=[0, 0, 1, 2]"));
  ir::Program arranged;
  ArrangedLoop(tiles, &arranged);
  arranged.body = ir::RewriteExprs(arranged.body, [](const ir::Expr& e) -> ir::Expr {
    const auto* binary = e.As<ir::Binary>();
    const bool version = binary != nullptr && binary->op == ir::BinaryOp::kFloorMod &&
                         ir::IsConst(binary->b, 2) && e.dtype().is_int() && !ir::ReadsMemory(e) &&
                         binary->a.kind() != ir::ExprKind::kVar;
    return version ? ir::MakeInt(0, e.dtype()) : ir::Expr();
  });
  const auto instructions = testing::Instructions(arranged, "sm_80");
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_NE(Difference(tiles, *instructions), "");
}

}  // namespace
}  // namespace kiln
