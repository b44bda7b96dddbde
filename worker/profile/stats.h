// The statistics of one candidate's samples: pure functions on nanoseconds.
#ifndef KILN_WORKER_PROFILE_STATS_H_
#define KILN_WORKER_PROFILE_STATS_H_

#include <cstdint>
#include <vector>

namespace kiln::worker {

// What told a launch's time. Times of different sources are not compared.
enum class TimeSource : uint8_t { kClock, kRecords, kEvents };  // the host's clock; of a GPU: CUPTI

// One timed launch. `disturbed`: the system reported an involuntary context switch or stolen time
// while it ran. `throttled`: a GPU's clocks were held down by heat or by the power supply; such a
// sample never counts.
struct Sample {
  double ns = 0;
  bool disturbed = false;
  bool throttled = false;
  double events_ns = 0;  // GPU: between two events around the launch, less what a pair costs
  TimeSource source = TimeSource::kClock;  // of `ns`
};

// Where one of them has only the time of events, all of them take that.
void UseOneSource(std::vector<Sample>* samples);

struct Summary {
  int count = 0;
  double median = 0;
  double p25 = 0;
  double p75 = 0;
  double mad = 0;             // median absolute deviation from the median
  double relative_error = 0;  // standard error of the median / median; 1 for fewer than 2 samples
};

// The q-quantile, 0 <= q <= 1, by linear interpolation between order statistics. `values` must not
// be empty.
double Quantile(std::vector<double> values, double q);
double Median(std::vector<double> values);
double MedianAbsoluteDeviation(const std::vector<double>& values, double median);

// All zero for no values. The standard error of the median is 1.2533 * sigma / sqrt(n) with
// sigma = 1.4826 * MAD, both factors being those of a normal distribution.
Summary Summarise(const std::vector<double>& values);

// Which samples to drop: those that were disturbed and are more than `kDisturbedExcess` slower than
// the median of the undisturbed ones (of all, when fewer than half are undisturbed). A switch that
// cost nothing drops nothing, and at most half of the samples are dropped, the slowest first: when
// everything is disturbed, disturbance is what there is to measure. And all that were throttled.
inline constexpr double kDisturbedExcess = 0.02;
std::vector<bool> MarkDropped(const std::vector<Sample>& samples);

// The samples that MarkDropped leaves, in order.
std::vector<double> Undisturbed(const std::vector<Sample>& samples);

// A lower bound of the median of slow[i] / fast[i], whose i-th values belong together, by the sign
// test: however the ratios are distributed, it fails as rarely as a normal value is that many
// standard errors away. 0 where the pairs are too few to say.
double LeastRatio(const std::vector<double>& slow, const std::vector<double>& fast, double errors);

// When to stop sampling one candidate.
struct StopRule {
  int min_samples = 10;
  int max_samples = 1000;
  double min_seconds = 0.2;  // of kernel time
  double max_seconds = 2;    // of wall time, once min_samples are there
  double target_relative_error = 0.005;
};
bool EnoughSamples(const StopRule& rule, const std::vector<Sample>& samples, double wall_seconds);

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_STATS_H_
