// What clients ask of the core.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "coordinator/core/core_impl.h"
#include "coordinator/core/identity.h"

namespace kiln::core {
namespace {

constexpr char kCpu[] = "cpu";
constexpr char kGpu[] = "gpu";

bool IsGpu(absl::string_view arch) { return absl::StartsWith(arch, "sm_"); }

bool Matches(const v1::ArchRecord& arch, const std::string& target) {
  if (target == kCpu || target == kGpu) return IsGpu(arch.name()) == (target == kGpu);
  return arch.name() == target || arch.device_model() == target;
}

v1::ArchRecord ArchNamed(const std::string& name) {
  v1::ArchRecord arch;
  arch.set_name(name);
  return arch;
}

}  // namespace

absl::Status Core::Impl::Admit(const v1::SweepSpec& spec) const {
  if (static_cast<int>(sweeps_.size()) >= options_.max_active_sweeps) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the farm runs ", sweeps_.size(), " sweeps, its limit; submit again when some are done"));
  }
  int of_user = 0;
  for (const auto& [digest, sweep] : sweeps_) of_user += sweep->user() == spec.user();
  if (of_user >= options_.max_active_sweeps_per_user) {
    return absl::ResourceExhaustedError(absl::StrCat("user '", spec.user(), "' runs ", of_user,
                                                     " sweeps, the limit for one user; submit "
                                                     "again when some are done"));
  }
  return absl::OkStatus();
}

void Core::Impl::ReplyStatus(RequestId request, absl::Status status) {
  out_.replies.push_back({request, std::move(status)});
}

// The first request started the sweep, if anybody did; the others joined.
void Core::Impl::ReplySubmit(const PendingSubmit& pending, v1::SubmitSweepResponse response,
                             bool created) {
  for (RequestId request : pending.requests) {
    response.set_joined(!created && !response.answered());
    out_.replies.push_back({request, ReplyBody(response)});
    created = false;
  }
}

// A part of a range is from now on a sweep of its own too: it is listed, and does not end with the
// range.
void Core::Impl::NoteAsked(Sweep* sweep) {
  if (sweep->row.parent().empty() || sweep->status.asked()) return;
  sweep->status.set_asked(true);
  sweep->status_dirty = true;
}

void Core::Impl::On(Submit& event) {
  const absl::Status valid = NormaliseSpec(&event.spec);
  if (!valid.ok()) return ReplyStatus(event.request, valid);
  const absl::Status admitted = Admit(event.spec);
  PendingSubmit pending;
  pending.requests = {event.request};
  pending.asked_ns = now_.mono_ns;
  pending.spec_digest = SpecDigest(event.spec);
  pending.spec = std::move(event.spec);
  if (IsEmptySweep(pending.spec)) {
    if (!admitted.ok()) return ReplyStatus(event.request, admitted);
    v1::SubmitSweepResponse response;
    response.set_sweep(CreateEmptySweep(pending.spec)->digest());
    return ReplySubmit(pending, response, true);
  }
  for (const auto& [digest, sweep] : sweeps_) {
    if (sweep->row.spec_digest() != pending.spec_digest || sweep->terminal()) continue;
    v1::SubmitSweepResponse response;
    response.set_sweep(digest);
    NoteAsked(sweep.get());
    return ReplySubmit(pending, response, false);
  }
  if (!admitted.ok()) return ReplyStatus(event.request, admitted);
  StartOrWait(std::move(pending));
}

void Core::Impl::On(Lookup& event) {
  const absl::Status valid = NormaliseSpec(&event.spec);
  if (!valid.ok()) return ReplyStatus(event.request, valid);
  if (event.spec.objective() == v1::SweepSpec::COMPILE) {
    v1::LookupWinnerResponse response;
    response.set_miss_reason("a sweep with objective compile has no winner");
    out_.replies.push_back({event.request, ReplyBody(response)});
    return;
  }
  PendingSubmit pending;
  pending.requests = {event.request};
  pending.spec_digest = SpecDigest(event.spec);
  pending.users = {event.spec.user()};
  pending.spec = std::move(event.spec);
  pending.lookup = true;
  pending.match = event.match;
  StartOrWait(std::move(pending));
}

