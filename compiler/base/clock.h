// Time as a seam: nothing below the process entry points reads the system clock by itself.
#ifndef KILN_COMPILER_BASE_CLOCK_H_
#define KILN_COMPILER_BASE_CLOCK_H_

#include <atomic>
#include <cstdint>

namespace kiln {

// One reading of both clocks. `mono_ns` never goes back and is the only one that durations and
// deadlines may use; `wall_ms` is Unix time for people and for records that outlive the process.
struct Time {
  int64_t mono_ns = 0;
  int64_t wall_ms = 0;
};

inline constexpr int64_t kNsPerSecond = 1'000'000'000;
inline constexpr int64_t kNsPerMs = 1'000'000;

inline int64_t SecondsToNs(double seconds) {
  return static_cast<int64_t>(seconds * static_cast<double>(kNsPerSecond));
}
inline double NsToSeconds(int64_t ns) {
  return static_cast<double>(ns) / static_cast<double>(kNsPerSecond);
}

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
};

// CLOCK_MONOTONIC and CLOCK_REALTIME.
class RealClock : public Clock {
 public:
  Time Now() const override;
  // The process-wide instance; never destroyed.
  static RealClock* Get();
};

// Stands still until told to move. Both clocks move together.
class SimulatedClock : public Clock {
 public:
  explicit SimulatedClock(Time start = {kNsPerSecond, 1'700'000'000'000}) : start_(start) {}
  Time Now() const override;
  void Advance(int64_t ns) { elapsed_ns_.fetch_add(ns); }
  void AdvanceSeconds(double seconds) { Advance(SecondsToNs(seconds)); }

 private:
  const Time start_;
  std::atomic<int64_t> elapsed_ns_{0};
};

}  // namespace kiln

#endif  // KILN_COMPILER_BASE_CLOCK_H_
