#include "client/retry.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cancel.h"

namespace kiln::client {

RetryLoop::RetryLoop(const CallOptions& options, absl::Duration timeout, absl::Time now)
    : policy_(options.retry),
      cancel_(options.cancel),
      deadline_(timeout > absl::ZeroDuration() ? now + timeout : absl::InfiniteFuture()) {}

std::optional<absl::Duration> RetryLoop::NextWait() {
  if (++attempts_ >= policy_.max_attempts) return std::nullopt;
  return Backoff();
}

absl::Duration RetryLoop::Backoff() {
  const double factor = std::pow(std::max(1.0, policy_.multiplier), attempts_ - 1);
  const absl::Duration backoff = std::min(policy_.max_backoff, policy_.initial_backoff * factor);
  const double jitter = std::clamp(policy_.jitter, 0.0, 1.0);
  return backoff * absl::Uniform(absl::IntervalClosed, random_, 1.0 - jitter, 1.0);
}

absl::Status RetryLoop::WaitToRetry(const absl::Status& failure) {
  if (cancel_.cancelled()) return absl::CancelledError("the caller cancelled the call");
  if (!absl::IsUnavailable(failure)) return failure;
  const absl::Time now = absl::Now();
  if (attempts_ == 0) first_failure_ = now;
  std::optional<absl::Duration> wait = NextWait();
  if (!wait.has_value() && progressed_ && now < first_failure_ + patience_) wait = Backoff();
  if (!wait.has_value()) return failure;
  if (now + *wait >= deadline_) {
    return absl::DeadlineExceededError(
        absl::StrCat("no time is left to try again; the last attempt said: ", failure.message()));
  }
  if (CancelAccess::SleepUnlessCancelled(cancel_, *wait)) {
    return absl::CancelledError("the caller cancelled the call");
  }
  return absl::OkStatus();
}

}  // namespace kiln::client
