// One slot of the agent: a thread with an executor. Internal to the agent.
#ifndef KILN_WORKER_AGENT_SLOT_H_
#define KILN_WORKER_AGENT_SLOT_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "worker/agent.h"

namespace kiln::worker {

// Everything but `index`, `is_compile` and the executors is guarded by the agent's mutex.
struct Agent::Slot {
  int index = 0;
  bool is_compile = false;
  std::unique_ptr<CompileExecutor> compile;
  std::unique_ptr<ProfileExecutor> profile;
  HeldTaskPtr current;  // what it works on
  bool ready = false;   // the first slot of a kind: its child has said hello or failed
  absl::Status start_status;
  v1::ChildHello hello;
  std::string quarantined;  // why it measures no more; empty = it does
  std::thread thread;

  void Interrupt() { is_compile ? compile->Interrupt() : profile->Interrupt(); }
  void ClearInterrupt() { is_compile ? compile->ClearInterrupt() : profile->ClearInterrupt(); }
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_AGENT_SLOT_H_
