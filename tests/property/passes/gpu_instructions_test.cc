// Programs for Hopper, instruction by instruction in the interpreter (TMA, mbarriers, wgmma, parts
// that run beside each other, completion as late and as early as allowed), against their tiles. And
// the mistakes that a compiler could make there, each of which must show.
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/verify.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/pipeline.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"
#include "tests/util/thread_level.h"

namespace kiln {
namespace {

struct Case {
  int m = 128, n = 128, k = 192;
  int block_m = 64, block_n = 64, block_k = 64, stages = 2, threads = 128;
  const char* type = "bfloat16";
  const char* accum = "float32";
  bool trans_a = false, trans_b = true;
  int cores = 132;
  const char* gpu = "sm_90a";
  bool registers = false;  // A goes through a fragment

  // By TMA: where the GPU has it, and products read tiles by themselves.
  bool fetches() const { return gpu == std::string("sm_90a") || gpu == std::string("sm_100a"); }
};

constexpr int kLaunchLine = 7;  // of the text of a case

std::string Text(const Case& c) {
  const auto shape = [](bool trans, int rows, int columns) {
    return trans ? absl::StrCat("(", columns, ", ", rows, ")")
                 : absl::StrCat("(", rows, ", ", columns, ")");
  };
  const auto at = [](bool trans, const std::string& row, const std::string& column) {
    return trans ? absl::StrCat(column, ", ", row) : absl::StrCat(row, ", ", column);
  };
  const std::string step = absl::StrCat("k * ", c.block_k);
  std::string text =
      absl::StrCat("import tilelang\nimport tilelang.language as T\n\n\n@T.prim_func\n",
                   "def product(A: T.Tensor(", shape(c.trans_a, c.m, c.k), ", \"", c.type,
                   "\"), B: T.Tensor(", shape(c.trans_b, c.k, c.n), ", \"", c.type,
                   "\"), C: T.Tensor((", c.m, ", ", c.n, "), \"", c.accum, "\")):\n");
  absl::StrAppend(&text, "    with T.Kernel(T.ceildiv(", c.n, ", ", c.block_n, "), T.ceildiv(", c.m,
                  ", ", c.block_m, "), threads=", c.threads, ") as (bx, by):\n");
  absl::StrAppend(&text, "        a = T.alloc_shared(", shape(c.trans_a, c.block_m, c.block_k),
                  ", \"", c.type, "\")\n        b = T.alloc_shared(",
                  shape(c.trans_b, c.block_k, c.block_n), ", \"", c.type, "\")\n");
  if (c.registers) {
    absl::StrAppend(&text, "        f = T.alloc_fragment(", shape(c.trans_a, c.block_m, c.block_k),
                    ", \"", c.type, "\")\n");
  }
  absl::StrAppend(&text, "        c = T.alloc_fragment((", c.block_m, ", ", c.block_n, "), \"",
                  c.accum, "\")\n        T.clear(c)\n        for k in T.Pipelined(T.ceildiv(", c.k,
                  ", ", c.block_k, "), num_stages=", c.stages, "):\n");
  absl::StrAppend(&text, "            T.copy(A[",
                  at(c.trans_a, absl::StrCat("by * ", c.block_m), step), "], a)\n",
                  "            T.copy(B[", at(c.trans_b, step, absl::StrCat("bx * ", c.block_n)),
                  "], b)\n", c.registers ? "            T.copy(a, f)\n" : "", "            T.gemm(",
                  c.registers ? "f" : "a", ", b, c, transpose_A=", c.trans_a ? "True" : "False",
                  ", transpose_B=", c.trans_b ? "True" : "False", ")\n");
  absl::StrAppend(&text, "        T.copy(c, C[by * ", c.block_m, ", bx * ", c.block_n, "])\n");
  return text;
}

using testing::Difference;
using testing::Has;

absl::StatusOr<ir::Program> Instructions(const ir::Program& program, const Case& c) {
  return testing::Instructions(program, c.gpu, c.cores);
}

absl::StatusOr<ir::Program> Tiles(const std::string& text) {
  KILN_ASSIGN_OR_RETURN(ir::Program program, testing::Elaborated("k.py", text));
  program.attrs["kiln.cluster"] = "1";  // the interpreter runs one block at a time
  return program;
}

void ExpectComputes(const Case& c, ir::Instruction product = ir::Instruction::kWgmma) {
  const std::string text = Text(c);
  const auto tiles = Tiles(text);
  ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
  const auto instructions = Instructions(*tiles, c);
  ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
  EXPECT_TRUE(Has(*instructions, product)) << text;
  EXPECT_EQ(Has(*instructions, ir::Instruction::kTensorLoad), c.fetches()) << text;
  EXPECT_EQ(Difference(*tiles, *instructions), "") << text << ir::ToString(*instructions);
}

TEST(GpuInstructions, TransposesAndTypes) {
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      ExpectComputes({.trans_a = trans_a, .trans_b = trans_b});
      ExpectComputes({.type = "float16", .trans_a = trans_a, .trans_b = trans_b});
    }
  }
  ExpectComputes({.block_k = 64, .type = "float8_e4m3fn"});
  ExpectComputes({.block_k = 128, .type = "float8_e5m2"});
  ExpectComputes({.block_k = 64, .type = "int8", .accum = "int32"});
}

