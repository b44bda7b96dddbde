// Keeps the accounts of time (account.h): which sweep is in which situation, and what each device
// that measures did meanwhile.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/core_impl.h"
#include "coordinator/core/identity.h"
#include "coordinator/core/text.h"

namespace kiln::core {
namespace {

constexpr size_t kMaxLanes = 4096;  // of a sweep: a worker may report any device
constexpr size_t kMaxDevice = 256;
constexpr char kAnyDevice[] = "device";  // of workers that do not name it

bool Measures(const Sweep& sweep) {
  return !sweep.compile_only() && !IsEmptySweep(sweep.row.spec());
}

// A range measures through its parts.
bool Owns(const Sweep& sweep, const Sweep& ran) {
  return &sweep == &ran || sweep.at_size.count(ran.digest()) > 0;
}

bool IsOf(const std::string& device, const Worker& worker) {
  return device.size() > worker.name().size() && device[worker.name().size()] == '/' &&
         absl::StartsWith(device, worker.name());
}

}  // namespace

Situation Core::Impl::SituationOf(const Sweep& sweep) const {
  Situation situation = sweep.has_compiled ? kHasCompiled : 0;
  if (sweep.open[kCompilePool] > 0 || !sweep.queued.empty()) situation |= kCompileOpen;
  if (sweep.running[kCompilePool] > 0) situation |= kCompileRuns;
  if (sweep.open[kProfilePool] > sweep.running[kProfilePool]) situation |= kProfileWaits;
  if (sweep.running[kProfilePool] > 0) situation |= kProfileRuns;
  for (const auto& [digest, size] : sweep.at_size) {
    auto part = sweeps_.find(digest);
    if (part != sweeps_.end()) situation |= SituationOf(*part->second);
  }
  return situation;
}

void Core::Impl::NoteSituations() {
  for (const auto& [digest, sweep] : sweeps_) {
    if (sweep->terminal() || IsEmptySweep(sweep->row.spec())) continue;
    const Situation situation = SituationOf(*sweep);
    if ((situation & kHasCompiled) != 0) sweep->has_compiled = true;  // of a range: by its parts
    sweep->timeline.Set(sweep->running_ns(now_.mono_ns), situation);
  }
}

// The sweep's lane of a device; null: it has none, and the device is none for it.
Lane* Core::Impl::LaneOf(Sweep* sweep, const Worker& worker, const std::string& device, bool own) {
  auto found = sweep->lanes.find(device);
  if (found != sweep->lanes.end()) return &found->second;
  if (sweep->lanes.size() >= kMaxLanes) return nullptr;
  const bool able = sweep->row.spec().has_range() ? CanProfile(worker, sweep->row.arch())
                                                  : Eligible(worker, *sweep, kProfilePool);
  if (!own && !(able && worker.measures(device, sweep->row.arch()))) return nullptr;
  Lane* lane = &sweep->lanes[device];
  // It was not there before its worker was. Of earlier incarnations nobody knows.
  lane->SettleTo(sweep->timeline, sweep->base_ns, -1);
  lane->Lose(sweep->timeline, sweep->base_ns, -1);
  lane->Back(sweep->timeline, std::max(sweep->base_ns, sweep->running_ns(worker.attached_ns)));
  return lane;
}

// A worker tells of a task that it measured. What it did for one sweep, it did not do for others.
void Core::Impl::AccountTask(const Worker& worker, const Task& task, const v1::TaskResult& result,
                             int64_t sent_ns) {
  if (task.pool() != kProfilePool) return;
  const std::map<std::string, double> stages(result.seconds().begin(), result.seconds().end());
  int64_t began = now_.mono_ns;
  int64_t ended = now_.mono_ns;
  if (result.began_ns() > 0 && result.ended_ns() >= result.began_ns()) {
    // The worker's clock has another origin; only differences mean something here.
    if (sent_ns > result.ended_ns()) ended -= sent_ns - result.ended_ns();
    began = ended - (result.ended_ns() - result.began_ns());
  } else if (stages.empty()) {
    return;  // it never began
  } else {
    for (const auto& [stage, seconds] : stages) {
      if (seconds > 0 && seconds < 1e6) began -= SecondsToNs(seconds);
    }
  }
  const int64_t leased = task.state == Task::State::kLeased ? task.leased_ns : began;
  const std::string device = absl::StrCat(
      worker.name(), "/", result.device().empty() ? kAnyDevice : Cut(result.device(), kMaxDevice));
  for (const auto& [digest, sweep] : sweeps_) {
    if (sweep->terminal() || !Measures(*sweep)) continue;
    const bool own = Owns(*sweep, *task.sweep);
    Lane* lane = LaneOf(sweep.get(), worker, device, own);
    if (lane == nullptr) continue;
    const auto at = [&](int64_t mono_ns) { return sweep->running_ns(mono_ns); };
    if (own) {
      lane->Own(sweep->timeline, {at(began), at(ended), at(leased), at(now_.mono_ns)}, stages);
      if (!sweep->row.spec().has_range()) sweep->status_dirty = true;  // a range's row is large
    } else {
      lane->Others(sweep->timeline, at(began), at(ended));
    }
  }
}

// When the worker's tasks to measure for a sweep were leased that it may be running: the earliest
// ones, one a slot.
std::vector<int64_t> Core::Impl::OpenLeases(const Sweep& sweep, const Worker& worker) const {
  std::vector<int64_t> leased;
  for (const Task* task : worker.leased) {
    if (task->pool() != kProfilePool || !Owns(sweep, *task->sweep)) continue;
    leased.push_back(sweep.running_ns(task->leased_ns));
  }
  std::sort(leased.begin(), leased.end());
  const auto slots = static_cast<size_t>(std::max(0, worker.info.profile_slots()));
  if (leased.size() > slots) leased.resize(slots);
  return leased;
}

// Those of the worker with, for each, since when it may run something that is not reported; -1: it
// does not. It is not said which device runs what: those that have told nothing for longest do.
std::vector<std::pair<Lane*, int64_t>> Core::Impl::OpenLanes(const Sweep& sweep,
                                                             const Worker& worker,
                                                             Lanes* lanes) const {
  std::vector<std::pair<Lane*, int64_t>> found;
  for (auto& [device, lane] : *lanes) {
    if (IsOf(device, worker)) found.emplace_back(&lane, -1);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.first->settled() < b.first->settled();
  });
  const std::vector<int64_t> leased = OpenLeases(sweep, worker);
  for (size_t i = 0; i < std::min(found.size(), leased.size()); ++i) found[i].second = leased[i];
  return found;
}

