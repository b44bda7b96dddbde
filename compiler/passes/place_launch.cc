#include "compiler/passes/place_launch.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/stage_updates.h"

namespace kiln::passes {
namespace {

constexpr size_t kMaxCopies = 16;

// The fragment that the loop of a conflict only reads and that keeps its iteration from a place:
// whose elements there lie in different threads, or, where there is none, in others than those of
// what it writes. -1: none.
int FragmentToCopy(const LayoutProblem& problem, const LayoutConflict& conflict) {
  if (conflict.operation < 0 || conflict.iteration < 0 || conflict.other_iteration >= 0) return -1;
  const Operation& op = problem.operations[static_cast<size_t>(conflict.operation)];
  if (op.kind != OperationKind::kLoop || op.annotated) return -1;
  struct Reads {
    layout::ThreadSet together;
    bool any = false, writes = false;
  };
  std::map<int, Reads> reads;
  layout::ThreadSet writers = op.threads.Set();
  for (const FragmentUse& use : op.uses) {
    const auto f = static_cast<size_t>(use.fragment);
    Reads& found = reads[use.fragment];
    found.writes |= use.writes;
    if (f >= conflict.fragments.size()) continue;
    for (const std::vector<int64_t>& list : use.elements) {
      const int64_t element = list[static_cast<size_t>(conflict.iteration)];
      if (element < 0 || !conflict.fragments[f].decided(element)) continue;
      const layout::ThreadSet& owners = conflict.fragments[f].Owners(element);
      if ((owners & op.threads.Set()).none()) return -1;  // of another part of the block
      found.together = found.any ? found.together & owners : owners;
      found.any = true;
      if (use.writes) writers &= owners;
    }
  }
  int apart = -1;
  for (const auto& [f, found] : reads) {
    if (found.writes || !found.any) continue;
    if (found.together.none()) return f;
    if ((found.together & writers) != writers) apart = f;
  }
  return apart;
}

// The launch with a loop over all elements of fragment `f`, into a shared tile, before operation
// `o`, which reads that.
ir::Stmt WithCopy(const ir::Stmt& launch, const Operation& op, const Fragment& fragment) {
  const SourceLoc loc = op.loc;
  const ir::Buffer tile =
      ir::MakeBuffer(absl::StrCat(fragment.buffer->name, ".copy"), fragment.buffer->dtype,
                     fragment.buffer->shape, ir::Scope::kShared);
  std::vector<ir::Axis> axes;
  std::vector<ir::Expr> at;
  for (const ir::Expr& extent : tile->shape) {
    at.push_back(ir::MakeVar(absl::StrCat("i", axes.size()), extent.dtype()));
    axes.push_back({at.back(), ir::MakeInt(0, extent.dtype()), extent});
  }
  const ir::Stmt store = ir::MakeStmt<ir::Store>(loc, tile, at, ir::MakeLoad(fragment.buffer, at));
  const ir::Stmt around = ir::MakeStmt<ir::Seq>(
      loc, std::vector<ir::Stmt>{
               ir::MakeStmt<ir::Alloc>(loc, tile),
               ir::MakeStmt<ir::For>(loc, ir::ForKind::kParallel, std::move(axes), store),
               ir::Substitute(op.stmt, {}, {{fragment.buffer.get(), tile}})});
  return ir::RewriteStmts(
      launch, [&](const ir::Stmt& s) { return s.same_as(op.stmt) ? around : ir::Stmt(); });
}

// Loops that several threads run an iteration of, and that store to memory which all of them read.
absl::StatusOr<ir::Stmt> WithUpdatesStaged(const ir::Program& program, const ir::Stmt& launch,
                                           const LayoutProblem& problem,
                                           const LayoutSolution& solution) {
  std::map<const ir::StmtNode*, ir::Stmt> staged;
  for (size_t o = 0; o < problem.operations.size(); ++o) {
    const Operation& op = problem.operations[o];
    if (op.kind != OperationKind::kLoop || !RunsTwice(solution.loops[o])) continue;
    KILN_ASSIGN_OR_RETURN(const ir::Stmt loop, StageUpdates(program, op.stmt));
    if (!loop.same_as(op.stmt)) staged[op.stmt.get()] = loop;
  }
  if (staged.empty()) return launch;
  return ir::RewriteStmts(launch, [&](const ir::Stmt& s) {
    const auto found = staged.find(s.get());
    return found == staged.end() ? ir::Stmt() : found->second;
  });
}

}  // namespace

absl::StatusOr<PlacedLaunch> PlaceLaunch(const ir::Program& program, const ir::Stmt& launch,
                                         const target::Arch& gpu, LayoutCost cost) {
  PlacedLaunch placed;
  placed.launch = launch;
  absl::Status refusal = absl::OkStatus();
  while (true) {
    auto problem = CollectLayoutProblem(program, *placed.launch.As<ir::Launch>(), gpu);
    if (!problem.ok()) return refusal.ok() ? problem.status() : refusal;
    placed.problem = *std::move(problem);
    absl::StatusOr<LayoutSolution> solution = InferLayouts(program, placed.problem, cost);
    if (solution.ok()) {
      KILN_ASSIGN_OR_RETURN(const ir::Stmt staged,
                            WithUpdatesStaged(program, placed.launch, placed.problem, *solution));
      if (!staged.same_as(placed.launch)) {
        placed.launch = staged;
        continue;
      }
      placed.solution = *std::move(solution);
      return placed;
    }
    if (refusal.ok()) refusal = solution.status();
    LayoutConflict conflict;
    InferLayouts(program, placed.problem, cost, &conflict).status().IgnoreError();
    const int f = FragmentToCopy(placed.problem, conflict);
    if (f < 0 || placed.copies.size() == kMaxCopies) return refusal;
    const Operation& op = placed.problem.operations[static_cast<size_t>(conflict.operation)];
    const Fragment& fragment = placed.problem.fragments[static_cast<size_t>(f)];
    placed.copies.push_back(absl::StrCat("'", fragment.buffer->name,
                                         "' is copied to shared memory for ", op.name,
                                         ", which reads what no thread holds together"));
    placed.launch = WithCopy(placed.launch, op, fragment);
  }
}

}  // namespace kiln::passes
