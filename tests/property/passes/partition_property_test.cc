// The law of the thread level: interpreter(tiles) == interpreter(threads), the latter with every
// thread on its own registers, races between threads and reads of unwritten registers detected.
// Inputs are small integers, so that every order of summation is exact.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/passes/infer_layouts.h"
#include "compiler/passes/pipeline.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/thread_level.h"

namespace kiln {
namespace {

constexpr int kKernels = 3000, kProducts = 60, kSimulated = 10000;
constexpr double kLeastKernels = 0.9, kLeastProducts = 0.6;  // that are accepted

// Whether a thread, or all owners of what the iteration writes, may run it.
bool HasPlace(const passes::LayoutProblem& problem, const passes::LayoutConflict& conflict) {
  const passes::Operation& op = problem.operations[conflict.operation];
  std::vector<layout::ThreadSet> candidates;
  for (int64_t t = 0; t < problem.threads.count; ++t) {
    candidates.push_back(layout::ThreadRange{problem.threads.first + t, 1}.Set());
  }
  for (const passes::FragmentUse& use : op.uses) {
    for (const auto& list : use.elements) {
      const int64_t x = list[conflict.iteration];
      const layout::Ownership& held = conflict.fragments[use.fragment];
      if (use.writes && x >= 0 && held.decided(x)) candidates.push_back(held.Owners(x));
    }
  }
  const auto allowed = [&](const layout::ThreadSet& runs) {
    for (const passes::FragmentUse& use : op.uses) {
      for (const auto& list : use.elements) {
        const int64_t x = list[conflict.iteration];
        const layout::Ownership& held = conflict.fragments[use.fragment];
        if (x < 0 || !held.decided(x)) continue;
        if (use.writes ? runs != held.Owners(x) : (runs & ~held.Owners(x)).any()) return false;
      }
    }
    return true;
  };
  return std::any_of(candidates.begin(), candidates.end(), allowed);
}

// Two iterations touch one element and one of them writes it.
bool Meets(const passes::Operation& op, int64_t a, int64_t b) {
  for (const passes::FragmentUse& one : op.uses) {
    for (const passes::FragmentUse& other : op.uses) {
      if (one.fragment != other.fragment || !(one.writes || other.writes)) continue;
      for (const auto& list : one.elements) {
        for (const auto& others : other.elements) {
          if (list[a] >= 0 && list[a] == others[b]) return true;
        }
      }
    }
  }
  return false;
}

// A fragment that every thread must hold is annotated otherwise.
bool IsAnnotatedOtherwise(const passes::LayoutProblem& problem) {
  const layout::ThreadSet all = problem.threads.Set();
  return std::any_of(problem.fragments.begin(), problem.fragments.end(), [&](const auto& f) {
    if (!f.floating || !f.annotated) return false;
    for (int64_t x = 0; x < f.size; ++x) {
      if (f.annotated->Owners(x) != all) return true;
    }
    return false;
  });
}

// Whether what a refusal is about is so, looked at without the solver.
bool Confirmed(const ir::Program& program, std::string* why) {
  testing::InferredLaunch launch;
  passes::LayoutConflict conflict;
  const absl::Status status =
      testing::InferLaunch(program, &launch, passes::LayoutCost::kTraffic, &conflict);
  const passes::LayoutProblem& problem = launch.problem;
  *why = std::string(status.message());
  if (status.code() != absl::StatusCode::kFailedPrecondition) return false;
  if (conflict.operation < 0) return IsAnnotatedOtherwise(problem);
  const passes::Operation& op = problem.operations[conflict.operation];
  if (conflict.other_iteration >= 0) {
    return Meets(op, conflict.iteration, conflict.other_iteration);
  }
  return op.kind == passes::OperationKind::kLoop && !HasPlace(problem, conflict);
}

TEST(PartitionLoops, ThreadsComputeWhatTilesDoAndRefusalsHold) {
  int accepted = 0;
  for (int seed = 0; seed < kKernels; ++seed) {
    const std::string text = testing::RandomFragmentKernel(seed);
    const auto program = testing::Elaborated("k.py", text);
    ASSERT_TRUE(program.ok()) << program.status() << "\n" << text;
    std::string why;
    const testing::Verdict verdict = testing::CheckThreads(*program, seed, 0, &why);
    ASSERT_NE(verdict, testing::Verdict::kWrong) << "seed " << seed << ": " << why << "\n" << text;
    if (verdict == testing::Verdict::kRefused) {
      ASSERT_TRUE(Confirmed(*program, &why)) << "seed " << seed << ": " << why << "\n" << text;
    }
    accepted += verdict == testing::Verdict::kSame;
  }
  RecordProperty("accepted", accepted);
  EXPECT_GE(accepted, kLeastKernels * kKernels);
}

TEST(PartitionLoops, EveryIterationRunsOnExactlyItsOwners) {
  int64_t loops = 0;
  for (int seed = 0; loops < kSimulated; ++seed) {
    const std::string text = testing::RandomFragmentKernel(seed);
    const auto program = testing::Elaborated("k.py", text);
    ASSERT_TRUE(program.ok()) << program.status();
    testing::InferredLaunch launch;
    if (!testing::InferLaunch(*program, &launch).ok()) continue;
    for (const layout::Ownership& loop : launch.solution.loops) {
      size_t tables = 0;
      ASSERT_EQ(testing::SimulateShare(loop, launch.problem.threads, &tables), "")
          << "seed " << seed << "\n"
          << text;
      ++loops;
    }
  }
}

class PartitionFor : public ::testing::TestWithParam<const char*> {
 protected:
  PartitionFor() { context_.gpu = &gpu_; }

  const target::Arch gpu_ = *target::NamedArch(GetParam());
  passes::PassContext context_;
};

TEST_P(PartitionFor, Products) {
  int accepted = 0;
  for (int seed = 0; seed < kProducts; ++seed) {
    const std::string text = testing::RandomProductKernel(seed);
    const auto program = testing::Elaborated("k.py", text);
    ASSERT_TRUE(program.ok()) << program.status() << "\n" << text;
    const auto threads = passes::RunPipeline(passes::ThreadPipeline(), *program, context_);
    // Tiles that the warps cannot share have no form yet.
    if (absl::IsUnimplemented(threads.status())) continue;
    std::string why;
    ASSERT_EQ(testing::CheckThreads(*program, seed, 0, &why, context_), testing::Verdict::kSame)
        << why << "\n"
        << text;
    ++accepted;
  }
  EXPECT_GE(accepted, kLeastProducts * kProducts);
}

TEST_P(PartitionFor, FlashAttention) {
  const auto program =
      testing::ElaboratedFile("tests/golden/lang/flash_attention.py", {{"batch", "1"},
                                                                       {"heads", "1"},
                                                                       {"seq_q", "128"},
                                                                       {"seq_kv", "128"},
                                                                       {"dim", "64"},
                                                                       {"is_causal", "True"}});
  ASSERT_TRUE(program.ok()) << program.status();
  std::string why;
  // Probabilities are rounded to 16 bits; sums of floats are taken in another order.
  EXPECT_EQ(testing::CheckThreads(*program, 1, 2e-2, &why, context_), testing::Verdict::kSame)
      << why;
}

INSTANTIATE_TEST_SUITE_P(Gpus, PartitionFor, ::testing::Values("sm_80", "sm_90a", "sm_100a"));

}  // namespace
}  // namespace kiln
