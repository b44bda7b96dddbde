// Products of float32 on tensor cores, which the pass option kiln.tf32 allows: what they round, and
// that they are exact without it.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/printer.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using testing::Difference;
using testing::Has;

constexpr const char* kGpus[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"};

struct Case {
  const char* gpu = "sm_90a";
  bool trans_a = false, trans_b = true;
  int m = 64, n = 64, k = 64;
  int block_m = 64, block_n = 64, block_k = 32, stages = 2, threads = 128;
  bool registers = false;  // A goes through a fragment
  bool turn = false;       // kiln.turn

  bool OnWarpgroups() const {
    if (gpu != std::string("sm_90a") || threads % 128 != 0) return false;
    // What is in registers stays as it is.
    const bool k_major = (!trans_a || (turn && !registers)) && (trans_b || turn);
    return Loaded() || (k_major && block_m % 64 == 0);
  }
  // One operand is K-major, and each warpgroup loads rows of the other one to registers.
  bool Loaded() const {
    const int rows = trans_b ? block_m : block_n, columns = trans_b ? block_n : block_m;
    return !registers && trans_a == trans_b && rows % (threads / 2) == 0 && columns % 8 == 0;
  }
  bool InTensorMemory() const {
    return gpu == std::string("sm_100a") && !trans_a && trans_b && !registers &&
           block_m % 64 == 0 && block_n % 16 == 0 && threads % 128 == 0;
  }
};

std::string Text(const Case& c) {
  const auto pair = [](bool turned, const std::string& row, const std::string& column) {
    return turned ? absl::StrCat(column, ", ", row) : absl::StrCat(row, ", ", column);
  };
  const auto shape = [&](bool turned, int rows, int columns) {
    return absl::StrCat("(", pair(turned, absl::StrCat(rows), absl::StrCat(columns)),
                        "), \"float32\")");
  };
  const std::string step = absl::StrCat("k * ", c.block_k);
  std::string text = "import tilelang.language as T\n\n\n@T.prim_func\n";
  absl::StrAppend(&text, "def product(A: T.Tensor(", shape(c.trans_a, c.m, c.k), ", B: T.Tensor(",
                  shape(c.trans_b, c.k, c.n), ", C: T.Tensor(", shape(false, c.m, c.n), "):\n");
  absl::StrAppend(&text, "    with T.Kernel(T.ceildiv(", c.n, ", ", c.block_n, "), T.ceildiv(", c.m,
                  ", ", c.block_m, "), threads=", c.threads, ") as (bx, by):\n");
  absl::StrAppend(&text, "        a = T.alloc_shared(", shape(c.trans_a, c.block_m, c.block_k),
                  "\n        b = T.alloc_shared(", shape(c.trans_b, c.block_k, c.block_n),
                  "\n        f = T.alloc_fragment(", shape(c.trans_a, c.block_m, c.block_k),
                  "\n        c = T.alloc_fragment(", shape(false, c.block_m, c.block_n),
                  "\n        T.clear(c)\n");
  absl::StrAppend(&text, "        for k in T.Pipelined(T.ceildiv(", c.k, ", ", c.block_k,
                  "), num_stages=", c.stages, "):\n            T.copy(A[",
                  pair(c.trans_a, absl::StrCat("by * ", c.block_m), step),
                  "], a)\n            T.copy(B[",
                  pair(c.trans_b, step, absl::StrCat("bx * ", c.block_n)), "], b)\n",
                  c.registers ? "            T.copy(a, f)\n" : "", "            T.gemm(",
                  c.registers ? "f" : "a", ", b, c, transpose_A=", c.trans_a ? "True" : "False",
                  ", transpose_B=", c.trans_b ? "True" : "False", ")\n");
  absl::StrAppend(&text, "        T.copy(c, C[by * ", c.block_m, ", bx * ", c.block_n, "])\n");
  return text;
}

// The tiles of a case.
ir::Program Tiles(const Case& c, bool tf32 = true) {
  auto tiles = testing::Elaborated("k.py", Text(c));
  EXPECT_TRUE(tiles.ok()) << tiles.status() << Text(c);
  if (tf32) tiles->attrs["kiln.tf32"] = "1";
  if (c.turn) tiles->attrs["kiln.turn"] = "1";
  tiles->attrs["kiln.cluster"] = "1";  // the interpreter runs one block at a time
  return *std::move(tiles);
}

void ExpectComputes(const Case& c) {
  const ir::Program tiles = Tiles(c);
  const auto instructions = testing::Instructions(tiles, c.gpu, /*cores=*/4);
  ASSERT_TRUE(instructions.ok()) << c.gpu << instructions.status() << Text(c);
  EXPECT_EQ(Has(*instructions, ir::Instruction::kWgmma), c.OnWarpgroups()) << c.gpu << Text(c);
  EXPECT_EQ(Has(*instructions, ir::Instruction::kTcgen05Mma), c.InTensorMemory())
      << c.gpu << Text(c);
  EXPECT_EQ(Has(*instructions, ir::Instruction::kMma), !c.OnWarpgroups() && !c.InTensorMemory())
      << c.gpu << Text(c);
  EXPECT_EQ(Difference(tiles, *instructions), "")
      << c.gpu << Text(c) << ir::ToString(*instructions);
}

TEST(GpuTf32, EveryGpuAndTranspose) {
  for (const char* gpu : kGpus) {
    for (const bool trans_a : {false, true}) {
      for (const bool trans_b : {false, true}) {
        ExpectComputes({.gpu = gpu, .trans_a = trans_a, .trans_b = trans_b, .m = 128, .k = 96});
        ExpectComputes(
            {.gpu = gpu, .trans_a = trans_a, .trans_b = trans_b, .m = 100, .k = 52, .turn = true});
        ExpectComputes({.gpu = gpu,
                        .trans_a = trans_a,
                        .trans_b = trans_b,
                        .m = 100,
                        .n = 72,
                        .k = 44,
                        .block_m = 32,
                        .block_k = 16,
                        .threads = 64});
      }
    }
  }
}

TEST(GpuTf32, LeftOperandsFromRegisters) {
  for (const char* gpu : kGpus) {
    for (const bool trans_b : {false, true}) {
      ExpectComputes({.gpu = gpu, .trans_b = trans_b, .k = 96, .registers = true});
      ExpectComputes({.gpu = gpu,
                      .trans_b = trans_b,
                      .m = 120,
                      .n = 40,
                      .block_m = 128,
                      .threads = 256,
                      .registers = true});
    }
    // It is turned on its way to shared memory.
    ExpectComputes({.gpu = gpu, .trans_a = true, .registers = true});
  }
}

// A result that is multiplied again lies where the next product wants it, on any GPU. The first
// one's elements are below 2048, which tf32 has.
TEST(GpuTf32, ResultsAreMultipliedAgain) {
  const std::string text = R"(import tilelang.language as T


@T.prim_func
def chained(Q: T.Tensor((64, 64), "float32"), K: T.Tensor((96, 64), "float32"),
            V: T.Tensor(SHAPE, "float32"), O: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        q = T.alloc_shared((64, 64), "float32")
        k = T.alloc_shared((32, 64), "float32")
        v = T.alloc_shared(TILE, "float32")
        s = T.alloc_fragment((64, 32), "float32")
        p = T.alloc_fragment((64, 32), "float32")
        o = T.alloc_fragment((64, 64), "float32")
        T.copy(Q, q)
        T.clear(o)
        for step in T.Pipelined(3, num_stages=2):
            T.copy(K[step * 32, 0], k)
            T.copy(V[PLACE], v)
            T.gemm(q, k, s, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(s, p)
            T.gemm(p, v, o, transpose_B=TURNED, policy=T.GemmWarpPolicy.FullRow)
        T.copy(o, O)
)";
  for (const bool turned : {false, true}) {
    const std::string kernel =
        absl::StrReplaceAll(text, {{"SHAPE", turned ? "(64, 96)" : "(96, 64)"},
                                   {"TILE", turned ? "(64, 32)" : "(32, 64)"},
                                   {"PLACE", turned ? "0, step * 32" : "step * 32, 0"},
                                   {"TURNED", turned ? "True" : "False"}});
    auto tiles = testing::Elaborated("k.py", kernel);
    ASSERT_TRUE(tiles.ok()) << tiles.status() << kernel;
    tiles->attrs["kiln.tf32"] = "true";
    for (const char* gpu : kGpus) {
      const auto instructions = testing::Instructions(*tiles, gpu);
      ASSERT_TRUE(instructions.ok()) << gpu << instructions.status();
      EXPECT_EQ(Difference(*tiles, *instructions), "") << gpu << ir::ToString(*instructions);
      if (gpu != std::string("sm_90a")) {
        EXPECT_FALSE(absl::StrContains(ir::ToString(*instructions), "p.staged")) << gpu;
      }
    }
  }
}

TEST(GpuTf32, RandomProducts) {
  std::mt19937_64 rng(5);
  const auto pick = [&](std::initializer_list<int> from) {
    return from.begin()[rng() % from.size()];
  };
  for (int i = 0; i < 30; ++i) {
    Case c;
    c.gpu = kGpus[rng() % 5];
    c.threads = pick({32, 128, 256});
    c.block_m = c.threads == 256 ? 128 : 64;
    c.block_n = pick({32, 64, 96});
    c.block_k = pick({8, 16, 32, 64});
    c.stages = pick({1, 2, 3});
    c.m = 4 * pick({5, 16, 33});
    c.n = 4 * pick({3, 16, 19});
    c.k = 4 * pick({2, 16, 25});
    c.trans_a = rng() % 2 == 0;
    c.trans_b = rng() % 2 == 0;
    c.registers = !c.trans_a && rng() % 3 == 0;
    ExpectComputes(c);
  }
}

TEST(GpuTf32, IsAskedFor) {
  for (const char* gpu : kGpus) {
    const ir::Program tiles = Tiles({.gpu = gpu}, /*tf32=*/false);
    const auto instructions = testing::Instructions(tiles, gpu);
    ASSERT_TRUE(instructions.ok()) << instructions.status();
    EXPECT_FALSE(Has(*instructions, ir::Instruction::kWgmma)) << gpu;
    EXPECT_FALSE(Has(*instructions, ir::Instruction::kMma)) << gpu;
    EXPECT_FALSE(Has(*instructions, ir::Instruction::kTcgen05Mma)) << gpu;
  }
}

// ---- what is rounded ----

enum class Way { kNearest, kCut };

// Eleven bits of mantissa, the first of which is not written.
double ToTf32(double x, Way way) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::ilogb(x);
  const double scaled = std::scalbn(x, 10 - exponent);
  return std::scalbn(way == Way::kNearest ? std::round(scaled) : std::trunc(scaled), exponent - 10);
}

// Numbers between those that tf32 has: halfway, beside that, at the end of a binade, and any.
double Odd(std::mt19937_64& rng, int64_t i) {
  const double base = 1 + static_cast<double>(rng() % 1024) / 1024;
  const double half = std::scalbn(1, -11), ulp = std::scalbn(1, -23);
  const double any = static_cast<double>(rng() % 8192) * ulp;
  const double part[] = {half, half - ulp, half + ulp, any};
  const double x = i % 7 == 6 ? 2 - ulp : base + part[i % 4];
  return std::scalbn(i % 3 == 0 ? -x : x, static_cast<int>(rng() % 9) - 4);
}

// C of A times the identity, or of the identity times B, as the instructions compute it: the other
// operand as they see it.
std::vector<double> Seen(const Case& c, bool left, std::vector<double>* given) {
  const ir::Program tiles = Tiles(c);
  const auto instructions = testing::Instructions(tiles, c.gpu);
  EXPECT_TRUE(instructions.ok()) << instructions.status();
  std::vector<interp::Tensor> tensors;
  std::vector<interp::TensorView> views;
  for (int p = 0; p < 3; ++p) {
    tensors.emplace_back(kFloat32, std::vector<int64_t>{64, 64});
    views.push_back(tensors.back().View());
  }
  std::mt19937_64 rng(3);
  for (int64_t i = 0; i < 64 * 64; ++i) {
    views[left ? 0 : 1].Set(i, Odd(rng, i));
    views[left ? 1 : 0].Set(i, i / 64 == i % 64 ? 1 : 0);
  }
  EXPECT_TRUE(interp::Run(*instructions, views, {}).ok());
  std::vector<double> seen;
  const bool turned = left ? c.trans_a : c.trans_b;
  for (int64_t row = 0; row < 64; ++row) {
    for (int64_t column = 0; column < 64; ++column) {
      given->push_back(views[left ? 0 : 1].Get(turned ? column * 64 + row : row * 64 + column));
      seen.push_back(views[2].Get(row * 64 + column));
    }
  }
  return seen;
}

void ExpectSees(const Case& c, bool left, Way way) {
  std::vector<double> given;
  const std::vector<double> seen = Seen(c, left, &given);
  int changed = 0, differ = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i], ToTf32(given[i], way))
        << c.gpu << (left ? " A" : " B") << i << " " << given[i] << Text(c);
    changed += seen[i] != given[i];
    differ += ToTf32(given[i], Way::kNearest) != ToTf32(given[i], Way::kCut);
  }
  EXPECT_GT(changed, 1000);
  EXPECT_GT(differ, 1000);
}

