#include "worker/profile/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

#include "compiler/base/status.h"
#include "worker/elapsed.h"

namespace kiln::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCountedLaunches = 32;  // before inputs come again
constexpr int kMaxCopies = 4096;

constexpr double kWarmUpNs = 10e6;

constexpr double kScreenNs = 5e6;   // least kernel time of a screen or a race
constexpr double kPlentyNs = 60e6;  // a sample; with this much in all, fewer samples do
constexpr int kFewestSamples = 3;
constexpr int kScreenGrowth = 10;  // at most this many times the samples asked for
constexpr int kScreenRetries = 2;  // the same, once there is enough kernel time
constexpr double kScreenWallSeconds = 15;
constexpr double kOutRaced = 3;
constexpr int kOutRacedSamples = 2;
constexpr double kHopeless = 1.65;  // the coordinator keeps those within 1.5

constexpr double kTurnNs = 1e6;  // a turn of the finals holds about this much kernel time
constexpr int kMaxTurnLaunches = 16;
constexpr double kBeaten = 1.1;
constexpr size_t kBeatenSamples = 5;
constexpr double kOutdone = 1.005;  // where only the winner counts: surely slower than that
constexpr size_t kOutdoneRounds = 24;
constexpr double kSureErrors = 4;    // standard errors
constexpr double kClockStepNs = 64;  // two steps of a GPU's timestamps
constexpr double kWallPerKernelSecond = 10;
constexpr size_t kAgainSamples = 5;  // least, of one that is measured again
constexpr double kMostRest = 20e-3;  // before a turn of it
constexpr size_t kLookEvery = 8;     // rounds between two looks at the statistics

double SumNs(const std::vector<Sample>& samples) {
  double sum = 0;
  for (const Sample& sample : samples) sum += sample.ns;
  return sum;
}

double Fastest(const std::vector<Sample>& samples) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const Sample& sample : samples) fastest = std::min(fastest, sample.ns);
  return fastest;
}

// Without what was disturbed, where that leaves any.
double CalmMean(const std::vector<Sample>& samples) {
  std::vector<Sample> calm = samples;
  std::erase_if(calm, [](const Sample& sample) { return sample.disturbed; });
  if (calm.empty()) calm = samples;
  return SumNs(calm) / static_cast<double>(calm.size());
}

// How many more launches take `left_ns`, after `done` that took `ns`; one where none is done.
int LaunchesFor(double left_ns, int done, double ns, int most) {
  if (done == 0 || ns <= 0) return 1;
  return static_cast<int>(std::clamp(std::ceil(left_ns * done / ns), 1.0, double(most)));
}

std::vector<bool> Throttled(const std::vector<Sample>& samples) {
  std::vector<bool> throttled;
  for (const Sample& sample : samples) throttled.push_back(sample.throttled);
  return throttled;
}

void Unite(const std::vector<bool>& more, std::vector<bool>* all) {
  all->resize(std::max(all->size(), more.size()), false);
  for (size_t i = 0; i < more.size(); ++i) (*all)[i] = (*all)[i] || more[i];
}

// More than half marked: then the machine is like that, and all stay but those that `never` count.
void KeepHalf(std::vector<bool> never, std::vector<bool>* dropped) {
  const size_t marked = static_cast<size_t>(std::count(dropped->begin(), dropped->end(), true));
  never.resize(dropped->size(), false);
  if (marked * 2 > dropped->size()) *dropped = std::move(never);
}

}  // namespace

