// Which part of a request each moment belongs to. At any time exactly one stage runs, so that the
// stages are disjoint and add up to the whole.
#ifndef KILN_WORKER_PROFILE_STAGES_H_
#define KILN_WORKER_PROFILE_STAGES_H_

#include <chrono>
#include <map>
#include <string>
#include <utility>

namespace kiln::worker {

// Not thread-safe.
class StageClock {
 public:
  using Clock = std::chrono::steady_clock;

  // Begins anew, in the stage "other".
  void Start() {
    seconds_.clear();
    stage_ = "other";
    since_ = Clock::now();
  }

  // Seconds of each stage since Start.
  std::map<std::string, double> Read() {
    Enter(stage_);
    return seconds_;
  }

  // While it lives, its stage runs; then the one before goes on. `clock` may be null.
  class Within {
   public:
    Within(StageClock* clock, const char* stage)
        : clock_(clock), outer_(clock == nullptr ? nullptr : clock->Enter(stage)) {}
    ~Within() {
      if (clock_ != nullptr) clock_->Enter(outer_);
    }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    StageClock* const clock_;
    const char* const outer_;
  };

 private:
  const char* Enter(const char* stage) {
    const Clock::time_point now = Clock::now();
    seconds_[stage_] += std::chrono::duration<double>(now - since_).count();
    since_ = now;
    return std::exchange(stage_, stage);
  }

  std::map<std::string, double> seconds_;
  const char* stage_ = "other";
  Clock::time_point since_ = Clock::now();
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_STAGES_H_
