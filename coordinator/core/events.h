// What goes into the core and what comes out of it. Plain data: the core itself reads no clock,
// holds no lock, opens no socket and starts no thread.
#ifndef KILN_COORDINATOR_CORE_EVENTS_H_
#define KILN_COORDINATOR_CORE_EVENTS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/core/winner_key.h"
#include "coordinator/search/expander.h"
#include "coordinator/store/meta_store.h"
#include "kiln/v1/tuning.pb.h"
#include "kiln/v1/work.pb.h"

namespace kiln::core {

// Names a caller that waits for a reply, a worker's stream, or a watcher's stream. Never reused by
// one process; 0 is nobody.
using RequestId = uint64_t;
using ConnectionId = uint64_t;
using WatchId = uint64_t;

// ---- events ----

struct Submit {
  RequestId request = 0;
  v1::SweepSpec spec;
};
// Looks a winner up without starting anything.
struct Lookup {
  RequestId request = 0;
  v1::SweepSpec spec;
  v1::Match match = v1::MATCH_UNSPECIFIED;
};
// The answer to an ExpandJob.
struct Expanded {
  uint64_t job = 0;
  absl::Status status;  // not OK: the caller's mistake, or a store that cannot be read
  search::Expansion expansion;
  std::string sweep;  // the digests that follow from the expansion
  std::string problem_key;
  std::string inputs_digest;                  // the blob is durable already
  std::vector<std::string> compile_keys;      // of expansion.candidates, in order
  std::vector<v1::CompileIndexRow> compiled;  // what the store knows of them; artifacts exist
  // The store's answer where it has one: a winner, or this sweep itself, finished, if compile-only.
  std::optional<v1::Winner> winner;
  std::string finished_sweep;
  std::vector<std::string> superseded;  // winners of the problem that go when it has a new one
  bool stored_before = false;           // the store holds an earlier run of this sweep
  v1::LookupWinnerResponse lookup;      // of a lookup: the answer, but for `winner`
};
struct Cancel {
  RequestId request = 0;
  std::string sweep;
  std::string reason;
};
struct GetSweep {
  RequestId request = 0;
  std::string sweep;
  bool with_candidates = false;
};
struct ListMisses {
  RequestId request = 0;
  int limit = 0;  // 0 = all
};
struct ClearMisses {
  RequestId request = 0;
  std::vector<std::string> ids;  // none = all
};
struct ListBars {
  RequestId request = 0;
};
struct LiftBars {
  RequestId request = 0;
  std::vector<std::string> ids;  // or prefixes of them
  bool all = false;
};
struct ListActive {
  RequestId request = 0;
};
struct ListWorkers {
  RequestId request = 0;
  std::string target = {};  // of a sweep that waits
};
struct Watch {
  WatchId watch = 0;
  std::string sweep;
};
struct Unwatch {
  WatchId watch = 0;
};
struct WorkerAttached {
  ConnectionId connection = 0;
};
struct WorkerSaid {
  ConnectionId connection = 0;
  v1::WorkerMessage message;
  std::set<std::string> absent =
      {};  // artifacts that its results name and the blob store does not have
};
struct WorkerDetached {
  ConnectionId connection = 0;
};
// Time passes: leases expire, budgets run out. Posted at least every 200 ms.
struct Tick {};
// The last event before the coordinator ends of its own will.
struct Stopping {};

using Event = std::variant<Submit, Lookup, Expanded, Cancel, GetSweep, ListMisses, ClearMisses,
                           ListBars, LiftBars, ListActive, ListWorkers, Watch, Unwatch,
                           WorkerAttached, WorkerSaid, WorkerDetached, Tick, Stopping>;

// ---- effects ----

// Work for the pool beside the loop; it ends in an Expanded event with the same number.
struct ExpandJob {
  uint64_t job = 0;
  v1::SweepSpec spec;
  v1::ArchRecord arch;
  Tools tools;  // that the farm would compile with now; may be unknown
  bool lookup_only = false;
  v1::Match match = v1::EXACT;  // how near a stored winner has to be
};

using ReplyBody =
    std::variant<v1::SubmitSweepResponse, v1::LookupWinnerResponse, v1::CancelSweepResponse,
                 v1::GetSweepResponse, v1::ListSweepsResponse, v1::ListWorkersResponse,
                 v1::ListMissesResponse, v1::ClearMissesResponse, v1::ListBarsResponse,
                 v1::LiftBarsResponse>;
struct Reply {
  RequestId request = 0;
  absl::StatusOr<ReplyBody> body;
};

struct Send {
  ConnectionId connection = 0;
  v1::CoordinatorMessage message;
  bool close = false;  // the stream ends after it
};

struct Publish {
  WatchId watch = 0;
  v1::SweepEvent event;
  absl::Status status;  // not OK: the watch ends with it, without an event
  bool last = false;
};

struct PutBlob {
  std::string digest;
  std::string bytes;
};

struct PinEdit {
  std::string digest;  // empty in an unpin: all of the owner's
  std::string owner;
};

// One thing that happened, for the metrics.
struct Observation {
  enum class Kind {
    kLease,     // value = seconds the task waited
    kTaskDone,  // value = seconds from lease to result
    kLeaseExpired,
    kStaleResult,
    kCandidateFailed,  // label = stage
    kStageSeconds,     // label = stage ("compile", "check", ...), value = seconds on a worker
    kDeviceSeconds,    // label = part of a device's time (account.h), value = seconds
    kSweepDone,        // label = state, value = seconds
    kCompileReused,
    kEqualBinary,
    kReleased,
    kLookup,       // label = the level that matched ("exact", ...) or "miss"; value = how many
    kMissEvicted,  // the list of misses was full
  };
  Kind kind = Kind::kLease;
  std::string label;  // for task kinds: "compile", "screen", "race", "finals", "empty"
  double value = 0;
};

// All that follows from one turn. The order is the contract: blobs, pins, then the batch (synced),
// then everything that anybody outside can see, then unpins. A pin whose blob is gone is no error:
// who needs the blob will say that it is lost.
struct Effects {
  std::vector<PutBlob> blobs;
  std::vector<PinEdit> pins;
  store::Batch batch;
  std::vector<Send> sends;
  std::vector<Reply> replies;
  std::vector<Publish> publishes;
  std::vector<ExpandJob> expand;
  std::vector<PinEdit> unpins;
  std::vector<Observation> observations;
};

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_EVENTS_H_
