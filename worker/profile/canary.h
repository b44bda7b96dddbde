// Is the device as fast as it was? A small fixed kernel is timed between candidates and compared
// with its own time on this very device when the device was first seen.
#ifndef KILN_WORKER_PROFILE_CANARY_H_
#define KILN_WORKER_PROFILE_CANARY_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kiln::worker {

struct CanaryOptions {
  std::string of;        // what it exercises, for the message: "arithmetic"
  std::string file;      // holds the baseline in nanoseconds, across processes; "" = nowhere
  double drift = 0.03;   // of the baseline, that is still no drift
  double warm_up = 0.2;  // seconds of work before a first baseline is taken
  double pause = 0.02;   // seconds before a second look; three times as long with each further one
  double rouse = 0.02;   // seconds of work between that and the look, so that the clocks wake
  // What the power limit left of the clock in the last batch, 0.85 of it, say; 1: nothing was held
  // down, or nobody knows. Unset: 1.
  std::function<double()> clock_share;
  double excused = 2;  // seconds after a good look in which a slow one may be put down to that
  double faster = 10;  // seconds in which all looks are faster, before the baseline is
};

// Noise and the clocks' recovery after a heavy kernel are no drift: a look is the median of a
// batch, and the device is only slow when several looks, with growing pauses between, all say so.
// One that is slow by no more than the power limit takes from the clock needs no pauses, as long as
// the last good look is not long ago: the power limit is what a device runs at.
// Not thread-safe.
class Canary {
 public:
  // Times of that many launches of the kernel, in nanoseconds.
  using Measure = std::function<absl::StatusOr<std::vector<double>>(int launches)>;

  Canary(Measure measure, CanaryOptions options);

  // Reads the baseline, or takes one: once a first look after the warm-up and the next one agree.
  absl::Status Open();

  // Empty, or why the device must not be measured on: "its canary of arithmetic takes 231 us, 13.1
  // % more than the 204 us of its baseline (...)". A device that became faster, and stays so, has a
  // new baseline: one batch whose times are too short is none.
  // An error is the measurement's.
  absl::StatusOr<std::string> Look();

  double baseline_ns() const { return baseline_ns_; }

 private:
  absl::StatusOr<double> MedianOfBatch();
  bool Slow(double ns) const { return ns > (1 + options_.drift) * baseline_ns_; }
  double ClockShare() const { return options_.clock_share ? options_.clock_share() : 1; }
  absl::Status WorkFor(double seconds);
  void Keep(double ns);
  void Heed(double ns);

  const Measure measure_;
  const CanaryOptions options_;
  double baseline_ns_ = 0;
  std::chrono::steady_clock::time_point good_;  // when it was last as fast as it should be
  // Looks in a row that found it faster, since when, and the slowest of them.
  int faster_looks_ = 0;
  std::chrono::steady_clock::time_point faster_since_;
  double faster_ns_ = 0;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_CANARY_H_