// The record of the most profile slots; ties by name.
bool Core::Impl::ResolveArch(const v1::SweepSpec& spec, v1::ArchRecord* arch) const {
  std::map<std::pair<std::string, std::string>, std::pair<int, const v1::ArchRecord*>> found;
  for (const auto& [name, worker] : workers_) {
    if (worker->connection == 0) continue;
    for (const v1::ArchRecord& record : worker->info.archs()) {
      if (!Matches(record, spec.target()) || worker->profile_slots(record) == 0) continue;
      auto& [slots, first] = found[{record.name(), record.device_model()}];
      slots += worker->profile_slots(record);
      if (first == nullptr) first = &record;
    }
  }
  int best = 0;
  for (const auto& [key, entry] : found) {
    if (entry.first <= best) continue;
    best = entry.first;
    *arch = *entry.second;
  }
  if (best > 0) return true;
  if (spec.objective() != v1::SweepSpec::COMPILE || spec.target() == kCpu ||
      spec.target() == kGpu) {
    return false;
  }
  arch->set_name(spec.target());  // nothing runs on it: the expander's own table will do
  return true;
}

// The device of a worker that was here once, the latest first: what is stored for it can be looked
// up, though nothing can be tuned for it now.
bool Core::Impl::ResolveKnownArch(const std::string& target, v1::ArchRecord* arch) const {
  const v1::ArchRow* latest = nullptr;
  for (const v1::ArchRow& row : known_archs_) {
    if (!Matches(row.arch(), target)) continue;
    if (latest == nullptr || row.seen_unix_ms() > latest->seen_unix_ms()) latest = &row;
  }
  if (latest != nullptr) *arch = latest->arch();
  return latest != nullptr;
}

std::string Core::Impl::ArchMissText(const std::string& target) const {
  std::set<std::string> known;
  std::string quarantined;
  for (const auto& [name, worker] : workers_) {
    if (worker->connection == 0) continue;
    for (const v1::QuarantinedDevice& device : worker->info.quarantined()) {
      absl::StrAppend(&quarantined, "; ", device.device(), " of ", name, " is quarantined");
    }
    for (const v1::ArchRecord& record : worker->info.archs()) known.insert(record.name());
  }
  return absl::StrCat(
      "no worker with a profile slot has reported a device for target '", target, "'; ",
      known.empty() ? "no worker is attached"
                    : absl::StrCat("reported: ", absl::StrJoin(known, ", ")),
      quarantined,
      ". Start kiln-worker --coordinator ADDRESS on a machine that has one, or name "
      "another target");
}

std::string Core::Impl::NoTargetText(const std::string& target) const {
  std::set<std::string> models;
  for (const v1::ArchRow& row : known_archs_) {
    if (!row.arch().device_model().empty()) models.insert(row.arch().device_model());
  }
  return absl::StrCat(
      "there is no target '", target, "', and no worker has reported a device of that model",
      models.empty() ? "" : absl::StrCat(" (but '", absl::StrJoin(models, "', '"), "')"),
      "; architectures are ", absl::StrJoin(options_.targets, ", "));
}

void Core::Impl::StartOrWait(PendingSubmit pending) {
  const auto same = [&](const PendingSubmit& other) {
    return other.range.empty() && other.lookup == pending.lookup && other.match == pending.match &&
           other.spec_digest == pending.spec_digest;
  };
  const auto join = [&](PendingSubmit* other) {
    other->requests.push_back(pending.requests.front());
    other->users.insert(pending.users.begin(), pending.users.end());
  };
  for (auto& [job, other] : jobs_) {
    if (same(other)) return join(&other);
  }
  for (PendingSubmit& other : arch_waits_) {
    if (same(other)) return join(&other);
  }
  if (static_cast<int>(jobs_.size() + arch_waits_.size()) >= options_.max_pending_submits) {
    return ReplyStatus(pending.requests.front(),
                       absl::ResourceExhaustedError(
                           "the farm's queue of new sweeps is full; submit again in a moment"));
  }
  if (ResolveArch(pending.spec, &pending.arch)) return StartExpansion(std::move(pending));
  if (pending.lookup && ResolveKnownArch(pending.spec.target(), &pending.arch)) {
    return StartExpansion(std::move(pending));
  }
  const std::set<std::string>& names = options_.targets;
  if (!names.empty() && names.count(pending.spec.target()) == 0) {
    return ReplyStatus(pending.requests.front(),
                       absl::InvalidArgumentError(NoTargetText(pending.spec.target())));
  }
  if (pending.lookup) {
    // No such device was ever here: of what is stored, an architecture's own name says enough.
    const std::string& target = pending.spec.target();
    if (target != kCpu && target != kGpu && names.count(target) > 0) {
      pending.arch.set_name(target);
      return StartExpansion(std::move(pending));
    }
    v1::LookupWinnerResponse response;
    response.set_miss_reason(ArchMissText(target));
    CountMiss(pending, RequestDigest(pending.spec, ArchNamed(target)), response.miss_reason());
    out_.replies.push_back({pending.requests.front(), ReplyBody(response)});
    return;
  }
  pending.wait_until_ns = now_.mono_ns + SecondsToNs(options_.arch_wait_seconds);
  if (ResolveKnownArch(pending.spec.target(), &pending.arch)) {
    pending.stored_only = true;
    return StartExpansion(std::move(pending));
  }
  arch_waits_.push_back(std::move(pending));
}

