// Barriers between the threads of a block: CheckThreads shows that none is missing; here, that none
// of those in the shipped templates and in loops over shared tiles could go.
#include "compiler/passes/plant_barriers.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/pipeline.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/thread_level.h"

namespace kiln {
namespace {

bool IsBarrier(const ir::Stmt& s) {
  const auto* x = s.As<ir::Instruct>();
  return x != nullptr && x->op == ir::Instruction::kBlockBarrier;
}

int CountBarriers(const ir::Program& program) {
  int count = 0;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    count += IsBarrier(s) ? 1 : 0;
    return true;
  });
  return count;
}

// The program without its barrier number `index`.
ir::Program Without(const ir::Program& program, int index) {
  ir::Program out = program;
  int seen = 0;
  out.body = ir::RewriteStmts(program.body, [&](const ir::Stmt& s) -> ir::Stmt {
    if (!IsBarrier(s) || seen++ != index) return {};
    return ir::MakeStmt<ir::Seq>(s->loc, std::vector<ir::Stmt>());
  });
  return out;
}

absl::Status RunThreads(const ir::Program& program) {
  std::vector<interp::TensorView> views;
  std::vector<interp::Tensor> tensors = testing::SmallIntegers(program, 1, &views);
  interp::Options options;
  options.meet_at_barriers = true;
  return interp::Run(program, views, options).status();
}

void ExpectEachIsNeeded(const ir::Program& program, int least) {
  const auto threads = passes::RunPipeline(passes::ThreadPipeline(), program, {});
  ASSERT_TRUE(threads.ok()) << threads.status();
  const auto planted = passes::PlantBarriers(*threads, {});
  ASSERT_TRUE(planted.ok()) << planted.status();
  EXPECT_TRUE(RunThreads(*planted).ok()) << RunThreads(*planted);
  const int count = CountBarriers(*planted);
  EXPECT_GE(count, least) << ir::ToString(*planted);
  for (int i = 0; i < count; ++i) {
    const absl::Status status = RunThreads(Without(*planted, i));
    EXPECT_TRUE(absl::StrContains(status.message(), "threads without a barrier"))
        << "barrier " << i << " is for nothing: " << status << "\n"
        << ir::ToString(*planted);
  }
}

void ExpectEachIsNeededIn(const std::string& name, const lang::Arguments& arguments, int least) {
  const auto program =
      testing::ElaboratedFile(absl::StrCat("compiler/templates/", name, ".py"), arguments);
  ASSERT_TRUE(program.ok()) << program.status();
  ExpectEachIsNeeded(*program, least);
}

TEST(PlantBarriers, NoneIsRedundantInTheTemplates) {
  ExpectEachIsNeededIn("softmax", {{"M", "2"}, {"N", "256"}}, 2);
  ExpectEachIsNeededIn("rmsnorm", {{"M", "2"}, {"N", "256"}}, 1);
  ExpectEachIsNeededIn("reduction", {{"M", "4"}, {"N", "512"}, {"block_N", "128"}}, 2);
  ExpectEachIsNeededIn("gemv", {{"N", "8"}, {"K", "512"}, {"block_K", "128"}}, 2);
  ExpectEachIsNeededIn("matmul",
                       {{"M", "32"},
                        {"N", "32"},
                        {"K", "64"},
                        {"block_M", "32"},
                        {"block_N", "32"},
                        {"block_K", "32"},
                        {"threads", "64"}},
                       2);
  ExpectEachIsNeededIn("elementwise", {{"M", "2"}, {"N", "256"}, {"block_N", "256"}}, 0);
}

