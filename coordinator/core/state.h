// What the core holds in memory. Internal to this folder. Everything here can be rebuilt from rows
// of the store, except what workers say again when they attach.
#ifndef KILN_COORDINATOR_CORE_STATE_H_
#define KILN_COORDINATOR_CORE_STATE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "coordinator/core/account.h"
#include "coordinator/core/events.h"
#include "coordinator/core/range.h"
#include "coordinator/search/searcher.h"
#include "kiln/v1/store.pb.h"
#include "kiln/v1/tuning.pb.h"
#include "kiln/v1/work.pb.h"

namespace kiln::core {

// Kinds of slots. A worker leases each within its own bound.
enum Pool { kCompilePool = 0, kProfilePool = 1, kEmptyPool = 2, kPools = 3 };

inline Pool PoolOf(v1::TaskKind kind) {
  if (kind == v1::TASK_COMPILE || kind == v1::TASK_COMPILE_RAGGED ||
      kind == v1::TASK_COMPILE_PLAIN) {
    return kCompilePool;
  }
  return kind == v1::TASK_EMPTY ? kEmptyPool : kProfilePool;
}

// What a winner's numbers must prove beside those of the timed shape (proofs.cc).
enum ProofKind { kRaggedProof = 0, kPlainProof = 1, kProofKinds = 2, kNoProof = kProofKinds };

inline ProofKind ProofOf(v1::TaskKind kind) {
  if (kind == v1::TASK_COMPILE_RAGGED || kind == v1::TASK_CHECK_RAGGED) return kRaggedProof;
  if (kind == v1::TASK_COMPILE_PLAIN || kind == v1::TASK_CHECK_PLAIN) return kPlainProof;
  return kNoProof;
}

// Of finalists beside what else they do: their candidates stay in the state that they are in.
inline bool IsProof(v1::TaskKind kind) { return ProofOf(kind) != kNoProof; }

struct Sweep;
struct Worker;
using Lanes = std::map<std::string, Lane>;  // by device, "<worker>/<device>"

struct Task {
  enum class State {
    kReady,  // in its sweep's ready queue
    kLeased,
    kBackoff,  // released by a worker; ready at `not_before`
    kHeld,     // found in the store at the start; a worker may still come back with it
  };
  v1::TaskRow row;
  Sweep* sweep = nullptr;
  State state = State::kReady;
  uint64_t epoch = 0;        // of the last lease in this incarnation; 0 = none
  Worker* worker = nullptr;  // kLeased
  int64_t deadline_ns = 0;   // kLeased
  int64_t hard_deadline_ns = 0;
  int64_t leased_ns = 0;
  int64_t ready_ns = 0;
  int64_t not_before_ns = 0;
  bool row_stored_before = false;  // by an earlier incarnation, which may have leased it
  bool suspect = false;            // on its last chance: runs on a worker that does nothing else

  Pool pool() const { return PoolOf(row.kind()); }
};

// What is known of one proof of a finalist. Found out anew after a restart.
struct Proof {
  enum class State { kUnknown, kCompiling, kCompiled, kChecking, kDone };
  State state = State::kUnknown;
  v1::Artifact artifact;
  std::string text;  // kDone: the proof, or why there is none
};

struct Cand {
  v1::CandidateRow row;
  Task* task = nullptr;  // the open task that covers it
  bool alone = false;    // took a child with it once: shares no task any more
  bool suspect = false;  // of a task whose workers died: gets one chance, on a worker of its own
  std::array<Proof, kProofKinds> proofs;

  const std::string& config() const { return row.candidate().config(); }
  v1::CandidateState state() const { return row.candidate().state(); }
  bool failed() const { return state() == v1::CANDIDATE_FAILED; }
  bool compiled() const { return row.candidate().has_artifact(); }
  bool twin() const { return !row.candidate().same_binary_as().empty(); }
  bool measured() const { return row.screened_round() > 0; }
  double median_ns() const {
    const auto& measurements = row.candidate().measurements();
    return measurements.empty() ? 0 : measurements.rbegin()->median_ns();
  }
  std::string last_device() const {  // "<worker>/<device>"; empty: none has measured it
    const auto& measurements = row.candidate().measurements();
    return measurements.empty() ? "" : measurements.rbegin()->device();
  }
  int samples() const {  // behind it
    const auto& measurements = row.candidate().measurements();
    return measurements.empty() ? 0 : measurements.rbegin()->samples_ns_size();
  }
};

// Finals that have been run, until their winner is stored.
struct Finale {
  std::vector<int> finalists;
  std::map<int, v1::Measurement> fresh;  // by ordinal: on samples that the verdict does not see
  v1::ArchRecord arch;                   // as the worker says it
};

struct Sweep {
  v1::SweepRow row;
  v1::SweepStatusRow status;
  std::vector<Cand> cands;  // by ordinal
  std::unique_ptr<search::Searcher> searcher;
  std::unordered_map<std::string, int> by_config;
  std::unordered_map<std::string, int>
      by_binary;  // binary digest -> the candidate that is measured
  std::unordered_map<std::string, v1::CompileIndexRow> index;  // what the store knew at the start