void Core::Impl::StartExpansion(PendingSubmit pending) {
  pending.job = next_job_++;
  ExpandJob job{pending.job, pending.spec, pending.arch, {}, pending.lookup, pending.match};
  FindTools(pending.arch, &job.tools);
  out_.expand.push_back(std::move(job));
  jobs_.emplace(pending.job, std::move(pending));
}

void Core::Impl::RetryArchWaits() {
  for (auto it = arch_waits_.begin(); it != arch_waits_.end();) {
    if (!ResolveArch(it->spec, &it->arch)) {
      ++it;
      continue;
    }
    StartExpansion(std::move(*it));
    it = arch_waits_.erase(it);
  }
}

void Core::Impl::ExpireArchWaits() {
  for (auto it = arch_waits_.begin(); it != arch_waits_.end();) {
    if (it->wait_until_ns > now_.mono_ns) {
      ++it;
      continue;
    }
    for (RequestId request : it->requests) {
      ReplyStatus(request, absl::FailedPreconditionError(ArchMissText(it->spec.target())));
    }
    it = arch_waits_.erase(it);
  }
}

void Core::Impl::On(Expanded& event) {
  auto it = jobs_.find(event.job);
  if (it == jobs_.end()) return;
  const PendingSubmit pending = std::move(it->second);
  jobs_.erase(it);
  if (!pending.range.empty()) return StartAtSize(pending, event);
  if (!event.status.ok()) {
    for (RequestId request : pending.requests) ReplyStatus(request, event.status);
    return;
  }
  if (pending.lookup) return AnswerLookup(pending, event);
  AnswerSubmit(pending, event);
}

void Core::Impl::AnswerLookup(const PendingSubmit& pending, Expanded& event) {
  v1::LookupWinnerResponse& response = event.lookup;
  if (event.winner.has_value()) {
    if (response.matched() == v1::EXACT) misses_.Drop(event.problem_key, &out_.batch);
    *response.mutable_winner() = *std::move(event.winner);
    Observe(Observation::Kind::kLookup, absl::AsciiStrToLower(v1::Match_Name(response.matched())),
            static_cast<double>(pending.requests.size()));
  } else {
    CountMiss(pending, event.problem_key, response.miss_reason());
  }
  for (RequestId request : pending.requests) {
    out_.replies.push_back({request, ReplyBody(response)});
  }
}

void Core::Impl::CountMiss(const PendingSubmit& pending, const std::string& id,
                           const std::string& reason) {
  const auto count = static_cast<int64_t>(pending.requests.size());
  const int evicted =
      misses_.Add({id, pending.spec, pending.users, count, reason}, now_, &out_.batch);
  Observe(Observation::Kind::kLookup, "miss", static_cast<double>(count));
  if (evicted > 0) Observe(Observation::Kind::kMissEvicted, "", evicted);
}

// A winner of the problem is stored. A miss from before its device was known has another id.
void Core::Impl::DropMiss(const std::string& problem_key, const v1::SweepSpec& spec) {
  misses_.Drop(problem_key, &out_.batch);
  misses_.Drop(RequestDigest(spec, ArchNamed(spec.target())), &out_.batch);
}

void Core::Impl::On(ListMisses& event) {
  v1::ListMissesResponse response;
  response.set_total(misses_.size());
  for (const v1::MissCountRow* row : misses_.List(event.limit)) {
    v1::Miss* miss = response.add_misses();
    miss->set_id(row->id());
    miss->set_count(row->count());
    miss->set_first_unix_ms(row->first_unix_ms());
    miss->set_last_unix_ms(row->last_unix_ms());
    *miss->mutable_users() = row->users();
    miss->set_more_users(row->more_users());
    miss->set_reason(row->reason());
  }
  out_.replies.push_back({event.request, ReplyBody(std::move(response))});
}

void Core::Impl::On(ClearMisses& event) {
  v1::ClearMissesResponse response;
  int64_t cleared = event.ids.empty() ? misses_.DropAll(&out_.batch) : 0;
  for (const std::string& id : event.ids) cleared += misses_.Drop(id, &out_.batch);
  response.set_cleared(cleared);
  out_.replies.push_back({event.request, ReplyBody(response)});
}

