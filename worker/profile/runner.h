// What kiln-runner does with one request: load, check, time, report. The process around it is
// runner_main.cc; tests drive it with a fake device and a scripted reference.
#ifndef KILN_WORKER_PROFILE_RUNNER_H_
#define KILN_WORKER_PROFILE_RUNNER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kiln/v1/child.pb.h"
#include "worker/profile/check.h"
#include "worker/profile/device.h"
#include "worker/profile/launch_limit.h"
#include "worker/profile/manifest.h"
#include "worker/profile/measure.h"
#include "worker/profile/reference.h"
#include "worker/profile/stages.h"
#include "worker/profile/tensors.h"

namespace kiln::worker {

struct RunnerOptions {
  std::string device_name;                    // "<worker>/<device>" in measurements
  int64_t rotation_bytes = int64_t{1} << 30;  // cap of the cold rotation
  int64_t peer_bytes = int64_t{1} << 30;      // cap of the outputs kept for comparison
  // While others use the device a measurement waits so long, and then is given back; or, with
  // `with_company`, taken, and says so.
  double company_seconds = 3;
  bool with_company = false;
  double launch_seconds = kLaunchSeconds;  // the least limit of a launch (launch_limit.h)
  int measuring_core = -1;  // the thread that measures has it for itself then; -1 = any
};

// Keeps tensors and reference values of the latest inputs between requests, so that the rounds of
// one sweep pay for them once. Not thread-safe; the device must outlive it.
class Runner {
 public:
  using Emit = std::function<void(const v1::ProfileEvent& event)>;

  Runner(Device* device, ReferenceFactory make_reference, RunnerOptions options);
  ~Runner();

  // Serves one request: `started` before each time a candidate is touched, one `result` for each
  // once the device was seen to be sound after it, `done` last; or `failure`, `quarantined` or
  // `unavailable` when it cannot be served, or not further. With what ends it: where its seconds
  // went.
  void Serve(const v1::ProfileRequest& request, const Emit& emit);

 private:
  struct Bench;  // tensors, checker and meter of one set of inputs
  struct Entry;  // one candidate of the request

  void LoadEntry(const v1::ProfileRequest& request, const v1::ProfileCandidate& candidate,
                 Entry* entry);
  absl::Status PrepareBench(const v1::ProfileRequest& request, Entry* entry);
  std::unique_ptr<Checker> MakeChecker(const v1::ProfileRequest& request, TensorSet* tensors);
  void LimitLaunches(const v1::ProfileRequest& request, const Entry& entry);
  void ForgetOtherCode(const v1::ProfileRequest& request, const Entry& entry);
  Checker::Candidate Checkable(const v1::ProfileRequest& request, const Entry& entry) const;
  void CheckEntry(const v1::ProfileRequest& request, Entry* entry);
  void CheckRagged(const v1::ProfileRequest& request, Entry* entry,
                   std::map<std::string, std::string>* convicted);
  void ScreenEntry(const v1::ProfileRequest& request, Entry* entry);
  // What ends the request, or `done`.
  v1::ProfileEvent RunAlone(const v1::ProfileRequest& request, const Emit& emit);
  bool WaitUntilAlone(const std::string& next, v1::ProfileEvent* last);
  bool StayedAlone(const std::vector<v1::CandidateResult*>& since, v1::ProfileEvent* last);
  DeviceHealth LookAt(bool with_time);
  bool Sound(const DeviceHealth& health, Entry* alone,
             const std::vector<v1::CandidateResult*>& since, v1::ProfileEvent* last);
  void FinishFinalist(const v1::ProfileRequest& request, const absl::StatusOr<Timing>& timing,
                      Entry* entry);
  void CountFinalists(std::vector<Entry*> finalists);
  v1::ProfileEvent CheckCompiledRagged(const v1::ProfileRequest& request, const Emit& emit);
  v1::ProfileEvent CheckBesidePlain(const v1::ProfileRequest& request, const Emit& emit);
  void HoldAgainstPlain(const v1::ProfileRequest& request, const v1::ProfileCandidate& candidate,
                        Entry* entry);
  v1::ProfileEvent RunFinals(const v1::ProfileRequest& request, const Emit& emit);
  void MeasureAgain(const v1::ProfileRequest& request,
                    const std::vector<absl::StatusOr<Timing>>& timings,
                    const std::vector<Entry*>& finalists);
  void FillMeasurement(const v1::ProfileRequest& request, const Timing& timing, const Entry& entry,
                       v1::Measurement* out) const;
  void Touch(const std::string& config);

  Device* const device_;
  const ReferenceFactory make_reference_;
  const RunnerOptions options_;
  std::unique_ptr<Bench> bench_;
  std::map<std::string, std::string> convicted_;  // config -> why, of the present bench
  struct Checked {
    std::string summary;
    bool whole_output = false;
  };
  std::map<std::string, Checked> summaries_;      // config -> how its check went, likewise
  std::map<std::string, std::string> artifacts_;  // config -> of which these two speak
  const Emit* emit_ = nullptr;                    // of the request being served
  StageClock stages_;                             // likewise
  std::string current_;
  double slowest_ns_ = 0;            // of what was timed on the present bench
  double launch_seconds_ = 0;        // the limit, which of one request only grows
  std::vector<std::string> stayed_;  // company that did not leave while it was waited for
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_RUNNER_H_
