#include "worker/profile/stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/base/status.h"

namespace kiln::worker {
namespace {

constexpr double kMadToSigma = 1.4826;
constexpr double kMedianToMeanError = 1.2533;  // sqrt(pi / 2)

}  // namespace

double Quantile(std::vector<double> values, double q) {
  KILN_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  double position = q * static_cast<double>(values.size() - 1);
  size_t low = static_cast<size_t>(position);
  size_t high = std::min(low + 1, values.size() - 1);
  double weight = position - static_cast<double>(low);
  return values[low] * (1 - weight) + values[high] * weight;
}

double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

double MedianAbsoluteDeviation(const std::vector<double>& values, double median) {
  std::vector<double> deviations;
  deviations.reserve(values.size());
  for (double value : values) deviations.push_back(std::abs(value - median));
  return Median(std::move(deviations));
}

void UseOneSource(std::vector<Sample>* samples) {
  const bool mixed = std::any_of(samples->begin(), samples->end(), [](const Sample& sample) {
    return sample.source == TimeSource::kEvents;
  });
  if (!mixed) return;
  for (Sample& sample : *samples) {
    sample.ns = sample.events_ns;
    sample.source = TimeSource::kEvents;
  }
}

Summary Summarise(const std::vector<double>& values) {
  Summary summary;
  summary.count = static_cast<int>(values.size());
  if (values.empty()) return summary;
  summary.median = Median(values);
  summary.p25 = Quantile(values, 0.25);
  summary.p75 = Quantile(values, 0.75);
  summary.mad = MedianAbsoluteDeviation(values, summary.median);
  summary.relative_error = 1;
  if (values.size() >= 2 && summary.median > 0) {
    double sigma = kMadToSigma * summary.mad;
    summary.relative_error =
        kMedianToMeanError * sigma / std::sqrt(static_cast<double>(values.size())) / summary.median;
  }
  return summary;
}

std::vector<bool> MarkDropped(const std::vector<Sample>& samples) {
  std::vector<bool> dropped(samples.size(), false);
  std::vector<double> calm;
  std::vector<double> all;
  for (size_t i = 0; i < samples.size(); ++i) {
    dropped[i] = samples[i].throttled;
    if (samples[i].throttled) continue;
    all.push_back(samples[i].ns);
    if (!samples[i].disturbed) calm.push_back(samples[i].ns);
  }
  if (all.empty()) return dropped;
  double median = Median(calm.size() * 2 >= all.size() ? calm : all);
  std::vector<size_t> slow;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!dropped[i] && samples[i].disturbed && samples[i].ns > median * (1 + kDisturbedExcess))
      slow.push_back(i);
  }
  std::stable_sort(slow.begin(), slow.end(),
                   [&](size_t a, size_t b) { return samples[a].ns > samples[b].ns; });
  slow.resize(std::min(slow.size(), all.size() / 2));
  for (size_t i : slow) dropped[i] = true;
  return dropped;
}

std::vector<double> Undisturbed(const std::vector<Sample>& samples) {
  std::vector<bool> dropped = MarkDropped(samples);
  std::vector<double> kept;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!dropped[i]) kept.push_back(samples[i].ns);
  }
  return kept;
}

double LeastRatio(const std::vector<double>& slow, const std::vector<double>& fast, double errors) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(slow.size(), fast.size()); ++i) {
    if (fast[i] > 0) ratios.push_back(slow[i] / fast[i]);
  }
  const auto count = static_cast<double>(ratios.size());
  const double below = std::floor((count - errors * std::sqrt(count)) / 2);
  if (below < 0 || ratios.empty()) return 0;
  const auto bound = ratios.begin() + static_cast<int64_t>(below);
  std::nth_element(ratios.begin(), bound, ratios.end());
  return *bound;
}

bool EnoughSamples(const StopRule& rule, const std::vector<Sample>& samples, double wall_seconds) {
  std::vector<double> kept = Undisturbed(samples);
  int count = static_cast<int>(kept.size());
  if (static_cast<int>(samples.size()) >= rule.max_samples) return true;
  if (count == 0 && wall_seconds >= rule.max_seconds) return true;  // throttled throughout
  if (count < rule.min_samples) return false;
  if (wall_seconds >= rule.max_seconds) return true;
  double kernel_seconds = std::accumulate(kept.begin(), kept.end(), 0.0) * 1e-9;
  if (kernel_seconds < rule.min_seconds) return false;
  return Summarise(kept).relative_error <= rule.target_relative_error;
}

}  // namespace kiln::worker
