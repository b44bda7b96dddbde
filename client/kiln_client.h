// The client library of a Kiln farm: submit sweeps, watch them, fetch winners. The one header to
// include (its data are in kiln_types.h); it needs the C++ standard library and abseil, and shows
// no RPC or serialisation types.
//
//   auto client = kiln::client::Client::Connect("127.0.0.1:7465");
//   auto specs = kiln::client::LoadSweepFile("gemm.yaml");
//   auto sweep = (*client)->Submit((*specs)[0]);
//   auto end = (*client)->Watch(sweep->sweep, [](const SweepEvent& e) { return true; });
//   auto fetched = (*client)->FetchToFile({sweep->sweep}, "gemm.kilnbundle");
//
// Errors are absl::Status. kUnavailable (no coordinator, or it restarts) is retried with
// exponential back-off and jitter inside the call, because every call but Backup may be repeated
// safely; it reaches the caller only when the attempts or the deadline are used up. Units are in
// the names.
#ifndef KILN_CLIENT_KILN_CLIENT_H_
#define KILN_CLIENT_KILN_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/kiln_types.h"

namespace kiln::client {

// Cancels the calls that carry it, from any thread, for good. Copies share one state.
class CancelToken {
 public:
  CancelToken();
  void Cancel();
  bool cancelled() const;

 private:
  friend class CancelAccess;
  struct State;
  std::shared_ptr<State> state_;
};

struct RetryPolicy {
  int max_attempts = 6;  // consecutive kUnavailable answers before the call gives up
  absl::Duration initial_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(5);
  double multiplier = 2.0;
  double jitter = 0.5;  // a wait is uniform in [(1 - jitter) * backoff, backoff]
};

// How a watch takes the loss of its coordinator.
struct WatchPolicy {
  // A watch that has delivered something goes on trying for at least this long after it lost the
  // coordinator, whatever RetryPolicy::max_attempts says. Every event starts it anew.
  absl::Duration patience = absl::Seconds(90);
  // Called on the caller's thread once each time the coordinator is lost, before the first wait.
  std::function<void(const absl::Status& why)> on_lost;
};

struct CallOptions {
  // For the whole call, retries included; after it kDeadlineExceeded, which says how far it was.
  // Watch and Compile: the whole watch. Unset (zero): 60 s for single answers, none for Watch,
  // Fetch and Compile.
  absl::Duration timeout = absl::ZeroDuration();
  RetryPolicy retry;
  WatchPolicy watch;   // Watch and Compile
  CancelToken cancel;  // kCancelled soon after Cancel()
};

// Thread-safe; calls block their caller. Destroy it after its last call returned.
class Client {
 public:
  // `address` is "unix:/absolute/path" or "host:port". Does not wait for the coordinator.
  // kInvalidArgument for anything else.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(absl::string_view address);
  virtual ~Client() = default;