RotationPlan PlanRotation(v1::MeasurementPolicy::Cache cache, int64_t footprint,
                          int64_t wanted_bytes, int64_t cap_bytes, int min_copies) {
  RotationPlan plan;
  plan.copies = std::max(1, min_copies);
  footprint = std::max<int64_t>(footprint, 1);
  if (cache != v1::MeasurementPolicy::WARM) {
    plan.wanted_bytes = wanted_bytes;
    int64_t target = std::min(plan.wanted_bytes, cap_bytes);
    // One more than fills the target: the copy in use is not the one that must have left.
    int64_t copies = footprint >= target ? 1 : (target + footprint - 1) / footprint + 1;
    copies = std::min<int64_t>(copies, std::max<int64_t>(1, cap_bytes / footprint));
    copies = std::min<int64_t>(copies, kMaxCopies);
    plan.copies = std::max(plan.copies, static_cast<int>(copies));
  }
  plan.bytes = footprint * plan.copies;
  plan.reached = plan.bytes >= plan.wanted_bytes;
  return plan;
}

v1::MeasurementPolicy WithDefaults(v1::MeasurementPolicy policy) {
  if (policy.cache() == v1::MeasurementPolicy::CACHE_UNSPECIFIED) {
    policy.set_cache(v1::MeasurementPolicy::COLD);
  }
  if (policy.min_seconds() <= 0) policy.set_min_seconds(0.2);
  if (policy.min_samples() <= 0) policy.set_min_samples(10);
  if (policy.max_samples() <= 0) policy.set_max_samples(1000);
  if (policy.target_relative_error() <= 0) policy.set_target_relative_error(0.005);
  policy.set_max_samples(std::max(policy.max_samples(), policy.min_samples()));
  return policy;
}

struct Meter::Racer {
  const Contestant* contestant = nullptr;
  absl::Status status;
  std::vector<Sample> samples;
  std::vector<double> turns;      // mean of each, without what disturbed it
  std::vector<size_t> turn_ends;  // how many samples there were after each
  double seconds = 0;
  bool beaten = false;
  bool running() const { return status.ok() && !beaten; }
};

Meter::Meter(Device* device, const TensorSet* tensors, const v1::MeasurementPolicy& policy,
             Touch touch, StageClock* stages)
    : device_(device),
      tensors_(tensors),
      policy_(WithDefaults(policy)),
      touch_(std::move(touch)),
      stages_(stages) {}

std::vector<LaunchArguments> Meter::NextLaunches(const Contestant& contestant, int count) {
  std::vector<LaunchArguments> launches;
  launches.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    launches.push_back(tensors_->Arguments(next_copy_, contestant.manifest->values));
    if (policy_.cache() == v1::MeasurementPolicy::COLD) {
      next_copy_ = (next_copy_ + 1) % tensors_->copies();
    }
  }
  return launches;
}

absl::StatusOr<std::vector<Sample>> Meter::Take(const Contestant& contestant, int count) {
  while (true) {
    absl::StatusOr<std::vector<Sample>> samples =
        device_->Time(contestant.kernel, NextLaunches(contestant, count));
    if (!absl::IsAborted(samples.status())) return samples;
  }
}

absl::StatusOr<std::map<std::string, double>> Meter::Count(const Contestant& contestant) {
  const StageClock::Within counting(stages_, "count");
  touch_(contestant.config);
  return device_->Count(contestant.kernel, NextLaunches(contestant, kCountedLaunches));
}

absl::Status Meter::WarmUp(const Contestant& contestant) {
  const StageClock::Within warming(stages_, "warmup");
  const int most = device_->warm_up_launches();
  double ns = 0;
  // The first by itself tells how long one takes.
  for (int done = 0, batch = 1; done < most && ns < kWarmUpNs; done += batch) {
    batch = LaunchesFor(kWarmUpNs - ns, done, ns, most - done);
    KILN_ASSIGN_OR_RETURN(const std::vector<Sample> samples, Take(contestant, batch));
    ns += SumNs(samples);
  }
  return absl::OkStatus();
}