  std::array<std::deque<std::string>, kPools> ready;  // task ids; may hold ids that are gone
  std::array<int, kPools> ready_count{};
  std::array<std::deque<std::string>, kPools> suspects;  // ready too, but each wants a worker alone
  std::array<int, kPools> suspect_count{};
  std::array<int, kPools> running{};
  std::array<int, kPools> open{};  // tasks in any state
  std::unordered_set<std::string> tasks;

  std::set<int> queued;     // to compile, in no task yet
  std::set<int> to_screen;  // compiled, in no task yet
  int proposals = 0;

  std::set<WatchId> watchers;
  std::set<int> to_store;    // candidates to write in this turn
  std::set<int> to_publish;  // candidates to tell watchers of in this turn
  std::optional<Finale> finale;
  std::optional<v1::Winner> winner;
  std::vector<std::string> superseded;  // winners of the problem that go when this one comes
  bool status_dirty = false;            // to write in this turn
  bool publish = false;
  bool dirty = false;  // to advance in this turn
  // Why workers gave back what they were to do for it, since one last did some of that.
  std::array<std::string, kPools> kept_waiting;
  bool waits_for_peer = false;  // a candidate waits for another sweep's compilation

  // Of a range, in this incarnation: the sizes that it has asked for and not heard of yet, and the
  // sweeps that run for them.
  std::set<int64_t> asked;
  std::map<std::string, int64_t> at_size;
  Tools tools;                    // that made its artifact
  std::map<int64_t, int> proofs;  // at which it seemed to be slower, by size
  int mends = 0;                  // of its steps

  std::array<int, v1::CandidateState_ARRAYSIZE> counts{};
  double best_ns = 0;
  std::string best_config;

  int64_t started_ns = 0;     // in this incarnation
  int64_t ended_ns = 0;       // 0 = it runs
  int64_t base_ns = 0;        // running time of earlier incarnations
  int64_t idle_since_ns = 0;  // 0 while something is leased
  int64_t build_missing_ns = 0;
  std::array<int64_t, kPools> last_lease_ns{};

  // Where its time goes; not of empty tasks.
  Timeline timeline;
  Lanes lanes;
  bool has_compiled = false;  // some candidate is, or was

  const std::string& digest() const { return row.digest(); }
  const std::string& user() const { return row.spec().user(); }
  bool compile_only() const { return row.spec().objective() == v1::SweepSpec::COMPILE; }
  bool compares() const { return row.spec().objective() == v1::SweepSpec::COMPARE; }
  bool terminal() const {
    return status.state() == v1::DONE || status.state() == v1::FAILED ||
           status.state() == v1::CANCELLED;
  }
  // The running time that a moment of this incarnation is at.
  int64_t running_ns(int64_t now_ns) const {
    return base_ns + (ended_ns != 0 ? std::min(now_ns, ended_ns) : now_ns) - started_ns;
  }
  double elapsed_seconds(int64_t now_ns) const {
    return static_cast<double>(running_ns(now_ns)) / 1e9;
  }
};

struct Worker {
  v1::Register info;
  ConnectionId connection = 0;  // 0 = not attached
  int64_t last_seen_ns = 0;
  bool draining = false;
  std::unordered_set<Task*> leased;
  std::array<int, kPools> busy{};
  bool exclusive = false;   // holds a suspect
  bool lost = false;        // what it held was taken back, and it has said nothing since
  int64_t attached_ns = 0;  // first
  bool reserved = false;    // in this turn: a suspect waits for it to be idle
  std::string measuring;    // the sweep whose inputs its devices hold
  int64_t measuring_since_ns = 0;

  const std::string& name() const { return info.worker(); }
  // Of devices that are not quarantined.
  int profile_slots() const { return std::max(0, info.profile_slots() - info.quarantined_size()); }
  // Of those, the ones of this kind.
  int profile_slots(const v1::ArchRecord& arch) const;
  // Whether its device, "<worker>/<device>", may be of this kind.
  bool measures(const std::string& device, const v1::ArchRecord& arch) const;
  // Leases that such devices hold.
  int measuring_on(const v1::ArchRecord& arch) const;
};

// A request that waits for the expansion of its spec; several equal ones wait together.
struct PendingSubmit {
  v1::SweepSpec spec;
  std::string spec_digest;
  bool lookup = false;
  v1::Match match = v1::EXACT;  // of a lookup
  std::set<std::string> users;  // who looks up
  std::vector<RequestId> requests;
  int64_t asked_ns = 0;
  uint64_t job = 0;  // 0 = waits for a worker that reports the target
  int64_t wait_until_ns = 0;
  // No worker has the device now, but one had: what is stored answers, or the request waits.
  bool stored_only = false;
  v1::ArchRecord arch;
  std::string range;  // the range sweep that asks for it, for this step and size; empty = a client
  RangeStep step = RangeStep::kTune;
  int64_t size = 0;
};

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_STATE_H_
