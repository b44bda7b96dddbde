// Compiles candidates in a persistent kiln-compile child. Crash, hang and limits of the child cost
// the candidate that it worked on, and nothing else.
#ifndef KILN_WORKER_COMPILE_EXECUTOR_H_
#define KILN_WORKER_COMPILE_EXECUTOR_H_

#include <string>

#include "worker/child.h"
#include "worker/executor.h"

namespace kiln::worker {

struct CompileLimits {
  double seconds = 60;                       // wall time of one candidate
  int64_t bundle_bytes = int64_t{64} << 20;  // of one serialised bundle
  int requests_per_child = 1000;             // then a fresh child: leaks stay bounded
};

class ChildCompileExecutor : public CompileExecutor {
 public:
  ChildCompileExecutor(ChildOptions child, CompileLimits limits);

  absl::StatusOr<v1::ChildHello> Start() override;
  absl::StatusOr<CompileOutcome> Compile(const v1::SweepInputs& inputs, const std::string& config,
                                         double limit_seconds) override;
  void Interrupt() override { child_.Interrupt(); }
  void ClearInterrupt() override { child_.ClearInterrupt(); }
  void Tend() override { child_.Tend(); }

 private:
  absl::Status Exchange(const v1::CompileRequest& request, double limit_seconds,
                        v1::CompileResponse* response);
  v1::Failure FailureOf(const absl::Status& status, const ChildDeath& death,
                        double limit_seconds) const;
  absl::StatusOr<CompileOutcome> Accept(const std::string& config, v1::CompileResponse response);

  Child child_;
  CompileLimits limits_;
  int served_ = 0;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_COMPILE_EXECUTOR_H_