TEST(GpuInstructions, SwizzlesOfEveryWidth) {
  for (const int block_k : {16, 32, 64, 128}) ExpectComputes({.block_k = block_k});
  ExpectComputes({.block_n = 32, .trans_b = false});
}

TEST(GpuInstructions, StagesAndShortLoops) {
  for (const int stages : {1, 2, 3, 4}) {
    for (const int k : {64, 128, 320}) ExpectComputes({.k = k, .stages = stages});
  }
}

TEST(GpuInstructions, WarpgroupsShareTheResult) {
  ExpectComputes({.block_m = 128, .block_n = 64, .threads = 256});
  ExpectComputes({.block_m = 64, .block_n = 128, .threads = 256});
  ExpectComputes({.m = 192, .block_m = 192, .threads = 384});
  ExpectComputes({.n = 256, .block_m = 128, .block_n = 256, .threads = 256});
}

TEST(GpuInstructions, EdgesOfTheTensors) {
  ExpectComputes({.m = 100, .n = 72, .k = 200});
  ExpectComputes({.m = 100, .n = 72, .k = 200, .trans_b = false});
  ExpectComputes({.m = 96, .n = 130, .k = 72, .trans_a = true});
}

// Fewer cores than tiles: barriers go on from tile to tile.
TEST(GpuInstructions, PersistentBlocksTakeTurns) {
  for (const int cores : {1, 2, 3}) {
    for (const int stages : {1, 2, 3}) {
      ExpectComputes({.m = 192, .k = 320, .stages = stages, .cores = cores});
    }
  }
}

TEST(GpuInstructions, LeftOperandsFromRegisters) {
  for (const char* type : {"bfloat16", "float16", "float8_e4m3fn", "int8"}) {
    const char* accum = type == std::string("int8") ? "int32" : "float32";
    ExpectComputes({.type = type, .accum = accum, .registers = true});
    ExpectComputes({.block_m = 128,
                    .block_n = 128,
                    .threads = 256,
                    .type = type,
                    .accum = accum,
                    .registers = true});
  }
}

TEST(GpuInstructions, ProductsOfWarps) {
  const ir::Instruction mma = ir::Instruction::kMma;
  for (const int block_k : {16, 32, 64}) {
    ExpectComputes({.block_k = block_k, .gpu = "sm_80"}, mma);
  }
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (const int threads : {32, 64, 128, 256}) {
        ExpectComputes({.k = 64,
                        .block_k = 32,
                        .threads = threads,
                        .type = "float16",
                        .trans_a = trans_a,
                        .trans_b = trans_b,
                        .gpu = "sm_80"},
                       mma);
      }
    }
  }
  ExpectComputes({.block_n = 24, .block_k = 32, .threads = 32, .gpu = "sm_86"}, mma);
  ExpectComputes({.m = 100, .n = 72, .k = 104, .gpu = "sm_86"}, mma);
  ExpectComputes({.type = "int8", .accum = "int32", .gpu = "sm_80"}, mma);
  ExpectComputes({.type = "float8_e4m3fn", .gpu = "sm_89"}, mma);
  ExpectComputes({.type = "float8_e5m2", .gpu = "sm_89"}, mma);
  for (const char* type : {"bfloat16", "float16", "int8"}) {
    const char* accum = type == std::string("int8") ? "int32" : "float32";
    ExpectComputes({.type = type, .accum = accum, .gpu = "sm_80", .registers = true}, mma);
    ExpectComputes({.block_m = 32,
                    .threads = 64,
                    .type = type,
                    .accum = accum,
                    .gpu = "sm_80",
                    .registers = true},
                   mma);
  }
}

// Sums in tensor memory: transposes, types, swizzles, grids of warpgroups, edges, turns.
TEST(GpuInstructions, ProductsInTensorMemory) {
  const ir::Instruction mma = ir::Instruction::kTcgen05Mma;
  const auto expect = [&](Case c) {
    c.gpu = "sm_100a";
    ExpectComputes(c, mma);
  };
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      expect({.trans_a = trans_a, .trans_b = trans_b});
      expect({.block_m = 128, .type = "float16", .trans_a = trans_a, .trans_b = trans_b});
      expect({.block_k = 64, .type = "float8_e4m3fn", .trans_a = trans_a, .trans_b = trans_b});
      expect({.type = "int8", .accum = "int32", .trans_a = trans_a, .trans_b = trans_b});
    }
  }
  expect({.block_k = 128, .type = "float8_e5m2"});
  for (const int block_k : {16, 32, 64, 128}) expect({.block_k = block_k});
  expect({.block_n = 32, .trans_b = false});
  expect({.block_n = 16});
  for (const int stages : {1, 2, 3, 4}) {
    for (const int k : {64, 128, 320}) expect({.k = k, .stages = stages});
  }
  expect({.block_m = 128, .block_n = 64, .threads = 256});
  expect({.block_m = 64, .block_n = 128, .threads = 256});
  expect({.m = 256, .block_m = 256, .block_n = 64});
  expect({.n = 512, .k = 64, .block_m = 128, .block_n = 512, .stages = 1, .threads = 256});
  expect({.m = 256, .n = 192, .block_m = 256, .block_n = 192, .threads = 256});
  expect({.m = 100, .n = 72, .k = 200});
  expect({.m = 96, .n = 130, .k = 72, .trans_a = true, .trans_b = false});
  for (const int cores : {1, 2, 3}) {
    for (const int stages : {1, 2, 3}) {
      expect({.m = 192, .k = 320, .stages = stages, .cores = cores});
    }
  }
}