absl::StatusOr<Timing> Meter::Screen(const Contestant& contestant, int samples, double best_ns) {
  const StageClock::Within measuring(stages_, "measure");
  Clock::time_point begin = Clock::now();
  touch_(contestant.config);
  KILN_RETURN_IF_ERROR(WarmUp(contestant));
  Timing timing;
  std::vector<Sample> taken;
  double ns = 0;
  while (true) {
    int kept = static_cast<int>(Undisturbed(taken).size());
    int count = static_cast<int>(taken.size());
    if (kept >= samples && ns >= kScreenNs) break;
    if (kept >= kFewestSamples && ns >= samples * kPlentyNs) break;
    // Dropped samples are replaced, but not for ever; short launches are repeated further.
    if (count >= samples * (ns >= kScreenNs ? kScreenRetries : kScreenGrowth)) break;
    if (count >= kOutRacedSamples) {
      if (SecondsSince(begin) >= kScreenWallSeconds) break;
      const double limit = kept >= samples ? kHopeless : kOutRaced;
      timing.out_raced = best_ns > 0 && Fastest(taken) > limit * best_ns;
      if (timing.out_raced) break;
    }
    // One by one until the time of a launch is known, then in batches without a look between.
    bool single = count < kOutRacedSamples || ns > kScreenNs;
    int batch = 1;
    if (!single && kept < samples) {
      batch = std::min(samples - kept, kMaxTurnLaunches);
    } else if (!single) {
      batch = LaunchesFor(kScreenNs - ns, count, ns,
                          std::min(samples * kScreenGrowth - count, kMaxTurnLaunches));
    }
    KILN_ASSIGN_OR_RETURN(std::vector<Sample> more, Take(contestant, batch));
    taken.insert(taken.end(), more.begin(), more.end());
    UseOneSource(&taken);
    ns = SumNs(taken);
  }
  timing.samples_ns = Undisturbed(taken);
  timing.dropped = static_cast<int>(taken.size() - timing.samples_ns.size());
  timing.summary = Summarise(timing.samples_ns);
  timing.seconds = SecondsSince(begin);
  if (!taken.empty()) timing.source = taken.front().source;
  if (timing.samples_ns.empty()) timing.throttled = device_->Slowdown();
  timing.conditions = device_->Conditions();
  return timing;
}

void Meter::Turn(Racer* racer, int launches, double rest_seconds) {
  Clock::time_point begin = Clock::now();
  touch_(racer->contestant->config);
  // The threads of the candidate before must have gone to sleep, and those of this one be awake.
  std::this_thread::sleep_for(
      std::chrono::duration<double>(std::max(device_->settle_seconds(), rest_seconds)));
  const int wake = launches > 1 ? 1 : 0;
  const absl::StatusOr<std::vector<Sample>> samples = Take(*racer->contestant, wake + launches);
  racer->status = samples.status();
  if (samples.ok()) {
    const std::vector<Sample> own(samples->begin() + wake, samples->end());
    racer->samples.insert(racer->samples.end(), own.begin(), own.end());
    racer->turn_ends.push_back(racer->samples.size());
    racer->turns.push_back(CalmMean(own));
  }
  racer->seconds += SecondsSince(begin);
}

void Meter::UseOneSourceForAll(std::vector<Racer>* racers) {
  const auto by = [](const Racer& racer, TimeSource source) {
    return std::any_of(racer.samples.begin(), racer.samples.end(),
                       [&](const Sample& sample) { return sample.source == source; });
  };
  const auto any_by = [&](TimeSource source) {
    return std::any_of(racers->begin(), racers->end(),
                       [&](const Racer& racer) { return by(racer, source); });
  };
  if (!any_by(TimeSource::kEvents) || !any_by(TimeSource::kRecords)) return;
  for (Racer& racer : *racers) {
    if (racer.samples.empty()) continue;
    racer.samples.front().source = TimeSource::kEvents;
    UseOneSource(&racer.samples);
    size_t begin = 0;
    for (size_t turn = 0; turn < racer.turns.size(); ++turn) {
      const size_t end = racer.turn_ends[turn];
      racer.turns[turn] = CalmMean({racer.samples.begin() + static_cast<ptrdiff_t>(begin),
                                    racer.samples.begin() + static_cast<ptrdiff_t>(end)});
      begin = end;
    }
  }
}

