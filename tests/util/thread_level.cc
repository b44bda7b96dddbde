#include "tests/util/thread_level.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/verify.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/plant_barriers.h"
#include "compiler/passes/thread_maps.h"

namespace kiln::testing {

using ir::Expr;

absl::Status InferLaunch(const ir::Program& program, InferredLaunch* out, passes::LayoutCost cost,
                         passes::LayoutConflict* conflict, const passes::PassContext& context) {
  KILN_ASSIGN_OR_RETURN(
      out->tiles, passes::RunPipeline(passes::ThreadPipeline(), program, context, "lower-copies"));
  const ir::Launch* launch = nullptr;
  ir::Walk(out->tiles.body, [&](const ir::Stmt& s) {
    if (launch == nullptr) launch = s.As<ir::Launch>();
    return launch == nullptr;
  });
  KILN_CHECK(launch != nullptr);
  KILN_ASSIGN_OR_RETURN(out->problem,
                        passes::CollectLayoutProblem(out->tiles, *launch, passes::GpuOf(context)));
  KILN_ASSIGN_OR_RETURN(out->solution,
                        passes::InferLayouts(out->tiles, out->problem, cost, conflict));
  return absl::OkStatus();
}

std::vector<interp::Tensor> SmallIntegers(const ir::Program& program, uint64_t seed,
                                          std::vector<interp::TensorView>* views) {
  std::mt19937_64 rng(seed);
  std::vector<interp::Tensor> tensors;
  std::vector<interp::TensorView> filled;
  for (const ir::Param& p : program.params) {
    if (p.kind != ir::Param::kTensor) continue;
    std::vector<int64_t> shape;
    for (const ir::Expr& e : p.buffer->shape) shape.push_back(*ir::ConstInt(e));
    tensors.emplace_back(p.buffer->dtype, shape);
    filled.push_back(tensors.back().View());
    for (int64_t i = 0; i < filled.back().elements(); ++i) {
      filled.back().Set(i, static_cast<double>(rng() % 7) - 3);
    }
  }
  if (views != nullptr) *views = std::move(filled);
  return tensors;
}

namespace {

// All tensors after a run.
absl::StatusOr<std::vector<interp::Tensor>> Interpret(const ir::Program& program, uint64_t seed,
                                                      bool lowered, interp::Order order,
                                                      bool meet_at_barriers = false) {
  std::vector<interp::TensorView> views;
  std::vector<interp::Tensor> tensors = SmallIntegers(program, seed, &views);
  interp::Options options;
  options.clip_global = !lowered;
  options.order = order;
  options.meet_at_barriers = meet_at_barriers;
  KILN_RETURN_IF_ERROR(interp::Run(program, views, options).status());
  return tensors;
}

}  // namespace

Verdict CheckThreads(const ir::Program& program, uint64_t seed, double tolerance, std::string* why,
                     const passes::PassContext& context) {
  const auto threads = passes::RunPipeline(passes::ThreadPipeline(), program, context);
  if (!threads.ok()) {
    *why = std::string(threads.status().message());
    return threads.status().code() == absl::StatusCode::kFailedPrecondition ? Verdict::kRefused
                                                                            : Verdict::kWrong;
  }
  const absl::Status verified = ir::Verify(*threads);
  const auto before = Interpret(program, seed, false, interp::Order::kForward);
  if (!verified.ok() || !before.ok()) {
    *why = absl::StrCat(verified.message(), before.status().message());
    return Verdict::kWrong;
  }
  const auto planted = passes::PlantBarriers(*threads, context);
  KILN_CHECK(planted.ok());
  const auto odd = seed % 2 == 0 ? interp::Order::kForward : interp::Order::kReverse;
  struct Run {
    const ir::Program* program;
    interp::Order order;
    bool meet_at_barriers;
  };
  for (const Run& run :
       {Run{&*threads, interp::Order::kForward, false},
        Run{&*threads, interp::Order::kReverse, false}, Run{&*planted, odd, true}}) {
    const auto after = Interpret(*run.program, seed, true, run.order, run.meet_at_barriers);
    if (!after.ok()) {
      *why = absl::StrCat(after.status().message(), "\n", ir::ToString(*run.program));
      return Verdict::kWrong;
    }
    for (size_t p = 0; p < after->size(); ++p) {
      const interp::Comparison c =
          interp::Compare((*after)[p].View(), (*before)[p].View(), {tolerance, tolerance});
      if (c.ok()) continue;
      *why = absl::StrCat("parameter ", p, ": ", c.ToString((*before)[p].shape()), "\n",
                          ir::ToString(*threads));
      return Verdict::kWrong;
    }
  }
  return Verdict::kSame;
}

int64_t ValueOf(const Expr& e, const std::vector<Expr>& variables,
                const std::vector<int64_t>& values) {
  const ir::Stmt looked_up =
      ir::RewriteExprs(ir::MakeStmt<ir::Evaluate>(SourceLoc{}, e), [&](const Expr& x) -> Expr {
        const auto* load = x.As<ir::Load>();
        if (load == nullptr) return {};
        int64_t flat = 0;
        for (size_t d = 0; d < load->indices.size(); ++d) {
          flat = flat * *ir::ConstInt(load->buffer->shape[d]) +
                 ValueOf(load->indices[d], variables, values);
        }
        return ir::MakeInt((*load->buffer->values)[flat]);
      });
  const auto function = ir::IntFunction::Of(looked_up.As<ir::Evaluate>()->value, variables);
  KILN_CHECK(function.ok());
  return *(*function)(values);
}

std::string SimulateShare(const layout::Ownership& loop, layout::ThreadRange threads,
                          size_t* tables) {
  passes::ConstantTables constants;
  const passes::ThreadShare share = passes::ShareOf(loop, threads, &constants);
  *tables = constants.Allocations().size();
  const Expr thread = ir::MakeVar("t"), step = ir::MakeVar("s"), i = ir::MakeVar("i");
  const std::vector<Expr> variables = {thread, step, i};
  const Expr iteration = share.iteration(thread, step), exists = share.exists(thread, step, i),
             acts = share.acts(thread, step);
  const auto holds = [&](const Expr& condition, const std::vector<int64_t>& values) {
    return !condition.defined() || ValueOf(condition, variables, values) != 0;
  };
  std::vector<int> acting(loop.size(), 0);
  for (int64_t t = threads.first; t < threads.first + threads.count; ++t) {
    std::vector<int64_t> runs, owned;
    for (int64_t s = 0; s < share.steps; ++s) {
      const int64_t at = ValueOf(iteration, variables, {t, s, 0});
      if (!holds(exists, {t, s, at})) continue;
      runs.push_back(at);
      if (at >= 0 && at < loop.size()) acting[at] += holds(acts, {t, s, at});
    }
    for (int64_t x = 0; x < loop.size(); ++x) {
      if (loop.Owners(x)[t]) owned.push_back(x);
    }
    if (runs == owned) continue;
    return absl::StrCat("thread ", t, " runs ", absl::StrJoin(runs, " "), ", not ",
                        absl::StrJoin(owned, " "));
  }
  for (int64_t x = 0; x < loop.size(); ++x) {
    if (acting[x] != 1) return absl::StrCat(acting[x], " threads act for iteration ", x);
  }
  return "";
}

}  // namespace kiln::testing
