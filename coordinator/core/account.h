// Where the time of a sweep goes, by the coordinator's clock: cut into parts that are disjoint and
// add up to the elapsed time, for the sweep as a whole and for each device that measures for it.
//
// Pure bookkeeping. All times are nanoseconds of the sweep's running time: 0 is its start, and no
// time passes while no coordinator runs.
#ifndef KILN_COORDINATOR_CORE_ACCOUNT_H_
#define KILN_COORDINATOR_CORE_ACCOUNT_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "kiln/v1/store.pb.h"
#include "kiln/v1/tuning.pb.h"

namespace kiln::core {

// What is open of a sweep at a moment. The bits are stored (SweepStatusRow.situation_ns).
using Situation = uint8_t;
inline constexpr Situation kHasCompiled = 1;   // some candidate is, or once was
inline constexpr Situation kCompileOpen = 2;   // there is something to compile
inline constexpr Situation kCompileRuns = 4;   // of it, something is leased
inline constexpr Situation kProfileWaits = 8;  // a task to measure is not leased
inline constexpr Situation kProfileRuns = 16;  // one is
inline constexpr int kSituations = 32;
using SituationTimes = std::array<int64_t, kSituations>;

// The situations of a sweep, one after another.
class Timeline {
 public:
  // `before`: how the time of earlier incarnations of the coordinator, `now` in all, went by.
  explicit Timeline(int64_t now = 0, const SituationTimes& before = {});
  // From `now` on it is this one. Calls come in order of time.
  void Set(int64_t now, Situation situation);
  // How [from, to) went by; adds up to to - from. Exact, but for times so long ago that only their
  // sums are kept. `to` may be later than the last Set.
  SituationTimes Between(int64_t from, int64_t to) const;
  int64_t known_from() const { return known_from_; }

 private:
  int64_t known_from_ = 0;
  SituationTimes before_{};                            // of [0, known_from_)
  std::deque<std::pair<int64_t, Situation>> changes_;  // the first is at known_from_
};

// What a device does at a moment of the sweep; tuning.proto, DeviceTime, says what each means.
enum class Part {
  kFetch,
  kSetup,
  kCheck,
  kWarmup,
  kMeasure,
  kCount,
  kHealth,
  kOther,
  kUnreported,
  kOthers,
  kFirst,
  kCompile,
  kQueue,
  kHandover,
  kPeers,
  kDecide,
  kTurn,
  kCompany,
  kLost
};
inline constexpr int kParts = static_cast<int>(Part::kLost) + 1;
const char* PartName(Part part);

// One device's time. What it does is known only when its worker reports it: up to `settled` the
// account is made. Each call moves `settled` on, never back.
class Lane {
 public:
  Lane() = default;
  explicit Lane(const v1::LaneRow& row);
  v1::LaneRow ToRow(const std::string& device) const;

  // A task of this sweep ran in [began, ended), as far as nothing else was settled there. It was
  // leased at `leased`, and `now` is when its report came. `stages`: TaskResult.seconds.
  struct Work {
    int64_t began = 0, ended = 0, leased = 0, now = 0;
  };
  void Own(const Timeline& timeline, const Work& work, const std::map<std::string, double>& stages);
  // One of another sweep did.
  void Others(const Timeline& timeline, int64_t began, int64_t ended);
  // Nothing more is to come about the time until `now`. From `open` on, if that is not negative,
  // it ran something that was not reported.
  void SettleTo(const Timeline& timeline, int64_t now, int64_t open);
  // From here on its worker is away. What it had leased since `open` is lost.
  void Lose(const Timeline& timeline, int64_t now, int64_t open);
  void Back(const Timeline& timeline, int64_t now);

  int64_t settled() const { return settled_; }
  bool worked() const { return worked_; }
  int64_t at(Part part) const { return parts_[static_cast<int>(part)]; }

 private:
  void Add(Part part, int64_t until);
  void AddWaits(const Timeline& timeline, int64_t until);
  // Waits until `until`; `leased`: since then a task was on its way here, negative = none was.
  void Wait(const Timeline& timeline, int64_t until, int64_t leased);
  void AddStages(int64_t until, const std::map<std::string, double>& stages);

  std::array<int64_t, kParts> parts_{};
  int64_t settled_ = 0;
  int64_t reported_ = 0;  // the way of the last report ended then
  bool worked_ = false;
  bool lost_ = false;
};

// The answer to clients. Empty where the row holds no account.
v1::TimeAccount TimeOf(const v1::SweepStatusRow& row);

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_ACCOUNT_H_
