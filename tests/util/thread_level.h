// Judging what becomes of a block when it is divided among its threads.
#ifndef KILN_TESTS_UTIL_THREAD_LEVEL_H_
#define KILN_TESTS_UTIL_THREAD_LEVEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/interp/interp.h"
#include "compiler/ir/stmt.h"
#include "compiler/passes/infer_layouts.h"

namespace kiln::testing {

// The first launch of a program, with its tiles lowered to loops and its layouts inferred.
struct InferredLaunch {
  ir::Program tiles;
  passes::LayoutProblem problem;
  passes::LayoutSolution solution;
};
// `out` holds what was reached when inference refuses.
absl::Status InferLaunch(const ir::Program& program, InferredLaunch* out,
                         passes::LayoutCost cost = passes::LayoutCost::kTraffic,
                         passes::LayoutConflict* conflict = nullptr,
                         const passes::PassContext& context = {});

// Tensors of a program's parameters, whose shapes are constants, filled with integers from -3 to 3
// that `seed` chooses: sums of their products are exact. `views`, when given, are theirs.
std::vector<interp::Tensor> SmallIntegers(const ir::Program& program, uint64_t seed,
                                          std::vector<interp::TensorView>* views = nullptr);

enum class Verdict { kSame, kRefused, kWrong };
// Whether the threads of `program` compute what its tiles do, in both orders of the threads and
// with no more meetings than plant-barriers leaves, on small integers that `seed` chooses. `why`
// says what is wrong, or the refusal.
Verdict CheckThreads(const ir::Program& program, uint64_t seed, double tolerance, std::string* why,
                     const passes::PassContext& context = {});

// The value of an integer expression over `variables` and constant tables.
int64_t ValueOf(const ir::Expr& e, const std::vector<ir::Expr>& variables,
                const std::vector<int64_t>& values);

// Runs every thread through its steps: empty when each runs exactly its iterations, in order, and
// one of the threads that run an iteration acts for it; else what is wrong. `tables`: how many
// tables of constants the share takes.
std::string SimulateShare(const layout::Ownership& loop, layout::ThreadRange threads,
                          size_t* tables);

}  // namespace kiln::testing

#endif  // KILN_TESTS_UTIL_THREAD_LEVEL_H_
