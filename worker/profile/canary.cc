#include "worker/profile/canary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/base/status.h"
#include "worker/elapsed.h"
#include "worker/profile/stats.h"

namespace kiln::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatch = 16;  // launches of a look
constexpr int kLooks = 5;   // that must all find the device slow
constexpr double kPauseGrowth = 3;
constexpr double kSettled = 0.005;   // two looks agree
constexpr double kWarmUpLimit = 10;  // times the warm-up, for a device that does not settle

}  // namespace

Canary::Canary(Measure measure, CanaryOptions options)
    : measure_(std::move(measure)), options_(std::move(options)) {}

absl::StatusOr<double> Canary::MedianOfBatch() {
  KILN_ASSIGN_OR_RETURN(std::vector<double> times, measure_(kBatch));
  if (times.empty()) return absl::UnavailableError("the canary has no times");
  return Median(std::move(times));
}

absl::Status Canary::WorkFor(double seconds) {
  const Clock::time_point begin = Clock::now();
  do {
    KILN_RETURN_IF_ERROR(MedianOfBatch().status());
  } while (SecondsSince(begin) < seconds);
  return absl::OkStatus();
}

void Canary::Keep(double ns) {
  baseline_ns_ = ns;
  if (options_.file.empty()) return;
  // Whole or not at all: another process may read it.
  const std::string draft = options_.file + ".new";
  std::ofstream(draft) << absl::StrFormat("%.1f\n", ns);
  std::error_code error;
  std::filesystem::rename(draft, options_.file, error);
}

void Canary::Heed(double ns) {
  if (ns >= (1 - options_.drift) * baseline_ns_) {
    faster_looks_ = 0;
    return;
  }
  if (faster_looks_++ == 0) {
    faster_since_ = Clock::now();
    faster_ns_ = 0;
  }
  faster_ns_ = std::max(faster_ns_, ns);
  if (faster_looks_ < kLooks || SecondsSince(faster_since_) < options_.faster) return;
  faster_looks_ = 0;
  Keep(faster_ns_);
}

absl::Status Canary::Open() {
  double kept = 0;
  if (std::ifstream in(options_.file); in >> kept && std::isfinite(kept) && kept > 0) {
    baseline_ns_ = kept;
    return absl::OkStatus();
  }
  const Clock::time_point begin = Clock::now();
  KILN_ASSIGN_OR_RETURN(double last, MedianOfBatch());
  while (true) {
    KILN_ASSIGN_OR_RETURN(const double now, MedianOfBatch());
    const bool settled = std::abs(now - last) <= kSettled * last;
    const double seconds = SecondsSince(begin);
    last = now;
    if (settled && seconds >= options_.warm_up) break;
    if (seconds >= kWarmUpLimit * options_.warm_up) break;
  }
  Keep(last);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Canary::Look() {
  double pause = options_.pause;
  double now = 0;
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(pause));
      pause *= kPauseGrowth;
      KILN_RETURN_IF_ERROR(WorkFor(options_.rouse));
    }
    KILN_ASSIGN_OR_RETURN(now, MedianOfBatch());
    if (!Slow(now)) {
      good_ = Clock::now();
      Heed(now);
      return std::string();
    }
    const bool excused = !Slow(now * ClockShare());
    if (excused && SecondsSince(good_) < options_.excused) return std::string();
  }
  return absl::StrFormat(
      "its canary of %s takes %.1f us, %.1f %% more than the %.1f us of its baseline%s",
      options_.of, now / 1e3, (now / baseline_ns_ - 1) * 100, baseline_ns_ / 1e3,
      options_.file.empty() ? "" : absl::StrCat(" (delete ", options_.file, " to take a new one)"));
}

}  // namespace kiln::worker
