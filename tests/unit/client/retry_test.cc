#include "client/retry.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/time/clock.h"
#include "client/cancel.h"

namespace kiln::client {
namespace {

TEST(RetryLoop, WaitsGrowWithinTheJitterAndTheCap) {
  CallOptions options;
  options.retry = {.max_attempts = 10,
                   .initial_backoff = absl::Milliseconds(100),
                   .max_backoff = absl::Milliseconds(900),
                   .multiplier = 2.0,
                   .jitter = 0.25};
  for (int trial = 0; trial < 100; ++trial) {
    RetryLoop loop(options, absl::ZeroDuration(), absl::Now());
    absl::Duration backoff = absl::Milliseconds(100);
    for (int i = 0; i < 9; ++i) {
      const auto wait = loop.NextWait();
      ASSERT_TRUE(wait.has_value()) << i;
      EXPECT_GE(*wait, backoff * 0.75) << i;
      EXPECT_LE(*wait, backoff) << i;
      backoff = std::min(backoff * 2, absl::Milliseconds(900));
    }
    EXPECT_FALSE(loop.NextWait().has_value());
  }
}

TEST(RetryLoop, JitterSpreadsTheWaits) {
  CallOptions options;
  absl::Duration shortest = absl::InfiniteDuration(), longest = absl::ZeroDuration();
  for (int trial = 0; trial < 200; ++trial) {
    RetryLoop loop(options, absl::ZeroDuration(), absl::Now());
    const absl::Duration wait = *loop.NextWait();
    shortest = std::min(shortest, wait);
    longest = std::max(longest, wait);
  }
  EXPECT_GT(longest - shortest, absl::Milliseconds(25));
}

TEST(RetryLoop, ProgressStartsTheCountAgain) {
  CallOptions options;
  options.retry.max_attempts = 2;
  RetryLoop loop(options, absl::ZeroDuration(), absl::Now());
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(loop.NextWait().has_value());
    loop.Progressed();
  }
  EXPECT_TRUE(loop.NextWait().has_value());
  EXPECT_FALSE(loop.NextWait().has_value());
}

TEST(RetryLoop, OnlyUnavailableIsTriedAgain) {
  CallOptions options;
  options.retry.initial_backoff = absl::Microseconds(10);
  RetryLoop loop(options, absl::ZeroDuration(), absl::Now());
  EXPECT_TRUE(loop.WaitToRetry(absl::UnavailableError("x")).ok());
  for (const absl::Status& status :
       {absl::InvalidArgumentError("x"), absl::NotFoundError("x"), absl::DataLossError("x"),
        absl::ResourceExhaustedError("x"), absl::DeadlineExceededError("x")}) {
    EXPECT_EQ(loop.WaitToRetry(status), status);
  }
}

TEST(RetryLoop, AttemptsEndWithTheLastAnswer) {
  CallOptions options;
  options.retry.max_attempts = 3;
  options.retry.initial_backoff = absl::Microseconds(10);
  RetryLoop loop(options, absl::ZeroDuration(), absl::Now());
  const absl::Status failure = absl::UnavailableError("down");
  EXPECT_TRUE(loop.WaitToRetry(failure).ok());
  EXPECT_TRUE(loop.WaitToRetry(failure).ok());
  EXPECT_EQ(loop.WaitToRetry(failure), failure);
}

TEST(RetryLoop, DoesNotSleepPastTheDeadline) {
  CallOptions options;
  options.retry.initial_backoff = absl::Seconds(100);
  options.retry.max_backoff = absl::Seconds(100);
  const absl::Time begin = absl::Now();
  RetryLoop loop(options, absl::Seconds(1), begin);
  EXPECT_TRUE(absl::IsDeadlineExceeded(loop.WaitToRetry(absl::UnavailableError("x"))));
  EXPECT_LT(absl::Now() - begin, absl::Milliseconds(500));
}

TEST(RetryLoop, CancelEndsTheWait) {
  CallOptions options;
  options.retry.initial_backoff = options.retry.max_backoff = absl::Seconds(100);
  RetryLoop loop(options, absl::ZeroDuration(), absl::Now());
  CancelToken token = options.cancel;
  std::thread canceller([token]() mutable {
    absl::SleepFor(absl::Milliseconds(30));
    token.Cancel();
  });
  const absl::Time begin = absl::Now();
  EXPECT_TRUE(absl::IsCancelled(loop.WaitToRetry(absl::UnavailableError("x"))));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  canceller.join();
}

TEST(CancelToken, CopiesShareAndListenersHearOnce) {
  CancelToken token;
  const CancelToken copy = token;
  int heard = 0, late = 0, gone = 0;
  CancelAccess listener(copy, [&] { ++heard; });
  {
    CancelAccess short_lived(copy, [&] { ++gone; });
  }
  EXPECT_FALSE(copy.cancelled());
  token.Cancel();
  token.Cancel();
  CancelAccess after(copy, [&] { ++late; });
  EXPECT_TRUE(copy.cancelled());
  EXPECT_EQ(heard, 1);
  EXPECT_EQ(late, 1);
  EXPECT_EQ(gone, 0);
}

}  // namespace
}  // namespace kiln::client