void Core::Impl::AnswerSubmit(const PendingSubmit& pending, Expanded& event) {
  v1::SubmitSweepResponse response;
  if (event.winner.has_value()) {
    DropMiss(event.winner->problem_key(), pending.spec);
    misses_.Drop(event.problem_key, &out_.batch);  // asked for in other words
    response.set_sweep(event.winner->sweep_digest());
    response.set_answered(true);
    *response.mutable_not_compared() = event.lookup.not_compared();
    *response.mutable_winner() = *std::move(event.winner);
    return ReplySubmit(pending, response, false);
  }
  if (!event.finished_sweep.empty()) {
    response.set_sweep(event.finished_sweep);
    return ReplySubmit(pending, response, false);
  }
  Sweep* active = FindSweep(event.sweep);
  if (active != nullptr) {
    NoteAsked(active);
    response.set_sweep(event.sweep);
    return ReplySubmit(pending, response, false);
  }
  if (pending.stored_only) {
    PendingSubmit again = pending;
    again.stored_only = false;
    if (ResolveArch(again.spec, &again.arch)) return StartExpansion(std::move(again));
    arch_waits_.push_back(std::move(again));
    return;
  }
  absl::Status status = Admit(pending.spec);
  if (event.expansion.candidates.empty()) {
    status = absl::InvalidArgumentError(absl::StrCat("the space has no legal config for ",
                                                     pending.arch.name(), ". ",
                                                     absl::StrJoin(event.expansion.notes, ". ")));
  } else if (static_cast<int>(event.expansion.candidates.size()) > options_.max_candidates) {
    status = absl::ResourceExhaustedError(absl::StrCat(
        "the space lists ", event.expansion.candidates.size(), " configs; the farm's limit is ",
        options_.max_candidates, ". Narrow the tunables or set max_candidates"));
  }
  if (!status.ok()) {
    for (RequestId request : pending.requests) ReplyStatus(request, status);
    return;
  }
  Sweep* created =
      pending.spec.has_range() ? CreateRangeSweep(pending, event) : CreateSweep(pending, event);
  response.set_sweep(created->digest());
  ReplySubmit(pending, response, true);
}

void Core::Impl::On(Cancel& event) {
  Sweep* sweep = FindSweep(event.sweep);
  if (sweep == nullptr) {
    return ReplyStatus(event.request,
                       absl::NotFoundError(absl::StrCat("no active sweep ", event.sweep)));
  }
  v1::CancelSweepResponse response;
  response.set_had_ended(sweep->terminal());
  if (!sweep->terminal()) Finish(sweep, v1::CANCELLED, event.reason);
  response.set_state(sweep->status.state());
  response.set_message(sweep->status.message());
  response.set_finished_unix_ms(sweep->status.finished_unix_ms());
  out_.replies.push_back({event.request, ReplyBody(response)});
}

void Core::Impl::On(GetSweep& event) {
  const Sweep* sweep = FindSweep(event.sweep);
  if (sweep == nullptr) {
    return ReplyStatus(event.request,
                       absl::NotFoundError(absl::StrCat("no active sweep ", event.sweep)));
  }
  out_.replies.push_back({event.request, ReplyBody(Describe(*sweep, event.with_candidates))});
}

void Core::Impl::On(ListActive& event) {
  v1::ListSweepsResponse response;
  for (const auto& [digest, sweep] : sweeps_) *response.add_sweeps() = Summary(*sweep);
  out_.replies.push_back({event.request, ReplyBody(std::move(response))});
}

void Core::Impl::On(ListWorkers& event) {
  v1::ListWorkersResponse response;
  for (const auto& [name, worker] : workers_) *response.add_workers() = Describe(*worker);
  v1::SweepSpec spec;
  spec.set_target(event.target);
  v1::ArchRecord arch;
  if (!event.target.empty() && !ResolveArch(spec, &arch)) {
    response.set_nobody(ArchMissText(event.target));
  }
  out_.replies.push_back({event.request, ReplyBody(std::move(response))});
}

void Core::Impl::On(Watch& event) {
  Sweep* sweep = FindSweep(event.sweep);
  if (sweep == nullptr || sweep->terminal()) {
    out_.publishes.push_back({event.watch,
                              {},
                              absl::NotFoundError(absl::StrCat("no active sweep ", event.sweep)),
                              true});
    return;
  }
  sweep->watchers.insert(event.watch);
  watches_[event.watch] = event.sweep;
  v1::SweepEvent first;
  *first.mutable_progress() = Progress(*sweep);
  out_.publishes.push_back({event.watch, std::move(first), absl::OkStatus(), false});
}

void Core::Impl::On(Unwatch& event) {
  auto it = watches_.find(event.watch);
  if (it == watches_.end()) return;
  Sweep* sweep = FindSweep(it->second);
  if (sweep != nullptr) sweep->watchers.erase(event.watch);
  watches_.erase(it);
}

}  // namespace kiln::core
