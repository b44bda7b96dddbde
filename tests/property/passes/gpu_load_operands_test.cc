// Operands of tf32 products that wgmma takes from registers, and results that are turned for it:
// whatever a kernel does with them, it computes what its tiles do.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/printer.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using testing::Difference;
using testing::Has;

// C = A B and more: `tiles` allocates, `before` and `after` stand around the loop, `inside` after
// its product.
struct Kernel {
  std::string tiles = "", before = "T.clear(c)", inside = "",
              after = "T.copy(c, C[by * 64, bx * 64])";
  std::string params = "", gemm = "T.gemm(a, b, c)";
  int m = 128, n = 128, k = 96;
};

std::string Text(const Kernel& x) {
  const auto lines = [](const std::string& text, const char* indent) {
    return text.empty()
               ? ""
               : absl::StrCat(
                     indent, absl::StrReplaceAll(text, {{"\n", absl::StrCat("\n", indent)}}), "\n");
  };
  return absl::StrCat(
      "import tilelang\nimport tilelang.language as T\n\n\n@T.prim_func\ndef product(A: T.Tensor((",
      x.m, ", ", x.k, "), \"float32\"), B: T.Tensor((", x.k, ", ", x.n,
      "), \"float32\"), C: T.Tensor((", x.m, ", ", x.n, "), \"float32\")", x.params,
      "):\n    with T.Kernel(T.ceildiv(", x.n, ", 64), T.ceildiv(", x.m,
      ", 64), threads=128) as (bx, by):\n"
      "        a = T.alloc_shared((64, 32), \"float32\")\n"
      "        b = T.alloc_shared((32, 64), \"float32\")\n"
      "        c = T.alloc_fragment((64, 64), \"float32\")\n",
      lines(x.tiles, "        "), lines(x.before, "        "),
      "        for k in T.Pipelined(T.ceildiv(", x.k,
      ", 32), num_stages=2):\n"
      "            T.copy(A[by * 64, k * 32], a)\n"
      "            T.copy(B[k * 32, bx * 64], b)\n",
      lines(x.gemm, "            "), lines(x.inside, "            "), lines(x.after, "        "));
}

// Computes what its tiles say, by wgmma with the result turned or by mma.sync.
void ExpectComputes(const Kernel& x, bool loaded) {
  auto tiles = testing::Elaborated("k.py", Text(x));
  ASSERT_TRUE(tiles.ok()) << tiles.status() << Text(x);
  tiles->attrs["kiln.tf32"] = "1";
  tiles->attrs["kiln.cluster"] = "1";  // the interpreter runs one block at a time
  for (const char* gpu : {"sm_90a", "sm_80"}) {
    const auto instructions = testing::Instructions(*tiles, gpu, /*cores=*/4);
    ASSERT_TRUE(instructions.ok()) << gpu << instructions.status() << Text(x);
    const bool turned = absl::StrContains(ir::ToString(*instructions), "c.turned");
    EXPECT_EQ(turned, loaded && gpu == std::string("sm_90a")) << gpu << Text(x);
    EXPECT_FALSE(absl::StrContains(ir::ToString(*instructions), ".loaded.tile")) << gpu << Text(x);
    EXPECT_TRUE(!turned || Has(*instructions, ir::Instruction::kWgmma)) << gpu << Text(x);
    EXPECT_EQ(Difference(*tiles, *instructions), "")
        << gpu << Text(x) << ir::ToString(*instructions);
  }
}

TEST(GpuLoadOperands, ResultsThatAreCopied) {
  ExpectComputes({}, true);
  ExpectComputes({.m = 100, .n = 76, .k = 52}, true);
  ExpectComputes({.tiles = "s = T.alloc_shared((64, 64), \"float32\")",
                  .after = "T.copy(c, s)\nT.copy(s, C[by * 64, bx * 64])"},
                 true);
  ExpectComputes({.tiles = "h = T.alloc_fragment((64, 64), \"bfloat16\")",
                  .after = "T.copy(c, h)\nT.copy(h, D[by * 64, bx * 64])",
                  .params = ", D: T.Tensor((128, 128), \"bfloat16\")"},
                 true);
  ExpectComputes({.after = "T.copy(c, D[1, by * 64, 0, bx * 64])",
                  .params = ", D: T.Tensor((2, 120, 3, 100), \"float32\")",
                  .m = 120,
                  .n = 100},
                 true);
}

TEST(GpuLoadOperands, ResultsThatBeginWithATensor) {
  ExpectComputes({.before = "T.copy(D[by * 64, bx * 64], c)",
                  .params = ", D: T.Tensor((100, 76), \"float32\")",
                  .m = 100,
                  .n = 76},
                 true);
  ExpectComputes({.before = "T.fill(c, 2.5)"}, true);
  ExpectComputes({.before = "for i, j in T.Parallel(64, 64):\n    c[i, j] = i * 64 - j"}, true);
}

