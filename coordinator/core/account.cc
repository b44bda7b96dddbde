#include "coordinator/core/account.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kiln::core {
namespace {

constexpr size_t kMaxChanges = 1024;  // kept of a sweep; of earlier ones the sums
constexpr double kNsPerS = 1e9;

constexpr const char* kPartNames[kParts] = {"fetch",  "setup",   "check",   "warmup",     "measure",
                                            "count",  "health",  "other",   "unreported", "others",
                                            "first",  "compile", "queue",   "handover",   "peers",
                                            "decide", "turn",    "company", "lost"};

// A runner's stage; kOther: it has no part of its own.
Part StagePart(const std::string& stage) {
  for (const Part part : {Part::kFetch, Part::kSetup, Part::kCheck, Part::kWarmup, Part::kMeasure,
                          Part::kCount, Part::kHealth, Part::kTurn, Part::kCompany}) {
    if (stage == PartName(part)) return part;
  }
  return Part::kOther;
}

// Why a device that does nothing waits.
Part WaitPart(Situation s) {
  if ((s & kHasCompiled) == 0) return Part::kFirst;
  if ((s & kProfileWaits) != 0) return Part::kQueue;
  if ((s & kCompileOpen) != 0) return Part::kCompile;
  return (s & kProfileRuns) != 0 ? Part::kPeers : Part::kDecide;
}

const char* SweepPart(Situation s) {
  const bool compiles = (s & kCompileRuns) != 0;
  const bool measures = (s & kProfileRuns) != 0;
  if (compiles) return measures ? "both" : "compile";
  if (measures) return "profile";
  return (s & (kProfileWaits | kCompileOpen)) != 0 ? "queue" : "decide";
}

bool IsIdle(Part part) {
  return part == Part::kFetch || part == Part::kHealth || part == Part::kOther ||
         part > Part::kFirst;
}

int64_t Sum(const SituationTimes& times) {
  return std::accumulate(times.begin(), times.end(), int64_t{0});
}

}  // namespace

const char* PartName(Part part) { return kPartNames[static_cast<int>(part)]; }

Timeline::Timeline(int64_t now, const SituationTimes& before) : known_from_(now), before_(before) {
  before_[0] += now - Sum(before);  // of older programs, which kept none
  changes_.emplace_back(now, 0);
}

void Timeline::Set(int64_t now, Situation situation) {
  if (changes_.back().second == situation) return;
  now = std::max(now, changes_.back().first);
  if (changes_.back().first == now) {
    changes_.back().second = situation;
  } else {
    changes_.emplace_back(now, situation);
  }
  if (changes_.size() <= kMaxChanges) return;
  for (size_t i = 0; i < kMaxChanges / 2; ++i) {
    before_[changes_[0].second] += changes_[1].first - changes_[0].first;
    changes_.pop_front();
  }
  known_from_ = changes_.front().first;
}

SituationTimes Timeline::Between(int64_t from, int64_t to) const {
  SituationTimes times{};
  if (to <= from) return times;
  if (from < known_from_) {
    const int64_t early = std::min(to, known_from_) - from;
    int64_t left = early;
    const double share = static_cast<double>(early) / static_cast<double>(known_from_);
    for (int i = 0; i < kSituations && early < known_from_; ++i) {
      times[i] = std::min(left, static_cast<int64_t>(static_cast<double>(before_[i]) * share));
      left -= times[i];
    }
    if (early == known_from_) {
      times = before_;
    } else {
      const auto most = std::max_element(before_.begin(), before_.end());
      times[most - before_.begin()] += left;
    }
    from += early;
  }
  auto change = std::upper_bound(changes_.begin(), changes_.end(), from,
                                 [](int64_t at, const auto& entry) { return at < entry.first; });
  while (from < to) {  // `change` is the first after `from`, and there is one before
    const int64_t end = change == changes_.end() ? to : std::min(to, change->first);
    times[std::prev(change)->second] += end - from;
    from = end;
    if (change != changes_.end()) ++change;
  }
  return times;
}

Lane::Lane(const v1::LaneRow& row) : settled_(row.settled_ns()), reported_(row.settled_ns()) {
  for (int i = 0; i < kParts; ++i) {
    const auto found = row.parts_ns().find(kPartNames[i]);
    if (found != row.parts_ns().end()) parts_[i] = found->second;
  }
  worked_ = true;  // others are not stored
  lost_ = true;    // until its worker is back
}

v1::LaneRow Lane::ToRow(const std::string& device) const {
  v1::LaneRow row;
  row.set_device(device);
  row.set_settled_ns(settled_);
  for (int i = 0; i < kParts; ++i) {
    if (parts_[i] != 0) (*row.mutable_parts_ns())[kPartNames[i]] = parts_[i];
  }
  return row;
}