TEST(GpuTf32, WhatPassesRegistersIsRoundedToNearest) {
  for (const char* gpu : {"sm_80", "sm_90a"}) {
    for (const bool left : {false, true}) {
      for (const bool trans_b : {false, true}) {
        // What is turned or loaded, but not what wgmma reads where it lies.
        const bool hopper = gpu == std::string("sm_90a");
        const Way way = hopper && !left && trans_b ? Way::kCut : Way::kNearest;
        ExpectSees({.gpu = gpu, .trans_a = true, .trans_b = trans_b}, left, way);
        ExpectSees({.gpu = gpu, .trans_a = true, .trans_b = trans_b, .turn = true}, left, way);
        ExpectSees({.gpu = gpu, .trans_b = false}, left,
                   hopper && left ? Way::kCut : Way::kNearest);
      }
    }
  }
  ExpectSees({.gpu = "sm_80", .registers = true}, true, Way::kNearest);
}

// Seven versions of both tiles fill 224 of 227 KiB; a turned tile would take 16 more.
TEST(GpuTf32, MmaTakesWhatThereIsNoRoomToTurn) {
  Case c = {.trans_a = true,
            .trans_b = false,
            .m = 128,
            .n = 128,
            .block_m = 128,
            .block_n = 128,
            .turn = true};
  ExpectComputes(c);
  c.stages = 7;
  const ir::Program tiles = Tiles(c);
  const auto instructions = testing::Instructions(tiles, c.gpu, /*cores=*/4);
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  EXPECT_TRUE(Has(*instructions, ir::Instruction::kMma));
  EXPECT_FALSE(Has(*instructions, ir::Instruction::kWgmma));
  EXPECT_EQ(Difference(tiles, *instructions), "");
}

