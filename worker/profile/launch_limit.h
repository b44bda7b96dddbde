// How long a launch may take before it counts as one that does not come back: the same for every
// device.
#ifndef KILN_WORKER_PROFILE_LAUNCH_LIMIT_H_
#define KILN_WORKER_PROFILE_LAUNCH_LIMIT_H_

#include <algorithm>

namespace kiln::worker {

// Of a launch of which nothing is known.
inline constexpr double kLaunchSeconds = 10;

// What is known of a candidate's launches, in nanoseconds; 0 = not known.
struct KnownTimes {
  double expected = 0;  // by the recommender
  double best = 0;      // the fastest of the sweep so far
  double slowest = 0;   // of the sweep, that came back here
};

// Far above all that is known, and never below `least`.
inline double LaunchSeconds(double least, const KnownTimes& known) {
  constexpr double kTimesKnown = 20;
  const double longest = std::max({known.expected, known.best, known.slowest});
  return std::max(least, kTimesKnown * longest * 1e-9);
}

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_LAUNCH_LIMIT_H_
