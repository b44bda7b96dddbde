// Programs for Hopper, instruction by instruction in the interpreter (TMA, mbarriers, wgmma, parts
// that run beside each other, completion as late and as early as allowed), against their tiles. And
// the mistakes that a compiler could make there, each of which must show.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "compiler/target/legality.h"
#include "tests/property/passes/gpu_products.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using testing::Case;
using testing::Difference;
using testing::ExpectComputes;
using testing::ExpectNoticed;
using testing::Has;
using testing::Lowered;
using testing::Nothing;
using testing::Text;
using testing::Tiles;
using testing::With;

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
  ExpectComputes({.block_k = 64, .type = "uint8", .accum = "int32"});
}

TEST(GpuInstructions, SumsInHalfPrecision) {
  for (const bool trans_b : {false, true}) {
    const Case c = {.type = "float16", .accum = "float16", .trans_b = trans_b};
    ExpectComputes(c);
    for (const char* gpu : {"sm_80", "sm_100a"}) {
      Case other = c;
      other.gpu = gpu;
      const auto tiles = Tiles(Text(other));
      ASSERT_TRUE(tiles.ok()) << tiles.status();
      const auto instructions = Lowered(*tiles, other);
      ASSERT_TRUE(instructions.ok()) << instructions.status();
      EXPECT_TRUE(Has(*instructions, ir::Instruction::kMma)) << gpu;
      EXPECT_EQ(Difference(*tiles, *instructions), "") << gpu;
    }
  }
  ExpectComputes(
      {.block_m = 128, .threads = 256, .type = "float16", .accum = "float16", .registers = true});
}

// ldmatrix and the descriptors of wgmma turn elements of 16 bits alone: bytes are turned before.
TEST(GpuInstructions, BytesThatAreNotKMajorAreTurned) {
  const std::pair<const char*, const char*> types[] = {
      {"int8", "int32"}, {"uint8", "int32"}, {"float8_e4m3fn", "float32"}};
  for (const auto& [type, accum] : types) {
    for (const bool trans_a : {false, true}) {
      for (const bool trans_b : {false, true}) {
        if (type != std::string("int8") && trans_a == trans_b) continue;
        Case c = {.m = 100,
                  .k = 160,
                  .type = type,
                  .accum = accum,
                  .trans_a = trans_a,
                  .trans_b = trans_b};
        ExpectComputes(c);
        c.block_m = 128;
        c.block_n = 32;
        c.threads = 256;
        ExpectComputes(c);
        c.registers = true;
        ExpectComputes(c);
        c.gpu = "sm_89";
        ExpectComputes(c, ir::Instruction::kMma);
        c.threads = 64;
        c.block_n = 24;
        c.block_k = 32;
        c.registers = false;
        ExpectComputes(c, ir::Instruction::kMma);
      }
    }
  }
}

