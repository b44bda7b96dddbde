// What the winner's numbers must prove beyond those of the timed shape, each by an object that is
// made while the finals are run, checked and not timed:
//
//   ragged  right at a small shape that its tiles do not divide, where sizes are compiled in
//   plain   the same in every element as its own program in plain code, where nothing else has
//           looked at all elements (Measurement.whole_output)
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
constexpr v1::TaskKind kCompileKinds[] = {v1::TASK_COMPILE_RAGGED, v1::TASK_COMPILE_PLAIN};
constexpr v1::TaskKind kCheckKinds[] = {v1::TASK_CHECK_RAGGED, v1::TASK_CHECK_PLAIN};

// "M=208, N=176"
std::string ShapeText(const Sweep& sweep) {
  std::vector<std::string> sizes;
  for (const auto& [name, size] : sweep.row.inputs().ragged()) {
    sizes.push_back(absl::StrCat(name, "=", size));
  }
  std::sort(sizes.begin(), sizes.end());
  return absl::StrJoin(sizes, ", ");
}

bool LooksAtAll(const Cand& cand) {
  const auto& measurements = cand.row.candidate().measurements();
  return !measurements.empty() && measurements.rbegin()->whole_output();
}

}  // namespace

bool Core::Impl::WantsProof(const Sweep& sweep, int ordinal, ProofKind kind) const {
  if (sweep.compares() || sweep.row.spec().check().reference() == v1::CheckPolicy::NONE) {
    return false;
  }
  const v1::SweepInputs& inputs = sweep.row.inputs();
  return kind == kRaggedProof ? !inputs.ragged().empty()
                              : inputs.plain() && !LooksAtAll(sweep.cands[ordinal]);
}

void Core::Impl::CompileForProof(Sweep* sweep, int ordinal, ProofKind kind) {
  Proof& proof = sweep->cands[ordinal].proofs[kind];
  if (proof.state != Proof::State::kUnknown) return;
  proof.state = Proof::State::kCompiling;
  NewTask(sweep, kCompileKinds[kind], {ordinal}, 0);
}

void Core::Impl::CompileForProofsAhead(Sweep* sweep, std::vector<int> finalists) {
  std::stable_sort(finalists.begin(), finalists.end(), [&](int a, int b) {
    return sweep->cands[a].median_ns() < sweep->cands[b].median_ns();
  });
  finalists.resize(std::min(finalists.size(), kAhead));
  for (int ordinal : finalists) {
    for (const ProofKind kind : {kRaggedProof, kPlainProof}) {
      if (WantsProof(*sweep, ordinal, kind)) CompileForProof(sweep, ordinal, kind);
    }
  }
}

// True: all is known of the finalist that can be. Both proofs are under way at once.
bool Core::Impl::Prove(Sweep* sweep, int ordinal) {
  const bool ragged = ProveOne(sweep, ordinal, kRaggedProof);
  const bool plain = ProveOne(sweep, ordinal, kPlainProof);
  return ragged && plain;
}

// Others whose ragged objects are there are checked with it: they agree with each other, or some
// are wrong.
bool Core::Impl::ProveOne(Sweep* sweep, int ordinal, ProofKind kind) {
  if (!WantsProof(*sweep, ordinal, kind)) return true;
  const Proof::State state = sweep->cands[ordinal].proofs[kind].state;
  if (state == Proof::State::kUnknown) CompileForProof(sweep, ordinal, kind);
  if (state != Proof::State::kCompiled) return state == Proof::State::kDone;
  std::vector<int> together = {ordinal};
  for (int other : sweep->finale->finalists) {
    const Cand& cand = sweep->cands[other];
    const bool ready = cand.proofs[kind].state == Proof::State::kCompiled;
    if (other != ordinal && ready && !cand.failed() && !cand.alone) together.push_back(other);
  }
  if (sweep->cands[ordinal].alone || kind == kPlainProof) together.resize(1);
  for (int each : together) sweep->cands[each].proofs[kind].state = Proof::State::kChecking;
  NewTask(sweep, kCheckKinds[kind], together, 0);
  return false;
}

