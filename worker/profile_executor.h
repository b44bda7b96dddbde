// Checks and times candidates in a persistent kiln-runner child. The child journals each candidate
// before it touches it; when it dies, hangs or breaks the protocol, the journal blames exactly one,
// and the others go on in a fresh child.
#ifndef KILN_WORKER_PROFILE_EXECUTOR_H_
#define KILN_WORKER_PROFILE_EXECUTOR_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker/child.h"
#include "worker/executor.h"
#include "worker/profile/device_health.h"

namespace kiln::worker {

// What the system says happened to a slot's device since it was last asked.
using DeviceLook = std::function<DeviceHealth()>;

struct ProfileLimits {
  // Longest silence of the child: every journal entry and every result starts it anew. Must leave
  // room for one reference computation and for one launch of the slowest useful candidate.
  double silence_seconds = 120;
};

class ChildProfileExecutor : public ProfileExecutor {
 public:
  // `look`, where there is one, is asked when a child is gone that could not say itself whether it
  // was its device's doing.
  ChildProfileExecutor(ChildOptions child, ProfileLimits limits, DeviceLook look = nullptr);

  absl::StatusOr<v1::ChildHello> Start() override;
  absl::StatusOr<ProfileOutcome> Profile(const v1::ProfileRequest& request,
                                         double limit_seconds) override;
  void Interrupt() override { child_.Interrupt(); }
  void ClearInterrupt() override { child_.ClearInterrupt(); }
  void Tend() override { child_.Tend(); }

 private:
  // One request to one child.
  struct Session {
    // The journal: touched and not finished. A kernel without tunables has the empty config.
    std::optional<std::string> current;
    Child::Clock::time_point since;  // when it was first touched
    bool done = false;
    bool whole_limit = false;     // the task's time was up, not the silence limit
    v1::Failure request_failure;  // the child refused the request as a whole
    std::string unavailable;      // why the device cannot be measured on now
  };

  absl::Status RunSession(const v1::ProfileRequest& request, Child::Clock::time_point deadline,
                          Session* session, ProfileOutcome* outcome);
  v1::Failure FailureOf(const absl::Status& status, const ChildDeath& death, const Session& session,
                        const std::string& tainted) const;

  Child child_;
  ProfileLimits limits_;
  DeviceLook look_;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_EXECUTOR_H_