  // Accepts the sweep, or joins the running one with the same digest, or answers from the store.
  virtual absl::StatusOr<Submitted> Submit(const SweepSpec& spec,
                                           const CallOptions& options = {}) = 0;
  // Calls `on_event` on the caller's thread for the state at once and for every change; returns the
  // last event, with a terminal state. `on_event` returns false to stop watching (the last event
  // so far is returned). A lost stream is opened again, so states may repeat.
  virtual absl::StatusOr<SweepEvent> Watch(const std::string& sweep,
                                           const std::function<bool(const SweepEvent&)>& on_event,
                                           const CallOptions& options = {}) = 0;
  // Starts nothing. What is not found is counted: see Misses.
  virtual absl::StatusOr<LookupResult> Lookup(const SweepSpec& spec, Match match,
                                              const CallOptions& options = {}) = 0;
  absl::StatusOr<LookupResult> Lookup(const SweepSpec& spec, const CallOptions& options = {}) {
    return Lookup(spec, Match::kExact, options);
  }
  // What was looked up and not found; `limit` 0 = all. `with_kernels`: the specs have their
  // kernel_source, so that they can be submitted.
  virtual absl::StatusOr<MissList> Misses(int limit, bool with_kernels,
                                          const CallOptions& options = {}) = 0;
  // Forgets these, or all if there are none; returns how many.
  virtual absl::StatusOr<int64_t> ClearMisses(const std::vector<std::string>& ids,
                                              const CallOptions& options = {}) = 0;
  // Downloads a bundle to `path` (through "<path>.<digest>.part", resumed when one is left from an
  // earlier call), checks its SHA-256, syncs, and renames: `path` is never half a file.
  // kDataLoss when the bytes fail their digest; nothing is left then.
  virtual absl::StatusOr<Fetched> FetchToFile(const FetchRequest& request, const std::string& path,
                                              const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<Fetched> FetchBytes(const FetchRequest& request, std::string* bytes,
                                             const CallOptions& options = {}) = 0;
  // Builds the spec's configs in parallel and hands back every artifact, in the order of
  // `configs`, else of the slate. A config that fails is an element, not an error.
  virtual absl::StatusOr<std::vector<Compiled>> Compile(SweepSpec spec,
                                                        const CallOptions& options = {}) = 0;
  // The same for arguments that each say everything over the spec's own: values of parameters, and
  // tensors by shape and type, {"A": "T.Tensor((1024, 512), T.float16)", "block_M": "64"}. One
  // result for each, in their order. A set that fails ends the call with its status, or with
  // `ignore_error` is an element. What was compiled before is not compiled again: another constant
  // is another program, another run-time size is not. The spec has the kernel's text.
  absl::StatusOr<std::vector<Compiled>> ParCompile(
      const SweepSpec& spec, const std::vector<std::map<std::string, std::string>>& configs,
      bool ignore_error, const CallOptions& options = {});
  absl::StatusOr<Bundle> CompileOne(const SweepSpec& spec,
                                    const std::map<std::string, std::string>& arguments,
                                    const CallOptions& options = {});
  // Newest first; `limit` 0 = all.
  // The newest first.
  virtual absl::StatusOr<std::vector<SweepSummary>> List(const ListRequest& request,
                                                         const CallOptions& options = {}) = 0;
  absl::StatusOr<std::vector<SweepSummary>> List(int limit, bool active_only,
                                                 const CallOptions& options = {}) {
    return List(ListRequest{limit, active_only, false, ""}, options);
  }
  virtual absl::StatusOr<SweepDetails> Show(const std::string& sweep, bool with_candidates,
                                            const CallOptions& options = {}) = 0;
  // A sweep that has ended already keeps its state.
  virtual absl::StatusOr<Cancelled> Cancel(const std::string& sweep, const std::string& reason,
                                           const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<std::vector<WorkerInfo>> Workers(const CallOptions& options = {}) = 0;
  // Why no worker can measure for this target now; empty = one can.
  virtual absl::StatusOr<std::string> WhyNobody(const std::string& target,
                                                const CallOptions& options = {}) = 0;
  // Programs that never run again on this farm, because two children died of them.
  virtual absl::StatusOr<std::vector<Bar>> Bars(const CallOptions& options = {}) = 0;
  // Lets these run again (ids, or unique beginnings of at least 6 digits), or all if there are
  // none; returns which. kNotFound: one of them bars nothing; then none is lifted.
  virtual absl::StatusOr<std::vector<Bar>> LiftBars(const std::vector<std::string>& ids,
                                                    const CallOptions& options = {}) = 0;
  // Drops unpinned artifacts until at most `target_bytes` are left; 0 = the configured limit.
  virtual absl::StatusOr<GarbageReport> CollectGarbage(int64_t target_bytes, bool dry_run,
                                                       const CallOptions& options = {}) = 0;
  // A consistent copy of the store in a new directory on the coordinator's disk; returns its bytes.
  virtual absl::StatusOr<int64_t> Backup(const std::string& directory,
                                         const CallOptions& options = {}) = 0;
};

// The program that ParCompile would compile, as text, elaborated here: no farm is asked.
absl::StatusOr<std::string> ProgramText(const SweepSpec& spec,
                                        const std::map<std::string, std::string>& arguments);

}  // namespace kiln::client

#endif  // KILN_CLIENT_KILN_CLIENT_H_