TEST(GpuInstructions, BytesThatThereIsNoRoomToTurnStay) {
  Case c = {.block_m = 128,
            .block_n = 128,
            .block_k = 128,
            .stages = 3,
            .type = "int8",
            .accum = "int32",
            .trans_b = false,
            .gpu = "sm_86"};  // 96 of 99 KiB
  const auto tiles = Tiles(Text(c));
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  const auto instructions = Lowered(*tiles, c);
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_FALSE(Has(*instructions, ir::Instruction::kMma));
  EXPECT_EQ(Difference(*tiles, *instructions), "");
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

// Two blocks load what they both need, each its half of the rows, into the memory of both.
TEST(GpuInstructions, ClustersShareTiles) {
  for (const bool trans_b : {false, true}) {
    for (const int block_k : {32, 64, 128}) {  // 128: two panels of a swizzle
      ExpectComputes({.block_k = block_k, .trans_b = trans_b, .cluster = 2});
    }
  }
  ExpectComputes({.m = 250, .n = 72, .k = 200, .cluster = 2});
  ExpectComputes({.m = 256, .k = 320, .stages = 3, .cores = 2, .cluster = 2});  // in turns
  ExpectComputes({.m = 512, .k = 64, .stages = 1, .cores = 4, .cluster = 2});
  ExpectComputes({.m = 256, .block_m = 128, .threads = 256, .type = "float16", .cluster = 2});
}

// Two warpgroups take turns at the tiles of a block.
TEST(GpuInstructions, PingPong) {
  for (const int cores : {1, 2, 3}) {
    for (const int stages : {1, 2, 3}) {
      ExpectComputes({.m = 320, .k = 192, .stages = stages, .cores = cores, .pingpong = true});
    }
  }
  ExpectComputes({.m = 250, .n = 72, .k = 200, .cores = 1, .pingpong = true});
  ExpectComputes({.m = 256, .k = 128, .cores = 2, .cluster = 2, .pingpong = true});
  ExpectComputes({.m = 256, .block_m = 128, .type = "float16", .cores = 1, .pingpong = true});
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
  const auto instructions = Lowered(*tiles, {});
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_TRUE(Has(*instructions, ir::Instruction::kTensorLoad)) << ir::ToString(*instructions);
  EXPECT_EQ(Difference(*tiles, *instructions), "") << ir::ToString(*instructions);
}

// Scalars start anew with every tile of a persistent block.
// How many steps a block takes is read from a tensor: by both parts where nobody writes it.
TEST(GpuInstructions, LoopsWhoseBoundsAreLookedUp) {
  for (const bool written : {false, true}) {
    for (const int more : {0, 1, 2, 3}) {
      const Case c = written ? Case{.m = 64, .n = 64} : Case{};
      std::string text = Text(c);
      ASSERT_EQ(absl::StrReplaceAll({{"C: T.Tensor(", "L: T.Tensor((2,), \"int32\"), C: T.Tensor("},
                                     {"        for k in T.Pipelined(T.ceildiv(192, 64),",
                                      absl::StrCat("        wanted = (L[by] + ", more, ") % 4\n",
                                                   "        steps = T.min(wanted, 3)\n",
                                                   "        for k in T.Pipelined(steps,")}},
                                    &text),
                2);
      if (written) absl::StrAppend(&text, "        L[1] = 1\n");
      const auto tiles = Tiles(text);
      ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
      const auto instructions = Lowered(*tiles, c);
      ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
      EXPECT_EQ(Has(*instructions, ir::Instruction::kTensorLoad), !written) << text;
      EXPECT_EQ(Difference(*tiles, *instructions), "") << text;
    }
  }
}

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
  const auto instructions = Lowered(*tiles, {.cores = 2});
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
    const auto instructions = Lowered(*tiles, c);
    ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
    EXPECT_EQ(Difference(*tiles, *instructions), "") << text << ir::ToString(*instructions);
  }
}

// The instruction that the table chooses is the one that is built: no product that was planned, and
// priced, for tensor cores ends up on vector units.
TEST(GpuInstructions, ProductsAreDoneByWhatTheTableChooses) {
  std::mt19937_64 rng(3);
  const auto pick = [&](std::initializer_list<int> from) {
    return from.begin()[rng() % from.size()];
  };
  const std::pair<const char*, const char*> types[] = {
      {"float16", "float32"}, {"float16", "float16"},       {"bfloat16", "float32"},
      {"int8", "int32"},      {"float8_e4m3fn", "float32"}, {"float32", "float32"}};
  int on_tensor_cores = 0, on_vector_units = 0;
  for (int i = 0; i < 150; ++i) {
    Case c;
    std::tie(c.type, c.accum) = types[rng() % std::size(types)];
    c.gpu = std::array{"sm_80", "sm_89", "sm_90a"}[rng() % 3];
    c.threads = pick({32, 64, 128, 256});
    c.block_m = pick({16, 32, 64, 128});
    c.block_n = pick({8, 16, 24, 32, 40, 64, 72, 96, 160});
    c.block_k = pick({16, 32, 64});
    c.trans_a = rng() % 2 == 0;
    c.trans_b = rng() % 2 == 0;
    const target::Arch arch = *target::NamedArch(c.gpu);
    const target::GemmQuery query = {.m = c.block_m,
                                     .n = c.block_n,
                                     .k = c.block_k,
                                     .a = *ParseDType(c.type),
                                     .b = *ParseDType(c.type),
                                     .c = *ParseDType(c.accum),
                                     .trans_a = c.trans_a,
                                     .trans_b = c.trans_b,
                                     .warps = c.threads / 32};
    const target::GemmChoice choice =
        target::ChooseGemm(arch, target::TurnedBytes(arch, query).value_or(query));
    const auto tiles = Tiles(Text(c));
    ASSERT_TRUE(tiles.ok()) << tiles.status() << Text(c);
    const auto instructions = Lowered(*tiles, c);
    EXPECT_EQ(instructions.ok(), !choice.unit.empty()) << instructions.status() << Text(c);
    if (!instructions.ok()) continue;
    EXPECT_EQ(Has(*instructions, ir::Instruction::kWgmma), choice.unit == "wgmma") << Text(c);
    EXPECT_EQ(Has(*instructions, ir::Instruction::kMma), choice.unit == "mma") << Text(c);
    ++(choice.unit == "fma" ? on_vector_units : on_tensor_cores);
  }
  EXPECT_GT(on_vector_units, 10);
  EXPECT_GT(on_tensor_cores, 20);
}