// The task ends, and its candidates are as `now` says.
void Core::Impl::DropProof(Task* task, const Proof& now) {
  const ProofKind kind = ProofOf(task->row.kind());
  for (int ordinal : task->row.ordinals()) task->sweep->cands[ordinal].proofs[kind] = now;
  MarkDirty(task->sweep);
  DropTask(task);
}

// Through no fault of theirs.
void Core::Impl::NoProofFor(Task* task, const std::string& why) {
  Proof none;
  none.state = Proof::State::kDone;
  const std::string reason = why.substr(0, why.find('\n'));
  none.text = ProofOf(task->row.kind()) == kRaggedProof
                  ? absl::StrCat("at no ragged shape: ", ShapeText(*task->sweep), ": ", reason)
                  : absl::StrCat("not held against its plain code: ", reason);
  DropProof(task, none);
}

void Core::Impl::TakeProofResult(Task* task, v1::TaskResult& result) {
  Sweep* sweep = task->sweep;
  const ProofKind kind = ProofOf(task->row.kind());
  const bool compile = task->pool() == kCompilePool;
  for (v1::CandidateResult& r : *result.mutable_candidates()) {
    const auto found = sweep->by_config.find(r.config());
    if (found == sweep->by_config.end() || r.not_run()) continue;
    const int ordinal = found->second;
    if (std::count(task->row.ordinals().begin(), task->row.ordinals().end(), ordinal) == 0)
      continue;
    if (sweep->cands[ordinal].failed()) continue;  // in the other proof
    Proof& proof = sweep->cands[ordinal].proofs[kind];
    if (compile && r.has_failure()) {
      return NoProofFor(task, absl::StrCat("not taken: ", r.failure().message()));
    }
    if (compile && r.artifact().digest().empty()) {
      return NoProofFor(task, "the worker sent neither artifact nor failure");
    }
    // It had been run often enough; what took the child down, or the device, was the plain code.
    if (kind == kPlainProof && r.has_failure() &&
        (r.failure().killed_child() || r.failure().stage() != v1::Failure::CHECK)) {
      return NoProofFor(task, r.failure().message());
    }
    if (r.has_failure()) {
      TakeProofFailure(task, ordinal, std::move(*r.mutable_failure()));
    } else if (compile) {
      proof.artifact = r.artifact();
      proof.state = Proof::State::kCompiled;
      out_.pins.push_back({r.artifact().digest(), absl::StrCat("sweep:", sweep->digest())});
    } else {
      proof.text = r.measurement().check_summary();
      proof.state = Proof::State::kDone;
    }
  }
  // What was not reached is asked for again, when it is wanted.
  for (int ordinal : task->row.ordinals()) {
    Proof& proof = sweep->cands[ordinal].proofs[kind];
    if (proof.state == Proof::State::kChecking) proof.state = Proof::State::kCompiled;
  }
  DropTask(task);
}

// Who dies with a child gets a second one, as elsewhere.
void Core::Impl::TakeProofFailure(Task* task, int ordinal, v1::Failure failure) {
  Cand& cand = task->sweep->cands[ordinal];
  Proof& proof = cand.proofs[ProofOf(task->row.kind())];
  if (failure.killed_child()) {
    const std::string& key = proof.artifact.binary_digest();
    AddKill(key, failure, *task->sweep, cand);
    cand.alone = true;
    if (Kills(key) <= kKillsAllowed) return;
  }
  if (ProofOf(task->row.kind()) == kRaggedProof) {
    const std::string shape = ShapeText(*task->sweep);
    if (!absl::StrContains(failure.message(), shape)) {
      failure.set_message(absl::StrCat("at ", shape, ": ", failure.message()));
    }
  }
  proof.state = Proof::State::kDone;
  Fail(task->sweep, ordinal, std::move(failure));
}

}  // namespace kiln::core
