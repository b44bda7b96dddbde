// Is the device as fast as it was? A small fixed kernel is timed between candidates and compared
// with its own time on this very device when the device was first seen.
#ifndef KILN_WORKER_PROFILE_CANARY_H_
#define KILN_WORKER_PROFILE_CANARY_H_

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
};

// Noise and the clocks' recovery after a heavy kernel are no drift: a look is the median of a
// batch, and the device is only slow when several looks, with growing pauses between, all say so.
// Not thread-safe.
class Canary {
 public:
  // Times of that many launches of the kernel, in nanoseconds.
  using Measure = std::function<absl::StatusOr<std::vector<double>>(int launches)>;

  Canary(Measure measure, CanaryOptions options);

  // Reads the baseline, or takes one: once a first look after the warm-up and the next one agree.
  absl::Status Open();

  // Empty, or why the device must not be measured on: "its canary of arithmetic takes 231 us, 13.1
  // % more than the 204 us of its baseline (...)". A device that became faster has a new baseline.
  // An error is the measurement's.
  absl::StatusOr<std::string> Look();

  double baseline_ns() const { return baseline_ns_; }

 private:
  absl::StatusOr<double> MedianOfBatch();
  absl::Status WorkFor(double seconds);
  void Keep(double ns);

  const Measure measure_;
  const CanaryOptions options_;
  double baseline_ns_ = 0;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_CANARY_H_
