#include "compiler/base/clock.h"

#include <time.h>

namespace kiln {
namespace {

int64_t ReadNs(clockid_t id) {
  timespec ts{};
  clock_gettime(id, &ts);
  return ts.tv_sec * kNsPerSecond + ts.tv_nsec;
}

}  // namespace

Time RealClock::Now() const { return {ReadNs(CLOCK_MONOTONIC), ReadNs(CLOCK_REALTIME) / kNsPerMs}; }

RealClock* RealClock::Get() {
  static RealClock clock;
  return &clock;
}

Time SimulatedClock::Now() const {
  const int64_t elapsed = elapsed_ns_.load();
  return {start_.mono_ns + elapsed, start_.wall_ms + elapsed / kNsPerMs};
}

}  // namespace kiln
