// Checks and times candidates in a persistent kiln-runner child. The child journals each candidate
// before it touches it; when it dies, hangs or breaks the protocol, the journal blames exactly one,
// and the others go on in a fresh child.
#ifndef KILN_WORKER_PROFILE_EXECUTOR_H_
#define KILN_WORKER_PROFILE_EXECUTOR_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker/child.h"
#include "worker/executor.h"

namespace kiln::worker {

struct ProfileLimits {
  // Longest silence of the child: every journal entry and every result starts it anew. Must leave
  // room for one reference computation and for one launch of the slowest useful candidate.
  double silence_seconds = 120;
};

class ChildProfileExecutor : public ProfileExecutor {
 public:
  ChildProfileExecutor(ChildOptions child, ProfileLimits limits);

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
  v1::Failure FailureOf(const absl::Status& status, const ChildDeath& death,
                        const Session& session) const;

  Child child_;
  ProfileLimits limits_;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_EXECUTOR_H_
