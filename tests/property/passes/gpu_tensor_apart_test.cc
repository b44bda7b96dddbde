// Products in tensor memory whose results threads work on after each of them (attention), in the
// interpreter, against their tiles; and the mistakes that a compiler could make there, each of
// which must show.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "tests/property/passes/gpu_products.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using testing::Difference;
using testing::ExpectNoticed;
using testing::Has;
using testing::Lowered;
using testing::Nothing;
using testing::Tiles;

constexpr double kRounding = 2e-3;  // an online softmax, its scores rounded to half precision

bool OnTensorCoresOfSm100(const ir::Program& program) {
  return Has(program, ir::Instruction::kTcgen05Mma) && !Has(program, ir::Instruction::kMma);
}

// Whether in the program's loops a second product starts before the first one is over.
bool IsChained(const ir::Program& program) {
  int most = 0;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* loop = s.As<ir::For>();
    if (loop == nullptr || loop->loop != ir::ForKind::kSerial) return true;
    int begun = 0;
    ir::Walk(loop->body, [&](const ir::Stmt& x) {
      const auto* i = x.As<ir::Instruct>();
      if (i != nullptr && i->op == ir::Instruction::kTcgen05Mma) most = std::max(most, ++begun);
      if (i != nullptr && i->op == ir::Instruction::kTcgen05Load) begun = 0;
      return true;
    });
    return true;
  });
  return most > 1;
}

TEST(SumsApart, AttentionTemplate) {
  struct Shape {
    const char *queries, *keys, *dim, *block_m, *block_n, *threads;
    int stages;
  };
  for (const Shape& x : {Shape{"130", "170", "128", "64", "64", "256", 2},
                         Shape{"130", "170", "64", "128", "64", "128", 2},
                         Shape{"200", "300", "64", "128", "128", "256", 3},
                         Shape{"64", "320", "128", "128", "64", "256", 1},
                         Shape{"256", "300", "128", "256", "32", "128", 2}}) {
    for (const char* causal : {"False", "True"}) {
      auto tiles = testing::ElaboratedFile("compiler/templates/attention.py",
                                           {{"batch", "1"},
                                            {"heads", "2"},
                                            {"kv_heads", "1"},
                                            {"seq_q", x.queries},
                                            {"seq_kv", x.keys},
                                            {"dim", x.dim},
                                            {"block_M", x.block_m},
                                            {"block_N", x.block_n},
                                            {"num_stages", absl::StrCat(x.stages)},
                                            {"threads", x.threads},
                                            {"is_causal", causal}});
      ASSERT_TRUE(tiles.ok()) << tiles.status();
      for (const char* specialised : {"false", "true"}) {
        tiles->attrs["tl.disable_warp_specialized"] = specialised;
        const auto instructions = Lowered(*tiles, {.cores = 4, .gpu = "sm_100a"});
        ASSERT_TRUE(instructions.ok()) << instructions.status();
        EXPECT_TRUE(OnTensorCoresOfSm100(*instructions)) << ir::ToString(*instructions);
        const bool fetches = specialised == std::string("false");
        EXPECT_EQ(Has(*instructions, ir::Instruction::kTensorLoad), fetches);
        EXPECT_EQ(IsChained(*instructions), fetches && x.stages > 1)
            << x.block_m << " " << x.block_n << " " << x.dim << " " << causal;
        EXPECT_EQ(Difference(*tiles, *instructions, kRounding), "") << ir::ToString(*instructions);
      }
    }
  }
}