// A part of a larger tile has no descriptor and no rows of its own.
TEST(GpuInstructions, PartsOfTilesGoToVectorUnits) {
  std::string text = Text({.block_m = 64, .block_n = 64});
  ASSERT_EQ(absl::StrReplaceAll({{"T.gemm(a, b, c,", "T.gemm(a[:, 0:32], b[:, 0:32], c,"}}, &text),
            1);
  for (const char* gpu : {"sm_80", "sm_90a", "sm_100a"}) {
    const auto tiles = Tiles(text);
    ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
    const auto instructions = testing::Instructions(*tiles, gpu);
    ASSERT_TRUE(instructions.ok()) << instructions.status() << text;
    EXPECT_EQ(Difference(*tiles, *instructions), "") << text << ir::ToString(*instructions);
  }
}

// Strides that no tensor map has, and sides beyond its coordinates: threads copy such tiles.
TEST(GpuInstructions, WhatNoTensorMapDescribes) {
  const auto fetched = [](const std::string& a) {
    std::string text = Text({});
    EXPECT_EQ(
        absl::StrReplaceAll({{"A: T.Tensor((128, 192),", absl::StrCat("A: ", a, ",")}}, &text), 1);
    const auto tiles = Tiles(text);
    EXPECT_TRUE(tiles.ok()) << tiles.status() << text;
    const auto instructions = testing::Instructions(*tiles, "sm_90a");
    EXPECT_TRUE(instructions.ok()) << instructions.status() << text;
    bool found = false;
    ir::Walk(instructions->body, [&](const ir::Stmt& s) {
      const auto* x = s.As<ir::Instruct>();
      found |= x != nullptr && x->op == ir::Instruction::kTensorLoad &&
               x->regions[1].buffer->name == "A";
      return true;
    });
    return found;
  };
  EXPECT_TRUE(fetched("T.StridedTensor((128, 192), (200, 1)"));
  EXPECT_FALSE(fetched("T.StridedTensor((128, 192), (196, 1)"));
  EXPECT_FALSE(fetched("T.StridedTensor((128, 192), (0, 1)"));
  EXPECT_FALSE(fetched("T.StridedTensor((128, 192), (1099511627776, 1)"));
  EXPECT_TRUE(fetched("T.Tensor((2147483648, 192)"));
  EXPECT_FALSE(fetched("T.Tensor((2147483649, 192)"));
}

TEST(GpuInstructions, MoreBlocksThanAGridHas) {
  const auto tiles = testing::Elaborated("k.py", R"(import tilelang.language as T

@T.prim_func
def many(A: T.Tensor((64,), "float32")):
    with T.Kernel(65536, 65536, threads=64) as (bx, by):
        for i in T.Parallel(64):
            if bx + by == 0:
                A[i] = 1
)");
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  const auto refused = testing::Instructions(*tiles, "sm_90a");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("a launch of 4294967296 blocks"), std::string::npos)
      << refused.status();
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
      const auto instructions = Lowered(*tiles, {.gpu = gpu});
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
    const auto instructions = Lowered(*tiles, {.cores = 4});
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
    const auto instructions = Lowered(*tiles, {});
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
      const auto instructions = Lowered(*tiles, {.gpu = gpu});
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

