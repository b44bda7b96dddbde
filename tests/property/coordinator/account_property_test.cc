// Laws of the accounts of time, over many seeds: whatever happens to workers, messages and the
// coordinator, the parts of each device's time are disjoint, not negative, and add up to the
// elapsed time of the sweep, to the nanosecond; and where nothing is lost they are what really
// happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "absl/strings/str_cat.h"
#include "coordinator/core/account.h"
#include "coordinator/core/stored_view.h"
#include "tests/util/in_process_farm.h"

namespace kiln::testing {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

// The longest way of a result: its own delay, and the wait for the next turn.
constexpr double kWaySeconds = 0.0065;

int64_t SumOf(const auto& parts) {
  int64_t sum = 0;
  for (const auto& [name, ns] : parts) sum += ns;
  return sum;
}

double Seconds(const v1::DeviceTime& device, const std::vector<std::string>& parts) {
  double sum = 0;
  for (const std::string& part : parts) {
    auto found = device.seconds().find(part);
    if (found != device.seconds().end()) sum += found->second;
  }
  return sum;
}
const std::vector<std::string>& Work() {
  static const auto* const parts = new std::vector<std::string>{
      "fetch", "setup", "check", "warmup", "measure", "count", "health", "other"};
  return *parts;
}

std::vector<std::string> PartNames() {
  std::vector<std::string> names;
  for (int i = 0; i < core::kParts; ++i) names.push_back(PartName(static_cast<core::Part>(i)));
  return names;
}

void ExpectWhole(const v1::SweepStatusRow& row, const std::string& where) {
  const int64_t elapsed = SumOf(row.situation_ns());
  EXPECT_NEAR(NsToSeconds(elapsed), row.elapsed_seconds(), 1e-9) << where;
  EXPECT_NEAR(NsToSeconds(elapsed), row.progress().elapsed_seconds(), 1e-9) << where;
  for (const auto& [situation, ns] : row.situation_ns()) EXPECT_GE(ns, 0) << where;
  for (const v1::LaneRow& lane : row.lanes()) {
    EXPECT_EQ(lane.settled_ns(), elapsed) << where << " " << lane.device();
    EXPECT_EQ(SumOf(lane.parts_ns()), elapsed) << where << " " << lane.device();
    for (const auto& [part, ns] : lane.parts_ns()) {
      EXPECT_GE(ns, 0) << where << " " << lane.device() << " " << part;
      EXPECT_THAT(PartNames(), Contains(part)) << where;
    }
  }
}

// The same of an answer to a client, while the sweep runs.
void ExpectWhole(const v1::GetSweepResponse& shown, const std::string& where) {
  const v1::TimeAccount& time = shown.time();
  EXPECT_NEAR(time.elapsed_seconds(), shown.summary().progress().elapsed_seconds(), 1e-9) << where;
  double sweep = 0;
  for (const auto& [part, seconds] : time.sweep()) sweep += seconds;
  EXPECT_NEAR(sweep, time.elapsed_seconds(), 1e-6) << where;
  for (const v1::DeviceTime& device : time.devices()) {
    EXPECT_NEAR(Seconds(device, PartNames()), time.elapsed_seconds(), 1e-6)
        << where << " " << device.device();
    EXPECT_GE(device.idle_share(), 0) << where;
    EXPECT_LE(device.idle_share(), 1 + 1e-9) << where;
  }
}

InProcessFarm::Options Base(uint64_t seed) {
  InProcessFarm::Options options = FaultySpace(seed);
  options.workers = {{2, 1}, {2, 3}, {4, 0}};
  return options;
}

std::vector<std::string> Digests(InProcessFarm* farm) {
  std::vector<std::string> digests;
  const auto listed = farm->meta()->ListSweeps(1000, "", {});
  for (const auto& [row, status] : listed->sweeps) digests.push_back(row.digest());
  return digests;
}

// Looks at every sweep while the farm runs, and ends some before their time. Returns how often.
int RunAndLook(InProcessFarm* farm, uint64_t seed) {
  Rng rng(seed);
  int looks = 0;
  int quiet = 0;
  for (int step = 0; step < 4000; ++step) {
    // While no coordinator is up nothing may happen for a second, and then no time passes.
    farm->RunFor(farm->up() ? 0.05 + 0.3 * rng.Uniform() : 2);
    std::vector<core::RequestId> asked;
    bool running = false;
    for (const std::string& digest : Digests(farm)) {
      const auto record = farm->meta()->GetSweep(digest, false);
      if (core::IsTerminal(record->status.state())) continue;
      running = true;
      if (rng.Uniform() < 0.004) farm->Ask(core::Cancel{0, digest, "a law wants it"});
      asked.push_back(farm->Ask(core::GetSweep{0, digest, false}));
    }
    quiet = running ? 0 : quiet + 1;
    if (quiet > 200) break;  // a sweep may wait for a worker for half a minute before it is one
    farm->RunFor(0.02);
    for (const core::RequestId request : asked) {
      const auto* reply = farm->ReplyTo(request);
      if (reply == nullptr || !reply->ok()) continue;
      ExpectWhole(std::get<v1::GetSweepResponse>(**reply), absl::StrCat("seed ", seed, " live"));
      ++looks;
    }
  }
  return looks;
}

TEST(AccountProperty, PartsAddUpWhateverHappens) {
  int lanes = 0;
  int looks = 0;
  std::set<std::string> seen;
  for (int seed = 1; seed <= Seeds(40); ++seed) {
    InProcessFarm::Options options = Base(seed);
    options.workers[0].tells_times = seed % 5 != 0;
    options.workers[2].start_seconds = seed % 3;
    options.space.kills_runner = 0.05;
    options.faults.worker_crash = 0.03;
    options.faults.stream_break = 0.01;
    options.faults.lost_message = 0.02;
    options.faults.repeated_result = 0.1;
    options.faults.worker_stall = 0.03;
    options.faults.lost_blob = 0.02;
    options.faults.coordinator_crash = 0.003;
    InProcessFarm farm(options);
    for (int i = 0; i < 5; ++i) {
      v1::SweepSpec spec = FakeSpec(absl::StrCat(i));
      spec.set_user(absl::StrCat("user", i % 2));
      if (i == 4) spec.set_objective(v1::SweepSpec::COMPILE);
      farm.Submit(spec);
    }
    farm.RunFor(0.5);
    looks += RunAndLook(&farm, seed);
    for (const std::string& digest : Digests(&farm)) {
      const auto record = farm.meta()->GetSweep(digest, false);
      ASSERT_TRUE(core::IsTerminal(record->status.state()))
          << "seed " << seed << " " << record->status.progress().ShortDebugString();
      ExpectWhole(record->status, absl::StrCat("seed ", seed));
      lanes += record->status.lanes_size();
      for (const v1::LaneRow& lane : record->status.lanes()) {
        for (const auto& [part, ns] : lane.parts_ns()) seen.insert(part);
      }
    }
  }
  EXPECT_GT(lanes, Seeds(40) * 2);
  EXPECT_GT(looks, Seeds(40) * 5);
  // The schedules are wild enough to tell something.
  for (const char* part : {"first", "queue", "handover", "others", "lost", "unreported", "compile",
                           "peers", "measure", "other"}) {
    EXPECT_THAT(seen, Contains(part));
  }
}

// What the farm really did for `sweep`, or for others, on the device while the sweep ran.
double Truth(const InProcessFarm& farm, const std::string& device,
             const v1::GetSweepResponse& sweep, bool others, int* tasks) {
  // The simulated clocks move together; that of the wall counts milliseconds.
  const Time origin = SimulatedClock().Now();
  const int64_t began =
      origin.mono_ns + (sweep.summary().submitted_unix_ms() - origin.wall_ms) * kNsPerMs;
  const int64_t ended = began + SecondsToNs(sweep.time().elapsed_seconds());
  double sum = 0;
  for (const DeviceSpan& span : farm.spans()) {
    if (span.device != device || (span.sweep == sweep.summary().sweep()) == others) continue;
    const int64_t both = std::min(ended, span.ended_ns) - std::max(began, span.began_ns);
    if (both <= 0) continue;
    sum += NsToSeconds(both);
    ++*tasks;
  }
  return sum;
}

TEST(AccountProperty, AQuietFarmIsToldAsItWas) {
  for (int seed = 1; seed <= Seeds(30); ++seed) {
    InProcessFarm farm(Base(seed));
    const auto sweep = farm.RunSweep(FakeSpec());
    ASSERT_TRUE(sweep.ok()) << sweep.status();
    ExpectWhole(*sweep, absl::StrCat("seed ", seed));
    ASSERT_GE(sweep->time().devices_size(), 1);
    for (const v1::DeviceTime& device : sweep->time().devices()) {
      int tasks = 0;
      const double truth = Truth(farm, device.device(), *sweep, /*others=*/false, &tasks);
      EXPECT_NEAR(Seconds(device, Work()), truth, kWaySeconds * tasks)
          << "seed " << seed << " " << device.device() << " " << tasks << " tasks";
      EXPECT_EQ(Seconds(device, {"others", "unreported"}), 0) << "seed " << seed;
      EXPECT_LT(Seconds(device, {"lost"}), kWaySeconds) << "until the worker was there";
      EXPECT_GT(Seconds(device, {"first"}), 0.02) << "something had to be compiled";
    }
  }
}

TEST(AccountProperty, WhatADeviceDoesForOthersIsNotIdle) {
  for (int seed = 1; seed <= Seeds(30); ++seed) {
    InProcessFarm::Options options = Base(seed);
    options.workers = {{4, 1}};
    InProcessFarm farm(options);
    v1::SweepSpec spec = FakeSpec("a");
    spec.set_strategy("exhaustive");
    farm.Submit(spec);
    spec = FakeSpec("b");
    spec.set_user("another");
    spec.set_strategy("exhaustive");
    farm.Submit(spec);
    ASSERT_TRUE(farm.RunUntil(
        [&] {
          const auto listed = farm.meta()->ListSweeps(10, "", {});
          return listed->sweeps.size() == 2 && core::IsTerminal(listed->sweeps[0].second.state()) &&
                 core::IsTerminal(listed->sweeps[1].second.state());
        },
        600));
    for (const std::string& digest : Digests(&farm)) {
      const auto shown = farm.Stored(digest);
      ExpectWhole(*shown, absl::StrCat("seed ", seed));
      ASSERT_EQ(shown->time().devices_size(), 1);
      const v1::DeviceTime& device = shown->time().devices(0);
      int tasks = 0;
      const double own = Truth(farm, "w0/gpu0", *shown, false, &tasks);
      EXPECT_NEAR(Seconds(device, Work()), own, kWaySeconds * tasks) << "seed " << seed;
      tasks = 1;
      const double others = Truth(farm, "w0/gpu0", *shown, true, &tasks);
      EXPECT_NEAR(Seconds(device, {"others"}), others, kWaySeconds * tasks) << "seed " << seed;
      EXPECT_GE(Seconds(device, Work()) + Seconds(device, {"others"}),
                0.7 * (shown->time().elapsed_seconds() - Seconds(device, {"first"})))
          << "seed " << seed << ": one device, much to do: " << shown->time().DebugString();
    }
  }
}

// What is measured for a part is the range's own, and the first compiled candidate is the first of
// all; over crashes too.
TEST(AccountProperty, ARangeHasTheTimeOfItsParts) {
  for (int seed = 1; seed <= Seeds(16); ++seed) {
    const bool crashes = seed % 2 == 0;
    InProcessFarm::Options options = Base(seed);
    options.space.configs = 24;
    if (crashes) options.faults.coordinator_crash = 0.01;
    InProcessFarm farm(options);
    v1::SweepSpec spec = FakeSpec();
    spec.mutable_range()->set_name("M");
    spec.mutable_range()->set_low(1);
    spec.mutable_range()->set_high(1024);
    const auto sweep = farm.RunSweep(spec);
    ASSERT_TRUE(sweep.ok()) << sweep.status();
    ASSERT_EQ(sweep->summary().progress().state(), v1::DONE) << "seed " << seed;
    ExpectWhole(farm.meta()->GetSweep(sweep->summary().sweep(), false)->status,
                absl::StrCat("range, seed ", seed));
    double own = 0;
    for (const v1::DeviceTime& device : sweep->time().devices()) {
      own += Seconds(device, Work());
      EXPECT_LT(Seconds(device, {"first"}), 0.2 * sweep->time().elapsed_seconds()) << seed;
      if (crashes) continue;
      EXPECT_GT(Seconds(device, {"decide"}), 0) << "between two phases nothing is under way: seed "
                                                << seed << " " << sweep->time().ShortDebugString();
      EXPECT_EQ(Seconds(device, {"others"}), 0) << "seed " << seed;
      double truth = 0;
      int tasks = 0;
      for (const DeviceSpan& span : farm.spans()) {
        if (span.device != device.device()) continue;
        truth += NsToSeconds(span.ended_ns - span.began_ns);
        ++tasks;
      }
      EXPECT_NEAR(Seconds(device, Work()), truth, kWaySeconds * tasks) << "seed " << seed;
    }
    EXPECT_GT(own, 0) << "seed " << seed;
  }
}

core::SituationTimes Plus(core::SituationTimes a, const core::SituationTimes& b) {
  for (int i = 0; i < core::kSituations; ++i) a[i] += b[i];
  return a;
}
int64_t Total(const core::SituationTimes& times) {
  return std::accumulate(times.begin(), times.end(), int64_t{0});
}

TEST(AccountProperty, ATimelineIsAdditiveAndForgetsNoTime) {
  for (int seed = 1; seed <= Seeds(60); ++seed) {
    Rng rng(seed);
    const bool restarted = seed % 2 == 0;
    core::SituationTimes before{};
    if (restarted) {
      for (int i = 0; i < 5; ++i) before[rng.Below(32)] += static_cast<int64_t>(rng.Below(10'000));
    }
    const int64_t start = Total(before);
    core::Timeline timeline(start, before);
    const int changes = seed % 10 == 0 ? 30'000 : 200;
    int64_t now = start;
    for (int i = 0; i < changes; ++i) {
      now += static_cast<int64_t>(rng.Below(50));
      timeline.Set(now, static_cast<core::Situation>(rng.Below(32)));
    }
    for (int i = 0; i < 100; ++i) {
      int64_t cut[3];
      for (int64_t& at : cut) at = static_cast<int64_t>(rng.Below(now + 100));
      std::sort(std::begin(cut), std::end(cut));
      const core::SituationTimes all = timeline.Between(cut[0], cut[2]);
      EXPECT_EQ(Total(all), cut[2] - cut[0]) << "seed " << seed;
      for (const int64_t ns : all) EXPECT_GE(ns, 0) << "seed " << seed;
      if (cut[0] < timeline.known_from()) continue;
      EXPECT_EQ(Plus(timeline.Between(cut[0], cut[1]), timeline.Between(cut[1], cut[2])), all);
    }
    EXPECT_EQ(Total(timeline.Between(0, now)), now);
  }
}

}  // namespace
}  // namespace kiln::testing