// A loop of two products, of which the second takes what is made of the first one's result; with
// other statements before and between them; `tiles` are declared.
std::string Chained(const std::string& tiles, int stages, const std::string& fetch,
                    const std::string& work, const std::string& later = "") {
  return absl::StrCat(R"(import tilelang.language as T


@T.prim_func
def chained(Q: T.Tensor((128, 64), "float16"), K: T.Tensor((256, 64), "float16"),
            V: T.Tensor((256, 64), "float16"), B: T.Tensor((512, 64), "float32"),
            O: T.Tensor((128, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        q = T.alloc_shared((128, 64), "float16")
        k = T.alloc_shared((64, 64), "float16")
        v = T.alloc_shared((64, 64), "float16")
        s = T.alloc_fragment((128, 64), "float32")
        p = T.alloc_fragment((128, 64), "float16")
        o = T.alloc_fragment((128, 64), "float32")
)",
                      tiles, "        T.copy(Q, q)\n        T.clear(o)\n",
                      "        for step in T.Pipelined(4, num_stages=", stages, "):\n", fetch,
                      "            T.gemm(q, k, s, transpose_B=True, clear_accum=True)\n", work,
                      "            T.copy(s, p)\n            T.gemm(p, v, o)\n", later,
                      "        T.copy(o, O)\n");
}

constexpr char kFetchK[] = "            T.copy(K[step * 64, 0], k)\n";
constexpr char kFetchV[] = "            T.copy(V[step * 64, 0], v)\n";
constexpr char kFetchB[] = "            T.copy(B[step * 128, 0], b)\n";
constexpr char kTileB[] = "        b = T.alloc_shared((128, 64), \"float32\")\n";

std::string Add(const char* to, const char* what) {
  return absl::StrCat("            for i, j in T.Parallel(128, 64):\n                ", to,
                      "[i, j] = ", to, "[i, j] + ", what, "\n");
}

// That all of its products are tcgen05, and the right numbers.
void ExpectComputes(const std::string& text) {
  const auto tiles = Tiles(text);
  ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
  const auto instructions = Lowered(*tiles, {.gpu = "sm_100a"});
  ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
  EXPECT_TRUE(OnTensorCoresOfSm100(*instructions)) << text << ir::ToString(*instructions);
  EXPECT_EQ(Difference(*tiles, *instructions, 1e-2), "") << text << ir::ToString(*instructions);
}

TEST(SumsApart, ChainsAndWhatIsNone) {
  const std::string counter = "        c = T.alloc_var(\"int32\")\n        c = 0\n";
  const std::string count = "            c = c + 1\n            y = c * 2\n";
  const std::string k = kFetchK, v = kFetchV, b = kFetchB;
  const std::string scale = Add("o", "o[i, j]");
  for (const std::string& text :
       {Chained("", 2, k + v, Add("s", "1.0")), Chained("", 3, k + v, scale),
        Chained("", 2, k + v, scale + Add("s", "o[i, j]")),  // of the sums so far
        Chained("", 2, k + v, Add("s", "1.0"), Add("o", "1.0")),
        Chained(counter, 2, k + v, Add("o", "c") + count + Add("s", "y")),
        Chained("", 1, v + k, Add("s", "1.0")), Chained(kTileB, 1, k + v + b, Add("o", "b[i, j]")),
        Chained(kTileB, 2, b + k + v, Add("o", "b[i, j]")),
        Chained(kTileB, 2, b + k + v, Add("s", "b[i, j]")),
        Chained("", 2, k + v, Add("o", "k[i // 2, j]")),
        Chained("", 2, k + v, "            if bx == step % 2:\n                T.clear(o)\n")}) {
    ExpectComputes(text);
  }
}

// Products by the other operand from registers, under conditions, one after the other on the same
// sums, cleared by the first step alone.
TEST(SumsApart, ProductsAnywhere) {
  const std::string k = kFetchK, v = kFetchV;
  const std::string turned = Chained("        u = T.alloc_fragment((64, 64), \"float16\")\n", 2,
                                     k + v, "            T.copy(v, u)\n");
  const std::string from_right =
      absl::StrReplaceAll(turned, {{"T.gemm(p, v, o)", "T.gemm(p, u, o)"}});
  const std::string some = absl::StrReplaceAll(
      Chained("", 2, k + v, ""),
      {{"            T.gemm(p, v, o)\n",
        "            if step % 2 == 0:\n                T.gemm(p, v, o)\n                "
        "for i, j in T.Parallel(128, 64):\n                    o[i, j] = o[i, j] * 0.5\n"}});
  const std::string twice =
      Chained("", 2, k + v, "", Add("o", "1.0") + "            T.gemm(p, v, o)\n");
  const std::string kept = absl::StrReplaceAll(Chained("", 2, k + v, Add("s", "s[i, j]")),
                                               {{"clear_accum=True", "clear_accum=step == 0"}});
  for (const std::string& text : {from_right, some, twice, kept}) {
    ExpectComputes(text);
  }
}

// Where tiles of shared memory, registers or columns lack, products that others wait for stay as
// they were; sums that a loop only adds to come first.
TEST(SumsApart, WhatHasNoRoom) {
  struct Shape {
    const char *dim, *block_m, *block_n, *threads, *stages;
  };
  for (const Shape& x : {Shape{"128", "128", "128", "256", "3"},   // shared memory
                         Shape{"64", "256", "192", "256", "2"},    // and what reductions exchange
                         Shape{"128", "64", "64", "128", "2"}}) {  // registers: 64 idle lanes
    const auto tiles =
        testing::ElaboratedFile("compiler/templates/attention.py", {{"batch", "1"},
                                                                    {"heads", "1"},
                                                                    {"kv_heads", "1"},
                                                                    {"seq_q", "256"},
                                                                    {"seq_kv", "512"},
                                                                    {"dim", x.dim},
                                                                    {"block_M", x.block_m},
                                                                    {"block_N", x.block_n},
                                                                    {"num_stages", x.stages},
                                                                    {"threads", x.threads}});
    ASSERT_TRUE(tiles.ok()) << tiles.status();
    const auto instructions = Lowered(*tiles, {.gpu = "sm_100a"});
    ASSERT_TRUE(instructions.ok()) << instructions.status();
    EXPECT_FALSE(Has(*instructions, ir::Instruction::kTcgen05Mma)) << x.block_m;
  }
  const std::string wide = R"(import tilelang.language as T


@T.prim_func
def wide(Q: T.Tensor((128, 64), "float16"), K: T.Tensor((128, 64), "float16"),
         V: T.Tensor((128, 512), "float16"), O: T.Tensor((128, 512), "float32")):
    with T.Kernel(1, threads=256) as bx:
        q = T.alloc_shared((128, 64), "float16")
        k = T.alloc_shared((64, 64), "float16")
        v = T.alloc_shared((64, 512), "float16")
        s = T.alloc_fragment((128, 64), "float32")
        p = T.alloc_shared((128, 64), "float16")
        o = T.alloc_fragment((128, 512), "float32")
        T.copy(Q, q)
        T.clear(o)
        for step in T.Pipelined(2, num_stages=1):
            T.copy(K[step * 64, 0], k)
            T.copy(V[step * 64, 0], v)
            T.gemm(q, k, s, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(128, 64):
                s[i, j] = s[i, j] * 0.5
            T.copy(s, p)
            T.gemm(p, v, o)
        T.copy(o, O)
)";
  const auto tiles = Tiles(wide);
  ASSERT_TRUE(tiles.ok()) << tiles.status() << wide;
  const auto instructions = Lowered(*tiles, {.gpu = "sm_100a"});
  ASSERT_TRUE(instructions.ok()) << instructions.status() << wide;
  EXPECT_FALSE(absl::StrContains(ir::ToString(*instructions), "registers:o="));
  EXPECT_TRUE(absl::StrContains(ir::ToString(*instructions), "registers:s=\"tensor memory has 0"));
  EXPECT_EQ(Difference(*tiles, *instructions, 1e-2), "") << ir::ToString(*instructions);
}

// Nothing of what orders two products and the work between them may be left out. Around the loop
// blocks meet once more than needed; of fences for what threads did, the last before a meeting
// serves all.
TEST(SumsApartMistakes, AreNoticed) {
  using ir::Instruction;
  const std::string text =
      Chained("", 2, absl::StrCat(kFetchK, kFetchV), Add("s", "1.0") + Add("o", "o[i, j]"));
  constexpr int kFirst = 18, kLast = 26;  // lines of the loop's body
  for (const char* specialised : {"false", "true"}) {
    auto tiles = Tiles(text);
    ASSERT_TRUE(tiles.ok()) << tiles.status();
    tiles->attrs["tl.disable_warp_specialized"] = specialised;
    const auto instructions = Lowered(*tiles, {.gpu = "sm_100a"});
    ASSERT_TRUE(instructions.ok()) << instructions.status();
    ASSERT_EQ(Difference(*tiles, *instructions, 1e-2), "");
    const bool chained = specialised == std::string("false");
    ASSERT_EQ(IsChained(*instructions), chained);
    for (const Instruction op :
         {Instruction::kBarrierWait, Instruction::kBarrierInit, Instruction::kBlockBarrier,
          Instruction::kProxyFence, Instruction::kTcgen05Alloc, Instruction::kTcgen05Free,
          Instruction::kTcgen05Mma, Instruction::kTcgen05Commit, Instruction::kTcgen05Load,
          Instruction::kTcgen05Store, Instruction::kTcgen05Wait, Instruction::kTcgen05Fence}) {
      const bool meets = op == Instruction::kBlockBarrier || op == Instruction::kProxyFence;
      const int count = ExpectNoticed(
          *tiles, *instructions,
          [&](const ir::Instruct& x) {
            if (x.op != op) return ir::Stmt();
            const bool inside = x.loc.line >= kFirst && x.loc.line <= kLast;
            const bool fence = op == Instruction::kTcgen05Fence;
            const bool needed =
                fence ? inside && chained && ir::IsConst(x.args[0], 1) : inside || !meets;
            return needed ? Nothing(x) : ir::Stmt();
          },
          1e-2);
      EXPECT_EQ(count > 0, op != Instruction::kTcgen05Fence || chained) << ir::Name(op);
    }
  }
}

}  // namespace
}  // namespace kiln
