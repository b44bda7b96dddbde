#include "worker/compile_executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/digest.h"
#include "compiler/base/status.h"

namespace kiln::worker {

ChildCompileExecutor::ChildCompileExecutor(ChildOptions child, CompileLimits limits)
    : child_(std::move(child)), limits_(limits) {}

absl::StatusOr<v1::ChildHello> ChildCompileExecutor::Start() {
  KILN_RETURN_IF_ERROR(child_.Start());
  return child_.hello();
}

absl::StatusOr<CompileOutcome> ChildCompileExecutor::Compile(const v1::SweepInputs& inputs,
                                                             const std::string& config,
                                                             double limit_seconds) {
  double limit = limit_seconds > 0 ? std::min(limit_seconds, limits_.seconds) : limits_.seconds;
  v1::CompileRequest request;
  *request.mutable_inputs() = inputs;
  request.set_config(config);
  // A SIGKILL from outside is rarely the candidate's doing: it gets one more child.
  for (int attempt = 0;; ++attempt) {
    if (served_ >= limits_.requests_per_child) {
      child_.Retire();
      served_ = 0;
    }
    KILN_RETURN_IF_ERROR(child_.Start());
    v1::CompileResponse response;
    absl::Status status = Exchange(request, limit, &response);
    if (status.ok()) {
      ++served_;
      return Accept(config, std::move(response));
    }
    ChildDeath death = child_.Bury(status);
    served_ = 0;
    if (absl::IsCancelled(status)) return status;
    if (death.killed_from_outside && attempt == 0) continue;
    CompileOutcome outcome;
    outcome.result.set_config(config);
    *outcome.result.mutable_failure() = FailureOf(status, death, limit);
    return outcome;
  }
}

absl::Status ChildCompileExecutor::Exchange(const v1::CompileRequest& request, double limit_seconds,
                                            v1::CompileResponse* response) {
  Child::Clock::time_point deadline = DeadlineIn(limit_seconds);
  KILN_RETURN_IF_ERROR(child_.Send(request, deadline));
  return child_.Receive(response, deadline);
}

v1::Failure ChildCompileExecutor::FailureOf(const absl::Status& status, const ChildDeath& death,
                                            double limit_seconds) const {
  v1::Failure failure;
  failure.set_killed_child(true);
  failure.set_stage(v1::Failure::COMPILE);
  failure.set_witness(death.output);
  if (absl::IsDeadlineExceeded(status)) {
    failure.set_stage(v1::Failure::RESOURCES);
    failure.set_message(
        absl::StrCat("the compiler took longer than ", limit_seconds, " s and was stopped"));
  } else if (death.out_of_memory) {
    failure.set_stage(v1::Failure::RESOURCES);
    failure.set_message("the compiler ran into its memory limit");
  } else if (absl::IsDataLoss(status)) {
    failure.set_message(absl::StrCat("the compiler child broke the protocol: ", status.message()));
  } else {
    failure.set_message(absl::StrCat("the compiler died: ", death.Describe()));
  }
  return failure;
}

absl::StatusOr<CompileOutcome> ChildCompileExecutor::Accept(const std::string& config,
                                                            v1::CompileResponse response) {
  CompileOutcome outcome;
  outcome.result.set_config(config);
  if (response.has_failure()) {
    *outcome.result.mutable_failure() = std::move(*response.mutable_failure());
    return outcome;
  }
  outcome.bundle = response.bundle().SerializeAsString();
  v1::Failure failure;
  failure.set_stage(v1::Failure::COMPILE);
  if (!response.has_bundle() || !response.has_artifact()) {
    failure.set_message("the compiler child answered with neither an artifact nor a failure");
  } else if (static_cast<int64_t>(outcome.bundle.size()) > limits_.bundle_bytes) {
    failure.set_stage(v1::Failure::RESOURCES);
    failure.set_message(absl::StrCat("the artifact has ", outcome.bundle.size(),
                                     " bytes; the limit is ", limits_.bundle_bytes));
  } else if (std::string digest = Sha256Hex(outcome.bundle);
             digest != response.artifact().digest()) {
    failure.set_message("the compiler child's artifact does not match its digest");
    failure.set_witness(absl::StrCat("announced ", response.artifact().digest(), ", is ", digest));
  } else {
    *outcome.result.mutable_artifact() = std::move(*response.mutable_artifact());
    return outcome;
  }
  outcome.bundle.clear();
  *outcome.result.mutable_failure() = std::move(failure);
  return outcome;
}

}  // namespace kiln::worker