int Meter::LaunchesPerTurn(const std::vector<Racer>& racers) const {
  double fastest = std::numeric_limits<double>::infinity();
  for (const Racer& racer : racers) {
    if (racer.running()) fastest = std::min(fastest, Fastest(racer.samples));
  }
  if (!std::isfinite(fastest) || fastest <= 0) return 1;
  return static_cast<int>(std::clamp(kTurnNs / fastest, 1.0, double{kMaxTurnLaunches}));
}

void Meter::DropBeaten(std::vector<Racer>* racers) const {
  double best = std::numeric_limits<double>::infinity();
  for (const Racer& racer : *racers) {
    if (!racer.running()) continue;
    const std::vector<double> kept = Undisturbed(racer.samples);
    if (kept.size() >= kBeatenSamples) best = std::min(best, Summarise(kept).p75);
  }
  for (Racer& racer : *racers) {
    if (!racer.running()) continue;
    const std::vector<double> kept = Undisturbed(racer.samples);
    racer.beaten = kept.size() >= kBeatenSamples && Summarise(kept).p25 > kBeaten * best;
  }
}

// Those whose turns say that they are slower than the best, round for round.
void Meter::DropOutdone(std::vector<Racer>* racers) const {
  const Racer* best = nullptr;
  double best_ns = 0;
  for (const Racer& racer : *racers) {
    if (!racer.running() || racer.turns.size() < kOutdoneRounds) continue;
    const double ns = Median(racer.turns);
    if (best != nullptr && ns >= best_ns) continue;
    best = &racer;
    best_ns = ns;
  }
  for (Racer& racer : *racers) {
    if (best == nullptr || &racer == best || !racer.running()) continue;
    racer.beaten = Median(racer.turns) > best_ns + kClockStepNs &&
                   LeastRatio(racer.turns, best->turns, kSureErrors) > kOutdone;
  }
}

absl::StatusOr<Timing> Meter::Again(const Contestant& contestant, double wall_seconds) {
  const StageClock::Within measuring(stages_, "measure");
  const Clock::time_point begin = Clock::now();
  std::vector<Racer> alone(1);
  Racer& racer = alone.front();
  racer.contestant = &contestant;
  Turn(&racer, 1);  // how long one takes; was timed before, so that there is nothing to wake
  KILN_RETURN_IF_ERROR(racer.status);
  const int launches = LaunchesPerTurn(alone);
  const double turn = racer.samples.front().ns * 1e-9 * launches;
  const double rest =
      std::min({device_->rest_turns() * turn, kMostRest, wall_seconds / double{kAgainSamples}});
  racer.samples.clear();
  racer.turns.clear();
  racer.turn_ends.clear();
  const auto most = static_cast<size_t>(policy_.max_samples());
  while (racer.samples.size() < kAgainSamples ||
         (SecondsSince(begin) < wall_seconds && racer.samples.size() < most)) {
    Turn(&racer, launches, rest);
    KILN_RETURN_IF_ERROR(racer.status);
  }
  UseOneSource(&racer.samples);
  Timing timing;
  timing.source = racer.samples.front().source;
  const std::vector<bool> dropped = MarkDropped(racer.samples);
  std::vector<double> events;
  for (size_t i = 0; i < racer.samples.size(); ++i) {
    if (dropped[i]) continue;
    timing.samples_ns.push_back(racer.samples[i].ns);
    events.push_back(racer.samples[i].events_ns);
  }
  timing.events_ns = Median(std::move(events));
  timing.dropped = static_cast<int>(racer.samples.size() - timing.samples_ns.size());
  timing.summary = Summarise(timing.samples_ns);
  timing.seconds = SecondsSince(begin);
  timing.conditions = device_->Conditions();
  return timing;
}