TEST(GpuLoadOperands, ElementsThatAreLookedAt) {
  ExpectComputes({.after = "for i, j in T.Parallel(64, 64):\n"
                           "    C[by * 64 + i, bx * 64 + j] = T.max(c[i, j] + D[bx * 64 + j], 0.0)",
                  .params = ", D: T.Tensor((76,), \"float32\")",
                  .m = 100,
                  .n = 76},
                 true);
  ExpectComputes({.after = "for j, i in T.Parallel(64, 64):\n"
                           "    c[i, j] = c[i, j] * 2.0 + i - j\n"
                           "T.copy(c, C[by * 64, bx * 64])"},
                 true);
  ExpectComputes({.inside = "for i, j in T.Parallel(64, 64):\n    c[i, j] = c[i, j] * 0.5"}, true);
  ExpectComputes({.after = "for i, j in T.Parallel(64, 64):\n"
                           "    if i > j:\n"
                           "        C[by * 64 + i, bx * 64 + j] = c[i, j]\n"
                           "    else:\n"
                           "        C[by * 64 + i, bx * 64 + j] = -c[i, j]"},
                 true);
}

TEST(GpuLoadOperands, SeveralProductsOnOneResult) {
  ExpectComputes({.gemm = "T.gemm(a, b, c)\nT.gemm(a, b, c)"}, true);
  // One that is K-major on both sides is not turned.
  ExpectComputes({.tiles = "d = T.alloc_shared((64, 32), \"float32\")",
                  .params = ", D: T.Tensor((128, 96), \"float32\")",
                  .gemm = "T.copy(D[bx * 64, k * 32], d)\nT.gemm(a, b, c)\n"
                          "T.gemm(a, d, c, transpose_B=True)"},
                 false);
}

// Two elements of a row in one iteration, parts of rows one after the other: easy only where
// threads hold rows.
TEST(GpuLoadOperands, RowsThatArePairedStay) {
  ExpectComputes({.after = "for i, j in T.Parallel(64, 32):\n"
                           "    c[i, 2 * j] = c[i, 2 * j] * 0.5 - c[i, 2 * j + 1]\n"
                           "T.copy(c, C[by * 64, bx * 64])"},
                 false);
  ExpectComputes({.before = "T.clear(c)\nT.fill(c[:, 0:16], 1.0)"}, false);
  ExpectComputes({.after = "for i, j in T.Parallel(64, 64):\n"
                           "    T.atomic_add(C[by * 64 + i, bx * 64 + j], c[i, j])"},
                 false);
  ExpectComputes({.gemm = "T.gemm(a, b, c, policy=T.GemmWarpPolicy.FullCol)"}, false);
}

// 36 rows are no whole atoms of a swizzle: threads load from the tile as it is.
TEST(GpuLoadOperands, TilesOfNoWholeAtoms) {
  ExpectComputes({.tiles = "d = T.alloc_shared((36, 64), \"float32\")",
                  .gemm = "T.copy(b, d[2:34, :])\nT.gemm(a, d[2:34, :], c)"},
                 true);
}

TEST(GpuLoadOperands, PartsOfTiles) {
  ExpectComputes({.gemm = "T.gemm(a[:, 0:16], b[0:16, :], c)\nT.gemm(a[:, 16:32], b[16:32, :], c)"},
                 true);
}

// What is held with a result has to be held as a reduction or another product wants it.
TEST(GpuLoadOperands, ResultsThatOthersAreHeldWithStay) {
  const char* fragments =
      "p = T.alloc_fragment((64, 64), \"float32\")\nr = T.alloc_fragment((64,), \"float32\")";
  ExpectComputes({.tiles = fragments,
                  .after = "for i, j in T.Parallel(64, 64):\n    p[i, j] = c[i, j] * 2.0\n"
                           "T.reduce_max(p, r, dim=1)\nT.copy(r, D[bx, by * 64])\n"
                           "T.copy(p, C[by * 64, bx * 64])",
                  .params = ", D: T.Tensor((2, 128), \"float32\")"},
                 false);
  ExpectComputes({.tiles = absl::StrCat(fragments,
                                        "\nd = T.alloc_fragment((64, 64), \"float32\")\n"
                                        "h = T.alloc_shared((64, 64), \"float32\")"),
                  .after = "T.copy(c, p)\nT.copy(D, h)\nT.clear(d)\n"
                           "T.gemm(p, h, d, transpose_B=True)\nT.copy(d, C[by * 64, bx * 64])",
                  .params = ", D: T.Tensor((64, 64), \"float32\")"},
                 false);
}

TEST(GpuLoadOperands, WhatCannotBeTurnedStays) {
  ExpectComputes({.tiles = "r = T.alloc_fragment((64,), \"float32\")",
                  .after = "T.reduce_sum(c, r, dim=1)\nT.copy(r, D[by * 64])\n"
                           "T.copy(c, C[by * 64, bx * 64])",
                  .params = ", D: T.Tensor((128,), \"float32\")",
                  .n = 64},
                 false);
  ExpectComputes(
      {.before = "T.annotate_layout({b: T.Layout((32, 64), lambda i, j: i * 64 + j)})\nT.clear(c)"},
      false);
  ExpectComputes(
      {.after = "", .gemm = "T.gemm(a, b, c, clear_accum=True)\nT.gemm(c[:, 0:32], b, c)"}, false);
}

}  // namespace
}  // namespace kiln
