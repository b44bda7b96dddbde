// When to try again, and how long to wait first.
#ifndef KILN_CLIENT_RETRY_H_
#define KILN_CLIENT_RETRY_H_

#include <optional>

#include "absl/random/random.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/kiln_client.h"

namespace kiln::client {

// The deadline, the cancellation and the back-off of one call. Used by one thread.
class RetryLoop {
 public:
  // `timeout` zero = none. `now` is the time at which the call began.
  RetryLoop(const CallOptions& options, absl::Duration timeout, absl::Time now);

  absl::Time deadline() const { return deadline_; }

  // After a failed attempt: sleeps and returns OK when the call should try again, else returns the
  // status to hand to the caller (`failure` itself, kCancelled, or kDeadlineExceeded).
  absl::Status WaitToRetry(const absl::Status& failure);

  // The attempt made progress (a stream delivered something): count from the start again.
  void Progressed() {
    attempts_ = 0;
    progressed_ = true;
  }

  // Once there was progress: does not give up within `patience` of the first failure since.
  void SetPatience(absl::Duration patience) { patience_ = patience; }

  // There was progress, and no failure since.
  bool undisturbed() const { return progressed_ && attempts_ == 0; }

  // The next wait, in [(1 - jitter) * backoff, backoff]; nullopt when the attempts are used up.
  std::optional<absl::Duration> NextWait();

 private:
  absl::Duration Backoff();

  const RetryPolicy policy_;
  const CancelToken cancel_;
  absl::Time deadline_;
  int attempts_ = 0;
  bool progressed_ = false;
  absl::Duration patience_ = absl::ZeroDuration();
  absl::Time first_failure_ = absl::InfinitePast();
  absl::BitGen random_;
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_RETRY_H_