void Lane::Add(Part part, int64_t until) {
  if (until <= settled_) return;
  parts_[static_cast<int>(part)] += until - settled_;
  settled_ = until;
}

void Lane::AddWaits(const Timeline& timeline, int64_t until) {
  if (until <= settled_) return;
  const SituationTimes times = timeline.Between(settled_, until);
  for (int i = 0; i < kSituations; ++i) {
    parts_[static_cast<int>(WaitPart(static_cast<Situation>(i)))] += times[i];
  }
  settled_ = until;
}

void Lane::Wait(const Timeline& timeline, int64_t until, int64_t leased) {
  if (lost_) return Add(Part::kLost, until);
  Add(Part::kHandover, std::min(reported_, until));
  AddWaits(timeline, leased < 0 ? until : std::min(leased, until));
  Add(Part::kHandover, until);
}

void Lane::AddStages(int64_t until, const std::map<std::string, double>& stages) {
  double told = 0;
  for (const auto& [stage, seconds] : stages) {
    if (std::isfinite(seconds) && seconds > 0) told += seconds * kNsPerS;
  }
  const int64_t span = until - settled_;
  // More than the span holds where a part of it was settled before.
  const double scale = told > static_cast<double>(span) ? static_cast<double>(span) / told : 1;
  for (const auto& [stage, seconds] : stages) {
    if (!std::isfinite(seconds) || seconds <= 0) continue;
    const auto ns = static_cast<int64_t>(seconds * kNsPerS * scale);
    Add(StagePart(stage), std::min(until, settled_ + ns));
  }
  Add(Part::kOther, until);
}

void Lane::Own(const Timeline& timeline, const Work& work,
               const std::map<std::string, double>& stages) {
  const int64_t began = std::clamp(work.began, settled_, std::max(settled_, work.now));
  const int64_t ended = std::clamp(work.ended, began, std::max(began, work.now));
  Wait(timeline, began, std::max<int64_t>(0, work.leased));
  AddStages(ended, stages);
  reported_ = std::max(reported_, work.now);
  worked_ = true;
}

void Lane::Others(const Timeline& timeline, int64_t began, int64_t ended) {
  Wait(timeline, began, -1);
  Add(Part::kOthers, ended);
}

void Lane::SettleTo(const Timeline& timeline, int64_t now, int64_t open) {
  if (open < 0 || lost_) return Wait(timeline, now, -1);
  Wait(timeline, std::min(open, now), -1);
  Add(Part::kUnreported, now);
}

void Lane::Lose(const Timeline& timeline, int64_t now, int64_t open) {
  Wait(timeline, open < 0 ? now : std::min(open, now), -1);
  Add(Part::kLost, now);
  lost_ = true;
}

void Lane::Back(const Timeline& timeline, int64_t now) {
  if (!lost_) return;
  Wait(timeline, now, -1);
  lost_ = false;
}

v1::TimeAccount TimeOf(const v1::SweepStatusRow& row) {
  v1::TimeAccount out;
  int64_t elapsed = 0;
  std::map<std::string, int64_t> sweep;
  for (const auto& [situation, ns] : row.situation_ns()) {
    sweep[SweepPart(static_cast<Situation>(situation))] += ns;
    elapsed += ns;
  }
  out.set_before_seconds(static_cast<double>(row.before_ns()) / kNsPerS);
  out.set_elapsed_seconds(static_cast<double>(elapsed) / kNsPerS);
  for (const auto& [part, ns] : sweep) {
    if (ns != 0) (*out.mutable_sweep())[part] = static_cast<double>(ns) / kNsPerS;
  }
  for (const v1::LaneRow& lane : row.lanes()) {
    v1::DeviceTime* device = out.add_devices();
    device->set_device(lane.device());
    int64_t idle = 0;
    int64_t first = 0;
    for (int i = 0; i < kParts; ++i) {
      const auto found = lane.parts_ns().find(kPartNames[i]);
      if (found == lane.parts_ns().end()) continue;
      (*device->mutable_seconds())[kPartNames[i]] = static_cast<double>(found->second) / kNsPerS;
      const auto part = static_cast<Part>(i);
      if (IsIdle(part)) idle += found->second;
      if (part == Part::kFirst) first = found->second;
    }
    const int64_t rest = lane.settled_ns() - first;
    if (rest > 0) device->set_idle_share(static_cast<double>(idle) / static_cast<double>(rest));
  }
  return out;
}

}  // namespace kiln::core