TEST(GpuMistakes, AMissingWaitIsNoticed) {
  const Case c = {.k = 320, .stages = 2, .cores = 1};  // the last arrival is for the next tile
  for (const ir::Instruction op : {ir::Instruction::kBarrierWait, ir::Instruction::kBarrierArrive,
                                   ir::Instruction::kBarrierExpect, ir::Instruction::kBarrierInit,
                                   ir::Instruction::kTensorLoad, ir::Instruction::kTensorStore,
                                   ir::Instruction::kStoreWait, ir::Instruction::kProxyFence}) {
    const int count = ExpectNoticed(
        c, [&](const ir::Instruct& x) { return x.op == op ? Nothing(x) : ir::Stmt(); });
    EXPECT_GT(count, 0) << ir::Name(op);
  }
}

// Of tiles that threads read themselves, for mma.sync: a load's answer may be on its way still when
// the tile is given back and filled again.
TEST(GpuMistakes, TilesGivenBackTooSoonAreNoticed) {
  for (const int cluster : {1, 2}) {
    const Case c = {.m = 128, .k = 320, .block_m = 32, .stages = 2, .cores = 2, .cluster = cluster};
    const int fences = ExpectNoticed(c, [](const ir::Instruct& x) {
      return x.op == ir::Instruction::kProxyFence ? Nothing(x) : ir::Stmt();
    });
    EXPECT_GE(fences, 1) << cluster;
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

TEST(GpuMistakes, OfTeamsAreNoticed) {
  const Case c = {.m = 256, .n = 64, .k = 192, .stages = 2, .cores = 1, .pingpong = true};
  const int missing = ExpectNoticed(c, [](const ir::Instruct& x) -> ir::Stmt {
    const bool wait = x.op == ir::Instruction::kBarrierWait;
    return wait || x.op == ir::Instruction::kBarrierArrive ? Nothing(x) : ir::Stmt();
  });
  EXPECT_GE(missing, 5);  // a wait of the producer, a wait and an arrival of each team
}

// What a reduction across warps brings along stands beside the block, and the blocks still meet.
TEST(GpuInstructions, ClustersWhoseBlocksReduce) {
  const Case c = {.m = 256, .k = 128, .cores = 2, .cluster = 2};
  std::string text = Text(c);
  ASSERT_EQ(absl::StrReplaceAll({{"        T.copy(c, C[",
                                  "        most = T.alloc_fragment((64,), \"float32\")\n"
                                  "        T.reduce_max(c, most, dim=0)\n"
                                  "        for i, j in T.Parallel(64, 64):\n"
                                  "            c[i, j] = c[i, j] - most[j]\n"
                                  "        T.copy(c, C["}},
                                &text),
            1);
  const auto tiles = Tiles(text, c.cluster);
  ASSERT_TRUE(tiles.ok()) << tiles.status() << text;
  const auto instructions = Lowered(*tiles, c);
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_EQ(Difference(*tiles, *instructions), "") << ir::ToString(*instructions);
}

// Of two blocks one does not do its share for the other.
TEST(GpuMistakes, OfClustersAreNoticed) {
  const Case c = {.k = 320, .stages = 2, .cores = 2, .cluster = 2};
  const int alone = ExpectNoticed(c, [](const ir::Instruct& x) -> ir::Stmt {
    auto notes = x.annotations;
    const bool arrives = x.op == ir::Instruction::kBarrierArrive && notes.erase("cluster") > 0;
    return arrives ? With(x, x.args, notes) : ir::Stmt();
  });
  EXPECT_GT(alone, 0);
  const int shared = ExpectNoticed(c, [](const ir::Instruct& x) -> ir::Stmt {
    auto notes = x.annotations;
    const bool own = x.op == ir::Instruction::kTensorLoad && notes.emplace("cluster", "2").second;
    return own ? With(x, x.args, notes) : ir::Stmt();
  });
  EXPECT_EQ(shared, 1);  // of two loads one is each block's own
}

TEST(GpuMistakes, AResultThatIsReadTooEarlyIsNoticed) {
  const int count = ExpectNoticed({.k = 128}, [&](const ir::Instruct& x) {
    const bool last = x.op == ir::Instruction::kWgmmaWait && ir::IsConst(x.args[0], 0);
    return last ? Nothing(x) : ir::Stmt();
  });
  EXPECT_GT(count, 0);
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
