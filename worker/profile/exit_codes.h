// How kiln-runner ends when it cannot go on: with one of these, after one line on stderr that says
// what happened, for its parent.
#ifndef KILN_WORKER_PROFILE_EXIT_CODES_H_
#define KILN_WORKER_PROFILE_EXIT_CODES_H_

namespace kiln::worker {

// The candidate broke its device's context.
inline constexpr int kDeviceLost = 86;
// The device itself is broken: no candidate is to blame.
inline constexpr int kDeviceBroken = 87;
// A launch, or a copy after one, did not come back in time.
inline constexpr int kLaunchStopped = 88;

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_EXIT_CODES_H_