// A block that takes turns multiplies one tile while it stores the last: a part fetches, one starts
// products, one stores; sums that fill more than half of tensor memory have one place.
TEST(GpuInstructions, ProductsBesideStores) {
  const auto parts = [](const Case& c) {
    const auto tiles = Tiles(Text(c));
    const auto instructions = Instructions(*tiles, c);
    EXPECT_TRUE(instructions.ok()) << instructions.status();
    EXPECT_EQ(Difference(*tiles, *instructions), "");
    int count = 0;
    ir::Walk(instructions->body, [&](const ir::Stmt& s) {
      const bool part = s.kind() == ir::StmtKind::kOnThreads;
      count += part ? 1 : 0;
      return !part;
    });
    return count;
  };
  Case c = {.m = 256, .n = 512, .k = 128, .block_m = 128, .block_n = 128, .gpu = "sm_100a"};
  EXPECT_EQ(parts(c), 2);  // each tile has a block
  c.cores = 3;
  EXPECT_EQ(parts(c), 3);
  c.block_m = 256;
  c.threads = 256;
  c.cores = 1;
  EXPECT_EQ(parts(c), 4);  // and one that gives registers away
  c.block_n = 256;
  EXPECT_EQ(parts(c), 2);
}

// Kernels whose products a loop does not simply add up from zero.
std::string OneTile(const std::string& before, const std::string& loop, const std::string& after) {
  return absl::StrCat(R"(import tilelang.language as T


@T.prim_func
def sums(A: T.Tensor((128, 256), "bfloat16"), B: T.Tensor((64, 256), "bfloat16"),
         N: T.Tensor((1,), "int32"), S: T.Tensor((128, 64), "float32"),
         C: T.Tensor((128, 64), "float32"), D: T.Tensor((128, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((128, 64), "bfloat16")
        b = T.alloc_shared((64, 64), "bfloat16")
        c = T.alloc_fragment((128, 64), "float32")
        d = T.alloc_fragment((128, 64), "float32")
        n = T.alloc_var("int32")
        n = N[0] - N[0]
)",
                      before, loop, after);
}

constexpr char kFetchBoth[] =
    "            T.copy(A[0, k * 64], a)\n"
    "            T.copy(B[0, k * 64], b)\n";

TEST(GpuInstructions, SumsThatBeginAnyhow) {
  const std::string fetch = kFetchBoth, clear = "        T.clear(c)\n";
  const std::string start = "        T.copy(S, c)\n", end = "        T.copy(c, C)\n";
  const std::string loop = "        for k in T.Pipelined(4, num_stages=2):\n" + fetch;
  const std::string some = "        for k in T.Pipelined(n, num_stages=2):\n" + fetch;
  const std::string product = "            T.gemm(a, b, c, transpose_B=True)\n";
  const std::string both = product + "            T.gemm(a, b, d, transpose_B=True)\n";
  const std::string inner = "            for h in T.serial(2):\n    " + product;
  const std::string serial = "        for t in T.serial(2):\n    " + clear +
                             "            for k in T.Pipelined(4, num_stages=2):\n                "
                             "T.copy(A[0, k * 64], a)\n"
                             "                T.copy(B[0, k * 64], b)\n    " +
                             product + "    " + end;
  const std::string first = "            T.gemm(a, b, c, transpose_B=True, clear_accum=k == 0)\n";
  for (const std::string& text : {
           OneTile(start, loop + product, end),  // from a tensor
           OneTile(clear + "        T.fill(d, 2.0)\n", loop + both, end + "        T.copy(d, D)\n"),
           OneTile(clear, loop + inner, end),                     // nested
           OneTile("", loop + first, end),                        // cleared by the kernel
           OneTile(clear, some + product, end),                   // none at all
           OneTile(clear, serial, ""),                            // turn by turn
           OneTile(clear, loop + product + loop + product, end),  // two loops
       }) {
    for (const char* specialised : {"true", "false"}) {
      auto tiles = Tiles(text);
      ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
      tiles->attrs["tl.disable_warp_specialized"] = specialised;
      const auto instructions = Instructions(*tiles, {.gpu = "sm_100a"});
      ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
      EXPECT_TRUE(Has(*instructions, ir::Instruction::kTcgen05Mma)) << text;
      EXPECT_FALSE(Has(*instructions, ir::Instruction::kMma)) << text;
      EXPECT_EQ(Difference(*tiles, *instructions), "") << text << ir::ToString(*instructions);
    }
    auto tiles = Tiles(text);
    tiles->attrs["kiln.tcgen05"] = "0";
    const auto instructions = Instructions(*tiles, {.gpu = "sm_100a"});
    ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
    EXPECT_FALSE(Has(*instructions, ir::Instruction::kTcgen05Mma)) << text;
    EXPECT_TRUE(Has(*instructions, ir::Instruction::kMma)) << text;
  }
}

// What is looked at between products stays in registers, and the launch says why.
TEST(GpuInstructions, SumsThatStayInRegisters) {
  const auto tiles =
      Tiles(OneTile("        T.clear(c)\n",
                    absl::StrCat("        for k in T.Pipelined(4, num_stages=2):\n", kFetchBoth,
                                 "            T.gemm(a, b, c, transpose_B=True)\n",
                                 "            for i, j in T.Parallel(128, 64):\n",
                                 "                c[i, j] = c[i, j] * 0.5\n"),
                    "        T.copy(c, C)\n"));
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  const auto instructions = Instructions(*tiles, {.gpu = "sm_100a"});
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_TRUE(Has(*instructions, ir::Instruction::kMma));
  EXPECT_TRUE(absl::StrContains(ir::ToString(*instructions),
                                "registers:c=\"it is looked at between products\""));
  EXPECT_EQ(Difference(*tiles, *instructions), "");
}

// Two results meet in a loop, of which one must stay in registers: both do.
TEST(GpuInstructions, SumsThatMeetOthers) {
  const auto tiles = Tiles(
      OneTile("        T.clear(c)\n        T.clear(d)\n",
              absl::StrCat("        for k in T.Pipelined(4, num_stages=2):\n", kFetchBoth,
                           "            T.gemm(a, b, c, transpose_B=True)\n",
                           "            T.gemm(a, b, d, transpose_B=True)\n",
                           "            for i, j in T.Parallel(128, 64):\n",
                           "                d[i, j] = d[i, j] * 0.5\n"),
              absl::StrCat("        for i, j in T.Parallel(128, 64):\n",
                           "            c[i, j] = c[i, j] + d[i, j]\n        T.copy(c, C)\n")));
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  const auto instructions = Instructions(*tiles, {.gpu = "sm_100a"});
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_FALSE(Has(*instructions, ir::Instruction::kTcgen05Mma));
  EXPECT_TRUE(absl::StrContains(ir::ToString(*instructions), "registers:c=\"the rest of"));
  EXPECT_EQ(Difference(*tiles, *instructions), "");
}

// Where the next tile lies is read from memory: threads fetch it, TMA the other one.
TEST(GpuInstructions, TilesWhosePlaceIsLookedUp) {
  const auto tiles = Tiles(R"(import tilelang
import tilelang.language as T


@T.prim_func
def gathered(A: T.Tensor((256, 64), "bfloat16"), B: T.Tensor((64, 256), "bfloat16"),
             I: T.Tensor((4,), "int32"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((64, 64), "bfloat16")
        b = T.alloc_shared((64, 64), "bfloat16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        for k in T.Pipelined(4, num_stages=2):
            T.copy(B[0, k * 64], b)
            page = T.max(I[k], 0)
            T.copy(A[page * 64, 0], a)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C)
)");
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  const auto instructions = Instructions(*tiles, {});
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_TRUE(Has(*instructions, ir::Instruction::kTensorLoad)) << ir::ToString(*instructions);
  EXPECT_EQ(Difference(*tiles, *instructions), "") << ir::ToString(*instructions);
}

// Scalars start anew with every tile of a persistent block.
TEST(GpuInstructions, ScalarsOfEveryTile) {
  std::string text = Text({.m = 256, .cores = 2});
  const std::string clear = "        T.clear(c)\n";
  text.replace(text.find(clear), clear.size(),
               "        first = T.alloc_var(\"bool\", init=True)\n");
  const std::string flags = "transpose_B=True)";
  text.replace(text.find(flags), flags.size(),
               "transpose_B=True, clear_accum=first)\n            first = False");
  const auto tiles = Tiles(text);
  ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
  const auto instructions = Instructions(*tiles, {.cores = 2});
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_TRUE(Has(*instructions, ir::Instruction::kTensorLoad)) << ir::ToString(*instructions);
  EXPECT_EQ(Difference(*tiles, *instructions), "") << ir::ToString(*instructions);
}

// Tiles that no box or no instruction fits: another way, the same numbers.
TEST(GpuInstructions, WhatDoesNotFitGoesAnotherWay) {
  for (const Case& c :
       {Case{.n = 72, .block_n = 8, .trans_b = false},
        Case{.n = 72, .block_n = 24, .trans_b = false},
        Case{.n = 80, .block_n = 40, .type = "int8", .accum = "int32"},
        Case{.m = 256, .n = 256, .k = 64, .block_m = 256, .block_n = 128, .threads = 512}}) {
    const std::string text = Text(c);
    const auto tiles = Tiles(text);
    ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
    const auto instructions = Instructions(*tiles, c);
    ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
    EXPECT_EQ(Difference(*tiles, *instructions), "") << text << ir::ToString(*instructions);
  }
}

// Two products a step, of which one takes its left operand from registers; sums in another order.
TEST(GpuInstructions, Attention) {
  for (const char* gpu : {"sm_90a", "sm_80"}) {
    for (const char* causal : {"False", "True"}) {
      auto tiles =
          testing::ElaboratedFile("tests/golden/lang/flash_attention.py", {{"batch", "1"},
                                                                           {"heads", "2"},
                                                                           {"seq_q", "96"},
                                                                           {"seq_kv", "160"},
                                                                           {"dim", "64"},
                                                                           {"block_M", "64"},
                                                                           {"is_causal", causal}});
      ASSERT_TRUE(tiles.ok()) << tiles.status();
      tiles->attrs["kiln.cluster"] = "1";
      const auto instructions = Instructions(*tiles, {.gpu = gpu});
      ASSERT_TRUE(instructions.ok()) << instructions.status();
      const bool hopper = gpu == std::string("sm_90a");
      EXPECT_TRUE(Has(*instructions, hopper ? ir::Instruction::kWgmma : ir::Instruction::kMma));
      EXPECT_EQ(Has(*instructions, ir::Instruction::kTensorLoad), hopper)
          << ir::ToString(*instructions);
      EXPECT_EQ(Difference(*tiles, *instructions, 2e-3), "") << ir::ToString(*instructions);
    }
  }
}

// The shipped one: ragged, causal with fewer heads of keys than of queries, masks at edges alone.
TEST(GpuInstructions, AttentionTemplate) {
  for (const char* causal : {"False", "True"}) {
    auto tiles =
        testing::ElaboratedFile("compiler/templates/attention.py", {{"batch", "2"},
                                                                    {"heads", "2"},
                                                                    {"kv_heads", "1"},
                                                                    {"seq_q", "130"},
                                                                    {"seq_kv", "170"},
                                                                    {"dim", "64"},
                                                                    {"block_M", "64"},
                                                                    {"block_N", "64"},
                                                                    {"threads", "128"},
                                                                    {"is_causal", causal}});
    ASSERT_TRUE(tiles.ok()) << tiles.status();
    tiles->attrs["kiln.cluster"] = "1";
    const auto instructions = Instructions(*tiles, {.cores = 4});
    ASSERT_TRUE(instructions.ok()) << instructions.status();
    EXPECT_TRUE(Has(*instructions, ir::Instruction::kTensorStore));
    EXPECT_EQ(Difference(*tiles, *instructions, 2e-3), "") << ir::ToString(*instructions);
  }
}

// A loop of two products with other statements before and between them; `tiles` are declared.
std::string Chained(const std::string& tiles, int stages, const std::string& fetch,
                    const std::string& work) {
  return absl::StrCat(R"(import tilelang.language as T


@T.prim_func
def chained(Q: T.Tensor((64, 64), "float16"), K: T.Tensor((256, 64), "float16"),
            V: T.Tensor((256, 64), "float16"), B: T.Tensor((256, 64), "float32"),
            O: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        q = T.alloc_shared((64, 64), "float16")
        k = T.alloc_shared((64, 64), "float16")
        v = T.alloc_shared((64, 64), "float16")
        s = T.alloc_fragment((64, 64), "float32")
        p = T.alloc_fragment((64, 64), "float16")
        o = T.alloc_fragment((64, 64), "float32")
)",
                      tiles, "        T.copy(Q, q)\n        T.clear(o)\n",
                      "        for step in T.Pipelined(4, num_stages=", stages, "):\n", fetch,
                      "            T.gemm(q, k, s, transpose_B=True, clear_accum=True)\n", work,
                      "            T.copy(s, p)\n            T.gemm(p, v, o)\n",
                      "        T.copy(o, O)\n");
}

constexpr char kFetchK[] = "            T.copy(K[step * 64, 0], k)\n";
constexpr char kFetchV[] = "            T.copy(V[step * 64, 0], v)\n";
constexpr char kFetchB[] = "            T.copy(B[step * 64, 0], b)\n";
constexpr char kTileB[] = "        b = T.alloc_shared((64, 64), \"float32\")\n";

// Scalars that change between the products, tiles of which there is one, tiles that the work reads:
// what may not run beside a product does not.
TEST(GpuInstructions, ChainsThatAreNone) {
  const auto add = [](const char* to, const char* what) {
    return absl::StrCat("            for i, j in T.Parallel(64, 64):\n                ", to,
                        "[i, j] = ", to, "[i, j] + ", what, "\n");
  };
  const std::string counter = "        c = T.alloc_var(\"int32\")\n        c = 0\n";
  const std::string count = "            c = c + 1\n            y = c * 2\n";
  const std::string k = kFetchK, v = kFetchV, b = kFetchB;
  for (const std::string& text :
       {Chained(counter, 2, k + v, add("o", "c") + count + add("s", "y")),
        Chained("", 1, v + k, add("s", "1.0")), Chained("", 1, k + v, add("s", "1.0")),
        Chained(kTileB, 1, k + v + b, add("o", "b[i, j]")),
        Chained(kTileB, 1, k + v + b, add("s", "b[i, j]")),
        Chained(kTileB, 2, b + k + v, add("o", "b[i, j]")),
        Chained(kTileB, 2, b + k + v, add("s", "b[i, j]")),
        Chained("", 2, k + v, add("o", "k[i, j]"))}) {
    const auto tiles = Tiles(text);
    ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
    const auto instructions = Instructions(*tiles, {});
    ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
    EXPECT_EQ(Difference(*tiles, *instructions, 1e-2), "") << text << ir::ToString(*instructions);
  }
}

// How often a loop runs is settled before it; tiles may be declared in it; a condition that leaves
// one thread alone leaves it its registers.
TEST(GpuInstructions, LoopsOfTheirOwnKind) {
  const std::string head = R"(import tilelang.language as T


@T.prim_func
def f(A: T.Tensor((64, 512), "float32"), C: T.Tensor((64, 32), "float32")):
    with T.Kernel(1, threads=128) as bx:
        c = T.alloc_fragment((64, 32), "float32")
        a = T.alloc_shared((64, 32), "float32")
        n = T.alloc_var("int32")
        n = 9
        T.clear(c)
)";
  const std::string sum =
      "            for i, j in T.Parallel(64, 32):\n                c[i, j] += a[i, j]\n";
  const std::string copy = "            T.copy(A[0, k * 32], a)\n";
  for (const std::string& body :
       {"        for k in T.Pipelined(n, num_stages=3):\n" + copy + "            n = n - 2\n" +
            sum + "        T.copy(c, C)\n",
        "        for k in T.Pipelined(16, num_stages=2):\n"
        "            a = T.alloc_shared((64, 32), \"float32\")\n" +
            copy + sum + "        T.copy(c, C)\n",
        std::string("        T.copy(A[0:64, 0:32], c)\n        T.copy(c, C)\n"
                    "        for i, j in T.Parallel(64, 32):\n            if i < 1:\n"
                    "                C[i, j] = c[i, j] * 2.0\n")}) {
    for (const char* gpu : {"sm_80", "sm_90a"}) {
      const auto tiles = Tiles(head + body);
      ASSERT_TRUE(tiles.ok()) << tiles.status() << body;
      const auto instructions = Instructions(*tiles, {.gpu = gpu});
      ASSERT_TRUE(instructions.ok()) << instructions.status() << body;
      EXPECT_EQ(Difference(*tiles, *instructions), "") << body << ir::ToString(*instructions);
    }
  }
}

TEST(GpuInstructions, RandomProducts) {
  std::mt19937_64 rng(11);
  const auto pick = [&](std::initializer_list<int> from) {
    return from.begin()[rng() % from.size()];
  };
  for (int i = 0; i < 20; ++i) {
    Case c;
    c.threads = pick({128, 256});
    c.block_m = c.threads == 256 ? 128 : 64;
    c.block_n = pick({16, 32, 64, 96, 128});
    c.block_k = pick({16, 32, 64, 128});
    c.stages = pick({1, 2, 3, 4});
    c.m = 8 * pick({5, 16, 20, 33});
    c.n = 8 * pick({3, 16, 19});
    c.k = 8 * pick({2, 16, 25});
    c.trans_a = rng() % 2 == 0;
    c.trans_b = c.block_n % 64 != 0 || rng() % 2 == 0;
    c.cores = pick({1, 2, 132});
    ExpectComputes(c);
  }
}

// ---- mistakes ----

// `change` gives another statement for an instruction, or an undefined one to leave it. Each change
// of one instruction must be noticed.
int ExpectNoticed(const ir::Program& tiles, const ir::Program& instructions,
                  const std::function<ir::Stmt(const ir::Instruct&)>& change,
                  double tolerance = 0) {
  int count = 0;
  for (int target = 0;; ++target) {
    int seen = 0;
    bool changed = false;
    ir::Program mistaken = instructions;
    mistaken.body = ir::RewriteStmts(instructions.body, [&](const ir::Stmt& s) -> ir::Stmt {
      const auto* x = s.As<ir::Instruct>();
      const ir::Stmt other = x != nullptr ? change(*x) : ir::Stmt();
      if (!other.defined() || seen++ != target) return {};
      changed = true;
      return other;
    });
    if (!changed) break;
    ++count;
    EXPECT_NE(Difference(tiles, mistaken, tolerance), "")
        << "change " << target << " went unnoticed in\n"
        << ir::ToString(mistaken);
  }
  return count;
}

int ExpectNoticed(const Case& c, const std::function<ir::Stmt(const ir::Instruct&)>& change) {
  const auto tiles = Tiles(Text(c));
  const auto instructions = Instructions(*tiles, c);
  EXPECT_TRUE(instructions.ok()) << instructions.status();
  return instructions.ok() ? ExpectNoticed(*tiles, *instructions, change) : 0;
}

ir::Stmt Nothing(const ir::Instruct& x) {
  return ir::MakeStmt<ir::Seq>(x.loc, std::vector<ir::Stmt>());
}

ir::Stmt With(const ir::Instruct& x, std::vector<ir::Expr> args,
              std::map<std::string, std::string> notes) {
  return ir::MakeStmt<ir::Instruct>(x.loc, x.op, x.regions, std::move(args), std::move(notes));
}

TEST(GpuMistakes, AMissingWaitIsNoticed) {
  const Case c = {.k = 320, .stages = 2, .cores = 1};  // the last arrival is for the next tile
  for (const ir::Instruction op :
       {ir::Instruction::kBarrierWait, ir::Instruction::kBarrierArrive,
        ir::Instruction::kBarrierExpect, ir::Instruction::kBarrierInit,
        ir::Instruction::kTensorLoad, ir::Instruction::kTensorStore, ir::Instruction::kStoreWait}) {
    const int count = ExpectNoticed(
        c, [&](const ir::Instruct& x) { return x.op == op ? Nothing(x) : ir::Stmt(); });
    EXPECT_GT(count, 0) << ir::Name(op);
  }
}

TEST(GpuMistakes, OfCopiesAheadAreNoticed) {
  const Case c = {.k = 320, .stages = 3, .gpu = "sm_80"};
  for (const ir::Instruction op :
       {ir::Instruction::kAsyncCopy, ir::Instruction::kAsyncWait, ir::Instruction::kBlockBarrier}) {
    const int count = ExpectNoticed(
        c, [&](const ir::Instruct& x) { return x.op == op ? Nothing(x) : ir::Stmt(); });
    EXPECT_GT(count, 0) << ir::Name(op);
  }
  const int waits = ExpectNoticed(c, [](const ir::Instruct& x) {
    if (x.op != ir::Instruction::kAsyncWait) return ir::Stmt();
    return With(x, {x.args[0] + ir::MakeInt(1)}, x.annotations);
  });
  EXPECT_GT(waits, 0);
}

// Two products a step, one of which runs beside the work on the other's result.
TEST(GpuMistakes, OfChainedProductsAreNoticed) {
  const auto tiles = testing::ElaboratedFile("tests/golden/passes/chain-products.py");
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  const auto instructions = testing::Instructions(*tiles, "sm_90a");
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  ASSERT_EQ(Difference(*tiles, *instructions), "") << ir::ToString(*instructions);
  for (const ir::Instruction op : {ir::Instruction::kWgmmaWait, ir::Instruction::kBarrierWait,
                                   ir::Instruction::kBarrierExpect, ir::Instruction::kWgmma}) {
    const int count = ExpectNoticed(*tiles, *instructions, [&](const ir::Instruct& x) {
      return x.op == op ? Nothing(x) : ir::Stmt();
    });
    EXPECT_GT(count, 0) << ir::Name(op);
  }
}

TEST(GpuMistakes, AResultThatIsReadTooEarlyIsNoticed) {
  const int count = ExpectNoticed({.k = 128}, [&](const ir::Instruct& x) {
    const bool last = x.op == ir::Instruction::kWgmmaWait && ir::IsConst(x.args[0], 0);
    return last ? Nothing(x) : ir::Stmt();
  });
  EXPECT_GT(count, 0);
}

// Products in tensor memory: nothing of what orders them may be left out, be it a loop that one
// warp runs or products that all threads wait for.
TEST(GpuMistakes, InTensorMemoryAreNoticed) {
  using ir::Instruction;
  const Case turns = {.k = 320, .stages = 2, .cores = 1, .gpu = "sm_100a"};
  for (const Instruction op :
       {Instruction::kBarrierWait, Instruction::kBarrierExpect, Instruction::kBarrierInit,
        Instruction::kTensorLoad, Instruction::kTcgen05Alloc, Instruction::kTcgen05Free,
        Instruction::kTcgen05Mma, Instruction::kTcgen05Commit, Instruction::kTcgen05Load,
        Instruction::kTcgen05Wait, Instruction::kTcgen05Fence}) {
    // The warp that starts products fences every turn: what follows the first barrier is not
    // needed.
    const int count = ExpectNoticed(turns, [&](const ir::Instruct& x) {
      if (x.op != op) return ir::Stmt();
      const bool first = op == Instruction::kTcgen05Fence && x.loc.line == kLaunchLine &&
                         ir::IsConst(x.args[0], 1);
      return first ? ir::Stmt() : Nothing(x);
    });
    EXPECT_GT(count, 0) << ir::Name(op);
  }
  auto tiles = Tiles(Text({.m = 64, .n = 64, .k = 320, .stages = 3}));
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  tiles->attrs["tl.disable_warp_specialized"] = "true";
  const auto instructions = Instructions(*tiles, {.gpu = "sm_100a"});
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  for (const Instruction op :
       {Instruction::kBarrierWait, Instruction::kBarrierInit, Instruction::kBlockBarrier,
        Instruction::kAsyncCopy, Instruction::kAsyncWait, Instruction::kTcgen05Alloc,
        Instruction::kTcgen05Free, Instruction::kTcgen05Mma, Instruction::kTcgen05Commit,
        Instruction::kTcgen05Load, Instruction::kTcgen05Wait, Instruction::kTcgen05Fence}) {
    const int count = ExpectNoticed(*tiles, *instructions, [&](const ir::Instruct& x) {
      return x.op == op ? Nothing(x) : ir::Stmt();
    });
    EXPECT_GT(count, 0) << ir::Name(op);
  }
}

// Fewer columns than products fill, or other ones.
TEST(GpuMistakes, OtherColumnsAreNoticed) {
  const Case c = {.n = 256, .block_m = 128, .block_n = 128, .gpu = "sm_100a"};
  for (const ir::Instruction op : {ir::Instruction::kTcgen05Alloc, ir::Instruction::kTcgen05Free}) {
    EXPECT_EQ(ExpectNoticed(c,
                            [&](const ir::Instruct& x) {
                              if (x.op != op) return ir::Stmt();
                              std::vector<ir::Expr> args = x.args;
                              args.back() = ir::MakeInt(64);
                              return With(x, std::move(args), x.annotations);
                            }),
              1);
  }
  for (const ir::Instruction op : {ir::Instruction::kTcgen05Mma, ir::Instruction::kTcgen05Load}) {
    EXPECT_EQ(ExpectNoticed(c,
                            [&](const ir::Instruct& x) {
                              if (x.op != op) return ir::Stmt();
                              std::vector<ir::Expr> args = x.args;
                              args.back() = args.back() + ir::MakeInt(16, kInt32);
                              return With(x, std::move(args), x.annotations);
                            }),
              1);
  }
}

TEST(GpuMistakes, AWrongPhaseIsNoticed) {
  for (const char* gpu : {"sm_90a", "sm_100a"}) {
    const int count = ExpectNoticed({.k = 384, .gpu = gpu}, [](const ir::Instruct& x) {
      if (x.op != ir::Instruction::kBarrierWait) return ir::Stmt();
      return With(x, {ir::MakeInt(1) - x.args[0]}, x.annotations);
    });
    EXPECT_EQ(count, gpu == std::string("sm_90a") ? 2 : 3);
  }
}

TEST(GpuMistakes, AWrongSwizzleIsNoticed) {
  for (const char* gpu : {"sm_90a", "sm_100a"}) {
    for (const char* operand : {"swizzle0", "swizzle1", "swizzle2"}) {
      const int count = ExpectNoticed({.gpu = gpu}, [&](const ir::Instruct& x) {
        // To wait it is enough to know the tile.
        if (x.annotations.count(operand) == 0 || x.op == ir::Instruction::kStoreWait) {
          return ir::Stmt();
        }
        auto notes = x.annotations;
        notes[operand] = "64";
        return With(x, x.args, std::move(notes));
      });
      const bool has = gpu == std::string("sm_90a") || operand != std::string("swizzle2");
      EXPECT_EQ(count > 0, has) << operand;
    }
  }
}

TEST(GpuMistakes, ABarrierThatCountsWrongIsNoticed) {
  for (const char* gpu : {"sm_90a", "sm_100a"}) {
    const int count = ExpectNoticed({.k = 384, .gpu = gpu}, [](const ir::Instruct& x) {
      const bool counts =
          x.op == ir::Instruction::kBarrierInit || x.op == ir::Instruction::kBarrierExpect;
      if (!counts) return ir::Stmt();
      return With(x, {x.args[0] + ir::MakeInt(1)}, x.annotations);
    });
    EXPECT_EQ(count, gpu == std::string("sm_90a") ? 3 : 4);
  }
}

TEST(GpuMistakes, ATileThatIsHandedBackTooEarlyIsNoticed) {
  // Before the store that reads it is over: a wait for one store less.
  const Case stores = {.n = 128, .k = 64, .cores = 1};
  EXPECT_GT(ExpectNoticed(stores,
                          [](const ir::Instruct& x) {
                            if (x.op != ir::Instruction::kStoreWait) return ir::Stmt();
                            return With(x, {x.args[0] + ir::MakeInt(1)}, x.annotations);
                          }),
            0);
  // Before the product that reads it is over: every wait for all but the last waits for none.
  const int count = ExpectNoticed({.k = 512, .stages = 2}, [](const ir::Instruct& x) {
    const bool overlapped = x.op == ir::Instruction::kWgmmaWait && ir::IsConst(x.args[0], 1);
    return overlapped ? With(x, {ir::MakeInt(3)}, x.annotations) : ir::Stmt();
  });
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace kiln
