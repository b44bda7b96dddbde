// The seams between the agent and what runs the risky part of a task. The real ones drive a child
// process (compile_executor.h, profile_executor.h); tests use twins in memory.
//
// One executor belongs to one slot and is called from that slot's thread only; Interrupt() alone
// comes from other threads. A candidate that fails is data in its CandidateResult; a non-OK status
// means that the executor itself cannot work (its child does not start), through no fault of any
// candidate.
#ifndef KILN_WORKER_EXECUTOR_H_
#define KILN_WORKER_EXECUTOR_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/v1/child.pb.h"
#include "kiln/v1/work.pb.h"

namespace kiln::worker {

struct CompileOutcome {
  v1::CandidateResult result;
  std::string bundle;  // serialised ArtifactBundle; empty when the candidate failed
};

class CompileExecutor {
 public:
  virtual ~CompileExecutor() = default;
  // Starts the child if none runs and returns what it said of itself.
  virtual absl::StatusOr<v1::ChildHello> Start() = 0;
  // Within `limit_seconds`, or the executor's own limit if that is shorter; 0 = its own.
  // kCancelled after Interrupt().
  virtual absl::StatusOr<CompileOutcome> Compile(const v1::SweepInputs& inputs,
                                                 const std::string& config,
                                                 double limit_seconds) = 0;
  virtual void Interrupt() = 0;
  // Forgets an Interrupt() that came too late to matter.
  virtual void ClearInterrupt() = 0;
  // Called now and then while the slot is idle: buries a child that died meanwhile.
  virtual void Tend() {}
};

struct ProfileOutcome {
  // In any order; a candidate without an entry was not reached.
  std::vector<v1::CandidateResult> results;
  std::map<std::string, double> seconds;  // by stage (TaskResult.seconds), as far as the child told
  std::string quarantined;  // why the device must not be measured on any more; empty = it may
  std::string unavailable;  // why it cannot be measured on now, though some candidates were; or ""
};

class ProfileExecutor {
 public:
  virtual ~ProfileExecutor() = default;
  virtual absl::StatusOr<v1::ChildHello> Start() = 0;
  // Runs the request within `limit_seconds` (0 = no limit for the whole). kCancelled after
  // Interrupt(). kUnavailable also when the device cannot be measured on now.
  virtual absl::StatusOr<ProfileOutcome> Profile(const v1::ProfileRequest& request,
                                                 double limit_seconds) = 0;
  virtual void Interrupt() = 0;
  virtual void ClearInterrupt() = 0;
  virtual void Tend() {}
};

// Makes the executor of slot `index`. Called in the slot's own thread.
using CompileFactory = std::function<std::unique_ptr<CompileExecutor>(int index)>;
using ProfileFactory = std::function<std::unique_ptr<ProfileExecutor>(int index)>;

}  // namespace kiln::worker

#endif  // KILN_WORKER_EXECUTOR_H_