bool Meter::AllDone(const std::vector<Racer>& racers, double wall_seconds) const {
  StopRule rule;
  rule.min_samples = policy_.min_samples();
  rule.max_samples = policy_.max_samples();
  rule.min_seconds = policy_.min_seconds();
  rule.target_relative_error = policy_.target_relative_error();
  rule.max_seconds = kWallPerKernelSecond * policy_.min_seconds();
  int running = 0;
  for (const Racer& racer : racers) running += racer.running() ? 1 : 0;
  if (running == 0) return true;
  double share = wall_seconds / running;
  return std::all_of(racers.begin(), racers.end(), [&](const Racer& racer) {
    return !racer.running() || EnoughSamples(rule, racer.samples, share);
  });
}

std::vector<absl::StatusOr<Timing>> Meter::Finals(absl::Span<const Contestant> contestants,
                                                  bool one_winner) {
  const StageClock::Within measuring(stages_, "measure");
  Clock::time_point begin = Clock::now();
  std::vector<Racer> racers(contestants.size());
  for (size_t i = 0; i < racers.size(); ++i) {
    racers[i].contestant = &contestants[i];
    touch_(contestants[i].config);
    racers[i].status = WarmUp(contestants[i]);
    if (!racers[i].status.ok()) continue;
    // The estimate that sets the length of a turn; not part of any round.
    absl::StatusOr<std::vector<Sample>> estimate = Take(contestants[i], 1);
    racers[i].status = estimate.status();
    if (estimate.ok()) racers[i].samples = *std::move(estimate);
  }
  int launches = LaunchesPerTurn(racers);
  for (Racer& racer : racers) racer.samples.clear();
  Clock::time_point rounds_begin = Clock::now();
  for (size_t round = 0; !AllDone(racers, SecondsSince(rounds_begin)); ++round) {
    for (size_t i = 0; i < racers.size(); ++i) {
      Racer& racer = racers[(i + round) % racers.size()];
      if (racer.running()) Turn(&racer, launches);
    }
    UseOneSourceForAll(&racers);
    if (round < kLookEvery || round % kLookEvery == 0) DropBeaten(&racers);
    if (one_winner && round % kLookEvery == 0) DropOutdone(&racers);
  }
  // A sample that one candidate drops is dropped for all, so that indices stay paired; but one that
  // was beaten early is out of it, and has too few to lose those of others.
  size_t most = 0;
  for (const Racer& racer : racers) most = std::max(most, racer.samples.size());
  const auto alone = [&](const Racer& racer) {
    return racer.beaten && racer.samples.size() * 2 < most;
  };
  std::vector<bool> together, throttled;
  for (const Racer& racer : racers) {
    if (alone(racer)) continue;
    Unite(MarkDropped(racer.samples), &together);
    Unite(Throttled(racer.samples), &throttled);
  }

  const std::string slowdown = device_->Slowdown();
  const std::string conditions = device_->Conditions();
  std::vector<absl::StatusOr<Timing>> timings;
  double setup = SecondsSince(begin) - SecondsSince(rounds_begin);
  for (const Racer& racer : racers) {
    if (!racer.status.ok()) {
      timings.push_back(racer.status);
      continue;
    }
    Timing timing;
    if (!racer.samples.empty()) timing.source = racer.samples.front().source;
    std::vector<double> events;
    std::vector<bool> dropped = alone(racer) ? MarkDropped(racer.samples) : together;
    dropped.resize(racer.samples.size());
    KeepHalf(alone(racer) ? Throttled(racer.samples) : throttled, &dropped);
    for (size_t i = 0; i < racer.samples.size(); ++i) {
      if (dropped[i]) continue;
      timing.samples_ns.push_back(racer.samples[i].ns);
      events.push_back(racer.samples[i].events_ns);
    }
    if (!events.empty()) timing.events_ns = Median(std::move(events));
    timing.dropped = static_cast<int>(racer.samples.size() - timing.samples_ns.size());
    timing.summary = Summarise(timing.samples_ns);
    timing.seconds = racer.seconds + setup / static_cast<double>(racers.size());
    timing.out_raced = racer.beaten;
    if (timing.samples_ns.empty()) timing.throttled = slowdown;
    timing.conditions = conditions;
    timings.push_back(std::move(timing));
  }
  return timings;
}

}  // namespace kiln::worker
