// Atomic updates as GPUs run them, against their tiles: neighbours together where there is an
// instruction for them, one by one elsewhere.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using testing::Difference;

constexpr const char* kGpus[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"};

// `body` adds to C, between tiles of A: `held` in registers, `tile` in shared memory. Rows go where
// I says.
absl::StatusOr<ir::Program> Updates(const std::string& type, int m, int n,
                                    const std::string& body) {
  const std::string text = R"(import tilelang.language as T


@T.prim_func
def updates(A: T.Tensor((M, N), "TYPE"), I: T.Tensor((M,), "int32"), C: T.Tensor((M, N), "TYPE")):
    with T.Kernel(T.ceildiv(M, 32), T.ceildiv(N, 64), threads=128) as (bx, by):
        tile = T.alloc_shared((32, 64), "TYPE")
        held = T.alloc_fragment((32, 64), "TYPE")
        T.copy(A[bx * 32, by * 64], tile)
        T.copy(tile, held)
)";
  return testing::Elaborated(
      "k.py", absl::StrReplaceAll(text + body, {{"TYPE", type},
                                                {"(M, N)", absl::StrCat("(", m, ", ", n, ")")},
                                                {"(M,", absl::StrCat("(", m, ",")},
                                                {"(N,", absl::StrCat("(", n, ",")}}));
}

constexpr char kTile[] = "        T.atomic_add(C[bx * 32, by * 64], tile)\n";
constexpr char kFragment[] = "        T.atomic_add(C[bx * 32, by * 64], held)\n";
constexpr char kRows[] = R"(        for i, j in T.Parallel(32, 64):
            T.atomic_add(C[I[bx * 32 + i], by * 64 + j], tile[i, j])
)";
constexpr char kTwo[] = R"(        for i, j in T.Parallel(32, 32):
            T.atomic_addx2(C[bx * 32 + i, by * 64 + j * 2], tile[i, j * 2])
)";
constexpr char kFour[] = R"(        for i, j in T.Parallel(32, 16):
            T.atomic_addx4(C[I[bx * 32 + i], by * 64 + j * 4], held[i, j * 4])
)";
constexpr char kOdd[] = R"(        for i, j in T.Parallel(32, 62):
            T.atomic_add(C[bx * 32 + i, by * 64 + j + 1], tile[i, j])
)";
constexpr char kScaled[] = R"(        for i, j in T.Parallel(32, 64):
            if i % 3 != 1:
                T.atomic_add(C[bx * 32 + i, by * 64 + j], tile[i, j] * 2)
)";
constexpr char kMost[] = R"(        for i, j in T.Parallel(32, 64):
            T.atomic_max(C[bx * 32 + i, by * 64 + j], tile[i, j])
)";

// How many numbers the widest addition takes; 0: none is an instruction of its own.
int64_t Widest(const ir::Program& program) {
  int64_t widest = 0;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    const auto* x = s.As<ir::Instruct>();
    if (x != nullptr && x->op == ir::Instruction::kGlobalAdd) {
      widest = std::max(widest, static_cast<int64_t>(x->args.size()));
    }
    return true;
  });
  return widest;
}

// `most`: of one instruction on sm_90a and sm_100a, and before.
void ExpectComputes(const std::string& type, int m, int n, const std::string& body,
                    std::pair<int64_t, int64_t> most) {
  const auto tiles = Updates(type, m, n, body);
  ASSERT_TRUE(tiles.ok()) << tiles.status() << body;
  for (const std::string gpu : kGpus) {
    const auto instructions = testing::Instructions(*tiles, gpu, /*cores=*/4);
    ASSERT_TRUE(instructions.ok()) << gpu << " " << type << instructions.status() << body;
    EXPECT_EQ(Difference(*tiles, *instructions), "")
        << gpu << " " << type << body << ir::ToString(*instructions);
    EXPECT_EQ(Widest(*instructions), gpu.substr(0, 4) == "sm_8" ? most.second : most.first)
        << gpu << " " << type << " " << n << body << ir::ToString(*instructions);
  }
}

TEST(GpuAtomics, NeighboursAreAddedTogether) {
  for (const char* body : {kTile, kFragment, kRows, kScaled}) {
    ExpectComputes("float32", 64, 128, body, {4, 0});
    ExpectComputes("float16", 64, 128, body, {8, 2});
    ExpectComputes("bfloat16", 64, 128, body, {8, 0});
  }
}

TEST(GpuAtomics, EdgesOfTheTensors) {
  for (const char* body : {kTile, kFragment, kRows, kScaled}) {
    ExpectComputes("float32", 50, 132, body, {4, 0});
    ExpectComputes("float32", 50, 134, body, {2, 0});
    ExpectComputes("float32", 50, 133, body, {0, 0});
    ExpectComputes("float16", 50, 132, body, {4, 2});
    ExpectComputes("float16", 50, 133, body, {1, 1});
    ExpectComputes("bfloat16", 50, 133, body, {1, 0});
  }
}

TEST(GpuAtomics, SomeAtATimeAsTheKernelSays) {
  for (const int n : {128, 132}) {
    ExpectComputes("float32", 50, n, kTwo, {2, 0});
    ExpectComputes("float16", 50, n, kTwo, {2, 2});
    ExpectComputes("bfloat16", 50, n, kTwo, {2, 0});
    ExpectComputes("float32", 50, n, kFour, {4, 0});
    ExpectComputes("float16", 50, n, kFour, {4, 2});
  }
  ExpectComputes("float32", 50, 133, kFour, {0, 0});
}

TEST(GpuAtomics, WhatIsNotAlignedOrNoAdditionStaysAsItIs) {
  ExpectComputes("float32", 64, 128, kOdd, {0, 0});
  ExpectComputes("float16", 64, 128, kOdd, {1, 1});
  for (const char* type : {"float32", "int32"}) ExpectComputes(type, 50, 132, kMost, {0, 0});
  ExpectComputes("int32", 50, 132, kTile, {0, 0});
  for (const char* type : {"float16", "int8"}) ExpectComputes(type, 64, 128, kMost, {0, 0});
}

// An instruction that begins at no multiple of its numbers, or that misses some, is noticed.
TEST(GpuAtomics, AWrongPlaceIsNoticed) {
  const auto tiles = Updates("float32", 64, 128, kTile);
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  const auto instructions = testing::Instructions(*tiles, "sm_90a");
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  for (const bool shorter : {false, true}) {
    ir::Program mistaken = *instructions;
    mistaken.body = ir::RewriteStmts(mistaken.body, [&](const ir::Stmt& s) -> ir::Stmt {
      const auto* x = s.As<ir::Instruct>();
      if (x == nullptr || x->op != ir::Instruction::kGlobalAdd) return {};
      std::vector<ir::Region> regions = x->regions;
      std::vector<ir::Expr> args = x->args;
      if (shorter) {
        args.pop_back();
      } else {
        regions[0].ranges[1].min = regions[0].ranges[1].min + ir::MakeInt(1);
      }
      return ir::MakeStmt<ir::Instruct>(s->loc, x->op, std::move(regions), std::move(args));
    });
    EXPECT_NE(Difference(*tiles, mistaken), "") << shorter;
  }
}

}  // namespace
}  // namespace kiln
