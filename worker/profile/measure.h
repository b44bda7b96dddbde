// Times candidates. Every constant and where it comes from: worker/README.md, "How a candidate is
// timed".
#ifndef KILN_WORKER_PROFILE_MEASURE_H_
#define KILN_WORKER_PROFILE_MEASURE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kiln/v1/common.pb.h"
#include "worker/profile/device.h"
#include "worker/profile/manifest.h"
#include "worker/profile/stages.h"
#include "worker/profile/stats.h"
#include "worker/profile/tensors.h"

namespace kiln::worker {

// How many copies of the tensors a cold measurement rotates over: enough that a copy has left the
// cache when its turn comes again, within a stated cap.
struct RotationPlan {
  int copies = 1;
  int64_t bytes = 0;         // of all copies
  int64_t wanted_bytes = 0;  // so that every copy is cold when its turn comes
  bool reached = true;       // bytes >= wanted_bytes
};
RotationPlan PlanRotation(v1::MeasurementPolicy::Cache cache, int64_t footprint,
                          int64_t wanted_bytes, int64_t cap_bytes, int min_copies);

// The policy with every unset field at its default.
v1::MeasurementPolicy WithDefaults(v1::MeasurementPolicy policy);

struct Contestant {
  std::string config;
  LoadedKernel* kernel = nullptr;
  const BoundManifest* manifest = nullptr;
};

struct Timing {
  std::vector<double> samples_ns;  // in order, without the dropped ones
  Summary summary;
  double events_ns = 0;                    // median of Sample::events_ns, of the same samples
  TimeSource source = TimeSource::kClock;  // of all samples
  int dropped = 0;
  double seconds = 0;      // wall time of the whole measurement, warm-up included
  bool out_raced = false;  // stopped early: slower than the best
  std::string throttled;   // set: there are no samples, as the device was throttled, and by what
  std::string conditions;  // what the device says of the time (Device::Conditions)
};

// Not thread-safe; device and tensors must outlive it.
class Meter {
 public:
  // Called before a candidate is touched: the journal.
  using Touch = std::function<void(const std::string& config)>;

  // `stages`, if any, hears of the stages "warmup", "measure" and "count".
  Meter(Device* device, const TensorSet* tensors, const v1::MeasurementPolicy& policy, Touch touch,
        StageClock* stages = nullptr);

  // One candidate by itself, `samples` launches and at least a few milliseconds of kernel time.
  // best_ns > 0: stops as out-raced when even the fastest of the first samples is kOutRaced times
  // slower, or that of `samples` by more than any screen lets pass.
  absl::StatusOr<Timing> Screen(const Contestant& contestant, int samples, double best_ns);

  // All candidates interleaved, one turn each a round, the order rotated by one each round. A
  // disturbed sample drops its round for everybody, so that the i-th samples of all candidates are
  // from the same round. A candidate that is clearly beaten gets no further turns; where only the
  // winner counts, `one_winner`, one that is beaten by little but beyond doubt neither. All times
  // are of one source: where it changed in the middle, of that which there was throughout. An error
  // of one candidate is its own entry; a failing device fails all.
  std::vector<absl::StatusOr<Timing>> Finals(absl::Span<const Contestant> contestants,
                                             bool one_winner = false);

  // One candidate by itself in turns as those of the finals, with the device's rest before each,
  // for `wall_seconds` and at least a few samples: what a winner takes, on samples that did not
  // make it one, and however hot the device was before.
  absl::StatusOr<Timing> Again(const Contestant& contestant, double wall_seconds);

  // Hardware counters of a launch, after times were taken; inputs rotate as they do for those.
  absl::StatusOr<std::map<std::string, double>> Count(const Contestant& contestant);

 private:
  struct Racer;

  absl::Status WarmUp(const Contestant& contestant);
  std::vector<LaunchArguments> NextLaunches(const Contestant& contestant, int count);
  absl::StatusOr<std::vector<Sample>> Take(const Contestant& contestant, int count);
  void Turn(Racer* racer, int launches, double rest_seconds = 0);
  static void UseOneSourceForAll(std::vector<Racer>* racers);
  int LaunchesPerTurn(const std::vector<Racer>& racers) const;
  void DropBeaten(std::vector<Racer>* racers) const;
  void DropOutdone(std::vector<Racer>* racers) const;
  bool AllDone(const std::vector<Racer>& racers, double wall_seconds) const;

  Device* const device_;
  const TensorSet* const tensors_;
  const v1::MeasurementPolicy policy_;
  const Touch touch_;
  StageClock* const stages_;
  int next_copy_ = 0;
};

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_MEASURE_H_
