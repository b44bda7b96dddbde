// Whether the winner computes right numbers at a small shape that its tiles do not divide, for
// kernels whose sizes are compiled in: a second object, made while the finals are run, checked and
// not timed.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/core_impl.h"

namespace kiln::core {
namespace {

constexpr size_t kAhead = 3;  // of the finalists: who wins is most likely among them

// "M=208, N=176"
std::string ShapeText(const Sweep& sweep) {
  std::vector<std::string> sizes;
  for (const auto& [name, size] : sweep.row.inputs().ragged()) {
    sizes.push_back(absl::StrCat(name, "=", size));
  }
  std::sort(sizes.begin(), sizes.end());
  return absl::StrJoin(sizes, ", ");
}

}  // namespace

bool Core::Impl::ChecksRagged(const Sweep& sweep) const {
  return !sweep.row.inputs().ragged().empty() && !sweep.compares() &&
         sweep.row.spec().check().reference() != v1::CheckPolicy::NONE;
}

void Core::Impl::CompileRagged(Sweep* sweep, int ordinal) {
  Ragged& ragged = sweep->cands[ordinal].ragged;
  if (ragged.state != Ragged::State::kUnknown) return;
  ragged.state = Ragged::State::kCompiling;
  NewTask(sweep, v1::TASK_COMPILE_RAGGED, {ordinal}, 0);
}

void Core::Impl::CompileRaggedAhead(Sweep* sweep, std::vector<int> finalists) {
  if (!ChecksRagged(*sweep)) return;
  std::stable_sort(finalists.begin(), finalists.end(), [&](int a, int b) {
    return sweep->cands[a].median_ns() < sweep->cands[b].median_ns();
  });
  finalists.resize(std::min(finalists.size(), kAhead));
  for (int ordinal : finalists) CompileRagged(sweep, ordinal);
}

// True: all is known of the finalist that can be. Others whose objects are there are checked with
// it: they agree with each other, or some are wrong.
bool Core::Impl::ProveRagged(Sweep* sweep, int ordinal) {
  if (!ChecksRagged(*sweep)) return true;
  const Ragged::State state = sweep->cands[ordinal].ragged.state;
  if (state == Ragged::State::kUnknown) CompileRagged(sweep, ordinal);
  if (state != Ragged::State::kCompiled) return state == Ragged::State::kDone;
  std::vector<int> together = {ordinal};
  for (int other : sweep->finale->finalists) {
    const Cand& cand = sweep->cands[other];
    const bool ready = cand.ragged.state == Ragged::State::kCompiled;
    if (other != ordinal && ready && !cand.failed() && !cand.alone) together.push_back(other);
  }
  if (sweep->cands[ordinal].alone) together.resize(1);
  for (int each : together) sweep->cands[each].ragged.state = Ragged::State::kChecking;
  NewTask(sweep, v1::TASK_CHECK_RAGGED, together, 0);
  return false;
}

// The task ends, and its candidates are as `now` says.
void Core::Impl::DropRagged(Task* task, const Ragged& now) {
  for (int ordinal : task->row.ordinals()) task->sweep->cands[ordinal].ragged = now;
  MarkDirty(task->sweep);
  DropTask(task);
}

// Through no fault of theirs.
void Core::Impl::NoRagged(Task* task, const std::string& why) {
  Ragged none;
  none.state = Ragged::State::kDone;
  none.text = absl::StrCat("at no ragged shape: ", ShapeText(*task->sweep), ": ",
                           why.substr(0, why.find('\n')));
  DropRagged(task, none);
}

void Core::Impl::TakeRaggedResult(Task* task, v1::TaskResult& result) {
  Sweep* sweep = task->sweep;
  const bool compile = task->pool() == kCompilePool;
  for (v1::CandidateResult& r : *result.mutable_candidates()) {
    const auto found = sweep->by_config.find(r.config());
    if (found == sweep->by_config.end() || r.not_run()) continue;
    const int ordinal = found->second;
    if (std::count(task->row.ordinals().begin(), task->row.ordinals().end(), ordinal) == 0)
      continue;
    Ragged& ragged = sweep->cands[ordinal].ragged;
    if (compile && r.has_failure()) {
      return NoRagged(task, absl::StrCat("not taken: ", r.failure().message()));
    }
    if (r.has_failure()) {
      TakeRaggedFailure(task, ordinal, std::move(*r.mutable_failure()));
    } else if (compile) {
      ragged.artifact = r.artifact();
      ragged.state = Ragged::State::kCompiled;
      out_.pins.push_back({r.artifact().digest(), absl::StrCat("sweep:", sweep->digest())});
    } else {
      ragged.text = r.measurement().check_summary();
      ragged.state = Ragged::State::kDone;
    }
  }
  // What was not reached is asked for again, when it is wanted.
  for (int ordinal : task->row.ordinals()) {
    Ragged& ragged = sweep->cands[ordinal].ragged;
    if (ragged.state == Ragged::State::kChecking) ragged.state = Ragged::State::kCompiled;
  }
  DropTask(task);
}

// Who dies with a child gets a second one, as elsewhere.
void Core::Impl::TakeRaggedFailure(Task* task, int ordinal, v1::Failure failure) {
  Cand& cand = task->sweep->cands[ordinal];
  if (failure.killed_child()) {
    const std::string& key = cand.ragged.artifact.binary_digest();
    AddKill(key, failure, *task->sweep, cand);
    cand.alone = true;
    if (Kills(key) <= kKillsAllowed) return;
  }
  const std::string shape = ShapeText(*task->sweep);
  if (!absl::StrContains(failure.message(), shape)) {
    failure.set_message(absl::StrCat("at ", shape, ": ", failure.message()));
  }
  cand.ragged.state = Ragged::State::kDone;
  Fail(task->sweep, ordinal, std::move(failure));
}

}  // namespace kiln::core