TEST(GpuTf32, WhatIsReadFromSharedMemoryIsCut) {
  ExpectSees({.gpu = "sm_100a"}, true, Way::kCut);
  ExpectSees({.gpu = "sm_100a"}, false, Way::kCut);
  ExpectSees({}, true, Way::kCut);
  ExpectSees({}, false, Way::kCut);
  ExpectSees({.registers = true}, true, Way::kCut);
  ExpectSees({.registers = true}, false, Way::kCut);
}

// The sums of many products: as far from the tiles' as operands that lose 2^-11, or 2^-10, of
// themselves make them.
TEST(GpuTf32, SumsAreAsNearAsTheirOperands) {
  for (const char* gpu : kGpus) {
    const Case c = {.gpu = gpu, .m = 128, .k = 256};
    const ir::Program tiles = Tiles(c);
    const auto instructions = testing::Instructions(tiles, gpu);
    ASSERT_TRUE(instructions.ok()) << instructions.status();
    auto exact = interp::RandomArguments(tiles, {}, 1),
         near = interp::RandomArguments(tiles, {}, 1);
    ASSERT_TRUE(exact.ok() && near.ok());
    const auto run = [](const ir::Program& program, std::vector<interp::Tensor>& tensors) {
      std::vector<interp::TensorView> views;
      for (interp::Tensor& t : tensors) views.push_back(t.View());
      return interp::Run(program, views, {}).status();
    };
    ASSERT_TRUE(run(tiles, *exact).ok());
    ASSERT_TRUE(run(*instructions, *near).ok());
    const double lost = c.OnWarpgroups() ? std::scalbn(1, -10) : std::scalbn(1, -11);
    double most = 0;
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        double bound = 1e-5;
        for (int64_t k = 0; k < c.k; ++k) {
          bound +=
              2.01 * lost *
              std::abs((*exact)[0].View().Get(i * c.k + k) * (*exact)[1].View().Get(j * c.k + k));
        }
        const double error =
            std::abs((*near)[2].View().Get(i * c.n + j) - (*exact)[2].View().Get(i * c.n + j));
        ASSERT_LE(error, bound) << gpu;
        most = std::max(most, error);
      }
    }
    EXPECT_GT(most, 1e-4) << gpu;  // it is not float32
  }
}

}  // namespace
}  // namespace kiln