// What one part of the block leaves behind for another is awaited by both, not inside of the
// second.
TEST(PlantBarriers, PartsOfTheBlockMeetBetweenThem) {
  const auto program = testing::Elaborated("k.py", testing::KernelAround(256, 128, "(128,)", R"(
s = T.alloc_shared((128,), T.float32)
for r in T.serial(2):
    with T.ws(0):
        for i in T.Parallel(128):
            s[i] = A[i] + r
    with T.ws(1):
        for i in T.Parallel(128):
            B[i] = s[127 - i])"));
  ASSERT_TRUE(program.ok()) << program.status();
  const auto threads = passes::RunPipeline(passes::ThreadPipeline(), *program, {});
  ASSERT_TRUE(threads.ok()) << threads.status();
  const auto planted = passes::PlantBarriers(*threads, {});
  ASSERT_TRUE(planted.ok()) << planted.status();
  int in_parts = 0;
  ir::Walk(planted->body, [&](const ir::Stmt& s) {
    const auto* part = s.As<ir::OnThreads>();
    if (part == nullptr) return true;
    ir::Walk(part->body, [&](const ir::Stmt& inner) {
      in_parts += IsBarrier(inner) ? 1 : 0;
      return true;
    });
    return true;
  });
  EXPECT_EQ(in_parts, 0) << ir::ToString(*planted);
  EXPECT_EQ(CountBarriers(*planted), 2) << ir::ToString(*planted);
  ExpectEachIsNeeded(*program, 2);
}

TEST(PlantBarriers, BoundsOfLoopsAreAwaited) {
  const auto program = testing::Elaborated("k.py", testing::KernelAround(64, 64, "(64,)", R"(
s = T.alloc_shared((64,), T.int32)
f = T.alloc_fragment((64,), T.float32)
T.clear(f)
for i in T.Parallel(64):
    s[63 - i] = T.cast(T.max(A[i], 0.0), T.int32)
for r in T.serial(s[5]):
    for i in T.Parallel(64):
        f[i] = f[i] + 1.0
for i in T.Parallel(64):
    s[i] = 0
T.copy(f, B))"));
  ASSERT_TRUE(program.ok()) << program.status();
  std::string why;
  EXPECT_EQ(testing::CheckThreads(*program, 3, 0, &why), testing::Verdict::kSame) << why;
  ExpectEachIsNeeded(*program, 2);
}

TEST(PlantBarriers, ConditionsThatReadSharedMemoryAreAwaited) {
  const auto program = testing::Elaborated("k.py", testing::KernelAround(64, 64, "(64,)", R"(
s = T.alloc_shared((64,), T.float32)
f = T.alloc_fragment((64,), T.float32)
T.copy(A, f)
for i in T.Parallel(64):
    s[i] = f[63 - i]
for k in T.serial(3):
    if s[k] > 0.0:
        for i in T.Parallel(64):
            s[i] = s[i] + 1.0
for i in T.Parallel(64):
    B[i] = s[63 - i])"));
  ASSERT_TRUE(program.ok()) << program.status();
  std::string why;
  EXPECT_EQ(testing::CheckThreads(*program, 3, 0, &why), testing::Verdict::kSame) << why;
  ExpectEachIsNeeded(*program, 2);
}

// A level that is looked at four times, with all inside of it, would take longer than the sun
// lasts.
TEST(PlantBarriers, DeepNestsTakeNoLongerThanTheyAreLong) {
  std::string body = "s = T.alloc_shared((64,), T.float32)\n", indent;
  for (int k = 0; k < 60; ++k) {
    absl::StrAppend(&body, indent,
                    k % 3 == 2 ? "if A[0] > " : absl::StrCat("for i", k, " in range("),
                    k % 3 == 2 ? "0.0:\n" : "2):\n");
    indent += " ";
  }
  absl::StrAppend(&body, indent, "for i in T.Parallel(64):\n", indent, " s[i] = A[i]\n", indent,
                  "for i in T.Parallel(64):\n", indent, " B[i] = s[63 - i]");
  const auto program = testing::Elaborated("k.py", testing::KernelAround(64, 64, "(64,)", body));
  ASSERT_TRUE(program.ok()) << program.status();
  const auto threads = passes::RunPipeline(passes::ThreadPipeline(), *program, {});
  ASSERT_TRUE(threads.ok()) << threads.status();
  const auto planted = passes::PlantBarriers(*threads, {});
  ASSERT_TRUE(planted.ok()) << planted.status();
  EXPECT_EQ(CountBarriers(*planted), 2) << ir::ToString(*planted);
}

TEST(PlantBarriers, WhatTheBlockStoresInTurnOneThreadStoresWithoutAny) {
  const auto program = testing::Elaborated("k.py", testing::KernelAround(64, 64, "(64,)", R"(
s = T.alloc_shared((4,), T.float32)
s[0] = A[5]
s[1] = s[0] + 1.0
B[0] = s[1]
B[1] = B[0] + s[0]
for i in T.Parallel(4):
    B[i + 2] = s[i % 2])"));
  ASSERT_TRUE(program.ok()) << program.status();
  std::string why;
  EXPECT_EQ(testing::CheckThreads(*program, 3, 0, &why), testing::Verdict::kSame) << why;
  const auto threads = passes::RunPipeline(passes::ThreadPipeline(), *program, {});
  ASSERT_TRUE(threads.ok()) << threads.status();
  const auto planted = passes::PlantBarriers(*threads, {});
  ASSERT_TRUE(planted.ok()) << planted.status();
  EXPECT_LE(CountBarriers(*planted), 2) << ir::ToString(*planted);
}

}  // namespace
}  // namespace kiln