void Core::Impl::LoseLanes(Worker* worker) {
  if (worker->lost) return;
  worker->lost = true;
  for (const auto& [digest, sweep] : sweeps_) {
    if (sweep->terminal()) continue;
    for (auto& [lane, open] : OpenLanes(*sweep, *worker, &sweep->lanes)) {
      lane->Lose(sweep->timeline, sweep->running_ns(now_.mono_ns), open);
    }
  }
}

// The worker is there, but a device that is quarantined is not.
void Core::Impl::BackLanes(Worker* worker) {
  worker->lost = false;
  std::set<std::string> gone;
  for (const v1::QuarantinedDevice& device : worker->info.quarantined()) {
    gone.insert(absl::StrCat(worker->name(), "/", device.device()));
  }
  for (const auto& [digest, sweep] : sweeps_) {
    if (sweep->terminal()) continue;
    const int64_t now = sweep->running_ns(now_.mono_ns);
    for (auto& [device, lane] : sweep->lanes) {
      if (!IsOf(device, *worker)) continue;
      if (gone.count(device) == 0) {
        lane.Back(sweep->timeline, now);
      } else {
        lane.Lose(sweep->timeline, now, lane.settled());  // what it ran last does not count
      }
    }
  }
}

// The lanes up to now.
Lanes Core::Impl::LanesNow(const Sweep& sweep) const {
  Lanes lanes = sweep.lanes;
  if (sweep.terminal()) return lanes;
  const int64_t now = sweep.running_ns(now_.mono_ns);
  for (const auto& [name, worker] : workers_) {
    for (auto& [lane, open] : OpenLanes(sweep, *worker, &lanes)) {
      lane->SettleTo(sweep.timeline, now, open);
    }
  }
  for (auto& [device, lane] : lanes)
    lane.SettleTo(sweep.timeline, now, -1);  // of workers forgotten
  return lanes;
}

void Core::Impl::CloseLanes(Sweep* sweep) {
  sweep->lanes = LanesNow(*sweep);
  sweep->ended_ns = now_.mono_ns;
  if (sweep->row.spec().has_range()) return;  // its parts have told
  for (const auto& [device, lane] : sweep->lanes) {
    if (!lane.worked()) continue;
    for (int i = 0; i < kParts; ++i) {
      const auto part = static_cast<Part>(i);
      if (lane.at(part) == 0) continue;
      Observe(Observation::Kind::kDeviceSeconds, PartName(part), NsToSeconds(lane.at(part)));
    }
  }
}

void Core::Impl::FillAccount(const Sweep& sweep, const Lanes& lanes,
                             v1::SweepStatusRow* row) const {
  row->clear_situation_ns();
  row->clear_lanes();
  if (IsEmptySweep(sweep.row.spec())) return;
  const SituationTimes times = sweep.timeline.Between(0, sweep.running_ns(now_.mono_ns));
  for (int i = 0; i < kSituations; ++i) {
    if (times[i] != 0) (*row->mutable_situation_ns())[static_cast<uint32_t>(i)] = times[i];
  }
  for (const auto& [device, lane] : lanes) {
    if (lane.worked()) *row->add_lanes() = lane.ToRow(device);
  }
}

}  // namespace kiln::core
