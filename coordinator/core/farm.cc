#include "coordinator/core/farm.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "coordinator/core/core.h"
#include "coordinator/core/expansion.h"
#include "coordinator/core/job_pool.h"
#include "coordinator/core/loop.h"
#include "coordinator/core/stored_view.h"

namespace kiln::core {
namespace {

// Reads of the store, which are short. Expansions may take long, and have threads of their own;
// those that a lookup needs do not wait behind those of submits.
constexpr int kReadThreads = 2;
constexpr int kLookupThreads = 1;
constexpr int kExpandThreads = 2;
constexpr int kDefaultPage = 100;
constexpr int kMaxPage = 1000;
constexpr int64_t kMaxQueuedEvents = 1'000'000;
constexpr char kSweepOwner[] = "sweep:";

// Links followed as far as the paths exist.
bool IsInside(const std::filesystem::path& path, const std::filesystem::path& folder) {
  std::error_code error;
  const auto whole = [&](const std::filesystem::path& p) {
    std::filesystem::path out =
        std::filesystem::weakly_canonical(std::filesystem::absolute(p, error), error);
    return out.has_filename() ? out : out.parent_path();
  };
  const std::filesystem::path inner = whole(path), outer = whole(folder);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

class FarmImpl : public Farm, private Outside {
 public:
  FarmImpl(const Parts& parts, const Options& options, uint64_t term)
      : parts_(parts), options_(options), term_(term) {}
  ~FarmImpl() override { FarmImpl::Stop(); }

  absl::Status Open();

  void Stop() override;
  bool AwaitExpansions(double seconds) override;
  absl::Status Health() const override;
  void OnFatal(std::function<void(const absl::Status&)> callback) override;

  void SubmitSweep(v1::SweepSpec spec, Callback<v1::SubmitSweepResponse> done) override;
  void LookupWinner(v1::LookupWinnerRequest request,
                    Callback<v1::LookupWinnerResponse> done) override;
  void ListMisses(const v1::ListMissesRequest& request,
                  Callback<v1::ListMissesResponse> done) override;
  void ClearMisses(const v1::ClearMissesRequest& request,
                   Callback<v1::ClearMissesResponse> done) override;
  void ListBars(const v1::ListBarsRequest& request, Callback<v1::ListBarsResponse> done) override;
  void LiftBars(const v1::LiftBarsRequest& request, Callback<v1::LiftBarsResponse> done) override;
  void ListSweeps(const v1::ListSweepsRequest& request,
                  Callback<v1::ListSweepsResponse> done) override;
  void GetSweep(const v1::GetSweepRequest& request, Callback<v1::GetSweepResponse> done) override;
  void CancelSweep(const v1::CancelSweepRequest& request,
                   Callback<v1::CancelSweepResponse> done) override;
  void ListWorkers(const v1::ListWorkersRequest& request,
                   Callback<v1::ListWorkersResponse> done) override;
  WatchId WatchSweep(std::string sweep, std::shared_ptr<WatchSink> sink) override;
  void Unwatch(WatchId watch) override;
  absl::StatusOr<ArtifactRef> FindArtifact(const v1::FetchWinnerRequest& request) override;
  ConnectionId AttachWorker(std::shared_ptr<WorkerSink> sink) override;
  void WorkerSaid(ConnectionId connection, v1::WorkerMessage message) override;
  void DetachWorker(ConnectionId connection) override;
  absl::StatusOr<v1::CollectGarbageResponse> CollectGarbage(
      const v1::CollectGarbageRequest& request) override;
  absl::StatusOr<v1::BackupResponse> Backup(const v1::BackupRequest& request) override;
  store::BlobStore* blobs() override { return parts_.blobs; }
  FarmGauges Gauges() const override;

 private:
  using RawCallback = std::function<void(absl::StatusOr<ReplyBody>)>;

  void Deliver(Effects effects) override;
  void RepliesFailed(std::vector<Reply> replies, const absl::Status& status) override;
  void Committed(double seconds, int rows) override;
  void Turned(int events, double seconds, const CoreStats& stats) override;
  void Fatal(const absl::Status& status) override;

  // Remembers the callback and posts `event` with its number, unless the farm cannot answer.
  template <typename Response, typename E>
  void Ask(E event, Callback<Response> done);
  void Answer(Reply reply);
  void SendTo(Send& send);
  void Tell(Publish& publish);
  void TellStored(std::string sweep, std::shared_ptr<WatchSink> sink);
  // Tells everybody who waits, and whoever comes later, that it is over.
  void CloseAll(const absl::Status& status);
  void RunJob(const ExpandJob& job);
  std::set<std::string> AbsentArtifacts(const v1::WorkerMessage& message) const;

  const Parts parts_;
  const Options options_;
  const uint64_t term_;
  std::unique_ptr<Core> core_;
  std::unique_ptr<Loop> loop_;
  ProgramCache programs_;
  std::unique_ptr<JobPool> lookups_;
  std::unique_ptr<JobPool> expansions_;
  std::unique_ptr<JobPool> pool_;  // adds to the other two: ends first
  std::atomic<uint64_t> next_id_{1};
  std::atomic<bool> stopped_{false};

  mutable std::mutex mutex_;
  std::unordered_map<RequestId, RawCallback> callbacks_;
  std::unordered_map<ConnectionId, std::shared_ptr<WorkerSink>> workers_;
  struct Watcher {
    std::string sweep;
    std::shared_ptr<WatchSink> sink;
  };
  std::unordered_map<WatchId, Watcher> watchers_;
  std::function<void(const absl::Status&)> on_fatal_;
  CoreStats stats_;
  absl::Status over_;  // not OK: everybody was told so, and nobody is let in any more
};

absl::Status FarmImpl::Open() {
  KILN_ASSIGN_OR_RETURN(store::FarmState state, parts_.meta->Load());
  std::set<std::string> active;
  for (const store::SweepRecord& record : state.active) {
    active.insert(absl::StrCat(kSweepOwner, record.row.digest()));
  }
  // Pins that a crash left behind between the end of a sweep and their release.
  std::set<std::string> stale;
  for (const auto& [digest, owner] : parts_.blobs->Pins()) {
    if (absl::StartsWith(owner, kSweepOwner) && active.count(owner) == 0) stale.insert(owner);
  }
  for (const std::string& owner : stale) {
    KILN_RETURN_IF_ERROR(parts_.blobs->UnpinOwner(owner, ""));
  }
  spdlog::info("term {}: {} active sweeps", term_, state.active.size());
  core_ = std::make_unique<Core>(options_, term_, std::move(state), parts_.clock->Now());
  lookups_ = std::make_unique<JobPool>(kLookupThreads);
  expansions_ = std::make_unique<JobPool>(kExpandThreads);
  pool_ = std::make_unique<JobPool>(kReadThreads);
  loop_ = std::make_unique<Loop>(
      Loop::Parts{core_.get(), parts_.meta, parts_.blobs, parts_.clock, this, term_});
  loop_->Start();
  return absl::OkStatus();
}

void FarmImpl::Stop() {
  if (stopped_.exchange(true) || loop_ == nullptr) return;
  loop_->Stop();
  pool_->Stop();
  CloseAll(absl::UnavailableError("the coordinator is stopping"));
}

bool FarmImpl::AwaitExpansions(double seconds) {
  const int64_t limit = parts_.clock->Now().mono_ns + SecondsToNs(seconds);
  if (!lookups_->StopWithin(seconds)) return false;
  const double left = NsToSeconds(limit - parts_.clock->Now().mono_ns);
  return expansions_->StopWithin(std::max(0.0, left));
}

void FarmImpl::CloseAll(const absl::Status& status) {
  std::unordered_map<RequestId, RawCallback> callbacks;
  std::unordered_map<ConnectionId, std::shared_ptr<WorkerSink>> workers;
  std::unordered_map<WatchId, Watcher> watchers;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    over_.Update(status);
    callbacks.swap(callbacks_);
    workers.swap(workers_);
    watchers.swap(watchers_);
  }
  for (auto& [id, callback] : callbacks) callback(status);
  for (auto& [id, sink] : workers) sink->Close(status);
  for (auto& [id, watcher] : watchers) watcher.sink->OnDone(status);
}

absl::Status FarmImpl::Health() const { return loop_->Health(); }

void FarmImpl::OnFatal(std::function<void(const absl::Status&)> callback) {
  std::lock_guard<std::mutex> lock(mutex_);
  on_fatal_ = std::move(callback);
}

template <typename Response, typename E>
void FarmImpl::Ask(E event, Callback<Response> done) {
  absl::Status health = loop_->Health();
  if (health.ok() && loop_->queued() > kMaxQueuedEvents) {
    health = absl::UnavailableError("the coordinator is overloaded; try again in a moment");
  }
  const RequestId request = next_id_++;
  event.request = request;
  if (health.ok()) {
    std::lock_guard<std::mutex> lock(mutex_);
    health = over_;
    if (health.ok()) {
      callbacks_[request] = [done](absl::StatusOr<ReplyBody> body) {
        if (!body.ok()) return done(body.status());
        done(std::get<Response>(*std::move(body)));
      };
    }
  }
  if (!health.ok()) return done(health);
  loop_->Post(std::move(event));
}

void FarmImpl::Answer(Reply reply) {
  RawCallback callback;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = callbacks_.find(reply.request);
    if (it == callbacks_.end()) return;
    callback = std::move(it->second);
    callbacks_.erase(it);
  }
  callback(std::move(reply.body));
}

void FarmImpl::SubmitSweep(v1::SweepSpec spec, Callback<v1::SubmitSweepResponse> done) {
  Ask<v1::SubmitSweepResponse>(Submit{0, std::move(spec)}, std::move(done));
}

void FarmImpl::LookupWinner(v1::LookupWinnerRequest request,
                            Callback<v1::LookupWinnerResponse> done) {
  const v1::Match match = request.match();
  Ask<v1::LookupWinnerResponse>(Lookup{0, std::move(*request.mutable_spec()), match},
                                std::move(done));
}

// The core has the counts, the store what was asked.
void FarmImpl::ListMisses(const v1::ListMissesRequest& request,
                          Callback<v1::ListMissesResponse> done) {
  if (request.limit() < 0) return done(absl::InvalidArgumentError("limit: must not be negative"));
  Ask<v1::ListMissesResponse>(
      core::ListMisses{0, request.limit()},
      [this, kernels = request.with_kernels(),
       done = std::move(done)](absl::StatusOr<v1::ListMissesResponse> counted) {
        if (!counted.ok()) return done(counted.status());
        auto response = std::make_shared<v1::ListMissesResponse>(*std::move(counted));
        pool_->Add([this, kernels, response, done] {
          const absl::Status filled = FillMisses(parts_.meta, kernels, response.get());
          filled.ok() ? done(std::move(*response)) : done(filled);
        });
      });
}

void FarmImpl::ClearMisses(const v1::ClearMissesRequest& request,
                           Callback<v1::ClearMissesResponse> done) {
  Ask<v1::ClearMissesResponse>(core::ClearMisses{0, {request.ids().begin(), request.ids().end()}},
                               std::move(done));
}

void FarmImpl::ListBars(const v1::ListBarsRequest&, Callback<v1::ListBarsResponse> done) {
  Ask<v1::ListBarsResponse>(core::ListBars{}, std::move(done));
}

void FarmImpl::LiftBars(const v1::LiftBarsRequest& request, Callback<v1::LiftBarsResponse> done) {
  Ask<v1::LiftBarsResponse>(
      core::LiftBars{0, {request.ids().begin(), request.ids().end()}, request.all()},
      std::move(done));
}

void FarmImpl::ListWorkers(const v1::ListWorkersRequest& request,
                           Callback<v1::ListWorkersResponse> done) {
  Ask<v1::ListWorkersResponse>(core::ListWorkers{0, request.target()}, std::move(done));
}

// The store's rows, with what the core knows better of the active ones.
void FarmImpl::ListSweeps(const v1::ListSweepsRequest& request,
                          Callback<v1::ListSweepsResponse> done) {
  int limit = request.limit() == 0 ? kDefaultPage : request.limit();
  if (limit < 0) return done(absl::InvalidArgumentError("limit: must be positive"));
  limit = std::min(limit, kMaxPage);
  absl::StatusOr<store::SweepListing> listing =
      parts_.meta->ListSweeps(limit, request.page_token(),
                              {request.active_only(), request.without_parts(), request.parts_of()});
  if (!listing.ok()) return done(listing.status());
  auto response = std::make_shared<v1::ListSweepsResponse>();
  for (const auto& [row, status] : listing->sweeps) {
    *response->add_sweeps() = SummaryOf(row, status);
  }
  response->set_next_page_token(listing->next_page_token);
  Ask<v1::ListSweepsResponse>(ListActive{}, [response, done = std::move(done)](
                                                absl::StatusOr<v1::ListSweepsResponse> live) {
    if (!live.ok()) return done(live.status());
    std::map<std::string, v1::SweepSummary*> by_digest;
    for (v1::SweepSummary& sweep : *response->mutable_sweeps()) by_digest[sweep.sweep()] = &sweep;
    for (v1::SweepSummary& sweep : *live->mutable_sweeps()) {
      auto it = by_digest.find(sweep.sweep());
      if (it != by_digest.end()) *it->second = std::move(sweep);
    }
    done(std::move(*response));
  });
}

void FarmImpl::GetSweep(const v1::GetSweepRequest& request, Callback<v1::GetSweepResponse> done) {
  absl::StatusOr<std::string> digest = parts_.meta->ResolveSweep(request.sweep());
  if (!digest.ok()) return done(digest.status());
  Ask<v1::GetSweepResponse>(
      core::GetSweep{0, *digest, request.with_candidates()},
      [this, digest = *digest, all = request.with_candidates(),
       done = std::move(done)](absl::StatusOr<v1::GetSweepResponse> live) {
        if (!absl::IsNotFound(live.status())) return done(std::move(live));
        pool_->Add([this, digest, all, done] { done(StoredSweep(parts_.meta, digest, all)); });
      });
}

void FarmImpl::CancelSweep(const v1::CancelSweepRequest& request,
                           Callback<v1::CancelSweepResponse> done) {
  absl::StatusOr<std::string> digest = parts_.meta->ResolveSweep(request.sweep());
  if (!digest.ok()) return done(digest.status());
  Ask<v1::CancelSweepResponse>(
      Cancel{0, *digest, request.reason()}, [this, digest = *digest, done = std::move(done)](
                                                absl::StatusOr<v1::CancelSweepResponse> live) {
        if (!absl::IsNotFound(live.status())) return done(std::move(live));
        pool_->Add([this, digest, done] {  // over already: say how
          absl::StatusOr<store::SweepRecord> record = parts_.meta->GetSweep(digest, false);
          if (!record.ok()) return done(record.status());
          v1::CancelSweepResponse response;
          response.set_state(record->status.state());
          response.set_had_ended(true);
          response.set_message(record->status.message());
          response.set_finished_unix_ms(record->status.finished_unix_ms());
          done(response);
        });
      });
}

WatchId FarmImpl::WatchSweep(std::string sweep, std::shared_ptr<WatchSink> sink) {
  const WatchId watch = next_id_++;
  absl::StatusOr<std::string> digest = parts_.meta->ResolveSweep(sweep);
  absl::Status bad = digest.status();
  if (bad.ok()) bad = loop_->Health();
  if (bad.ok()) {
    std::lock_guard<std::mutex> lock(mutex_);
    bad = over_;
    if (bad.ok()) watchers_[watch] = {*digest, sink};
  }
  if (!bad.ok()) {
    sink->OnDone(bad);
    return watch;
  }
  loop_->Post(Watch{watch, *digest});
  return watch;
}

void FarmImpl::Unwatch(WatchId watch) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    watchers_.erase(watch);
  }
  loop_->Post(core::Unwatch{watch});
}

absl::StatusOr<ArtifactRef> FarmImpl::FindArtifact(const v1::FetchWinnerRequest& request) {
  StoredArtifact found;
  if (!request.winner_key().empty()) {
    KILN_ASSIGN_OR_RETURN(found, FindWinnerArtifact(parts_.meta, request.winner_key()));
  } else {
    KILN_ASSIGN_OR_RETURN(const std::string digest, parts_.meta->ResolveSweep(request.sweep()));
    KILN_ASSIGN_OR_RETURN(found, FindStoredArtifact(parts_.meta, digest, request.config()));
  }
  ArtifactRef out;
  absl::StatusOr<int64_t> size = parts_.blobs->Size(found.digest);
  if (!size.ok()) {
    return absl::NotFoundError(absl::StrCat("the artifact of '", found.info.config(),
                                            "' has been collected; submit the sweep again"));
  }
  out.size_bytes = *size;
  out.info = std::move(found.info);
  out.digest = std::move(found.digest);
  return out;
}

ConnectionId FarmImpl::AttachWorker(std::shared_ptr<WorkerSink> sink) {
  const ConnectionId connection = next_id_++;
  absl::Status over;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    over = over_;
    if (over.ok()) workers_[connection] = sink;
  }
  if (!over.ok()) {
    sink->Close(over);
    return connection;
  }
  loop_->Post(WorkerAttached{connection});
  return connection;
}

void FarmImpl::WorkerSaid(ConnectionId connection, v1::WorkerMessage message) {
  std::set<std::string> absent = AbsentArtifacts(message);
  loop_->Post(core::WorkerSaid{connection, std::move(message), std::move(absent)});
}

// Workers put an artifact before they report it.
std::set<std::string> FarmImpl::AbsentArtifacts(const v1::WorkerMessage& message) const {
  std::set<std::string> absent;
  const auto look = [&](const v1::TaskResult& result) {
    for (const v1::CandidateResult& candidate : result.candidates()) {
      const std::string& digest = candidate.artifact().digest();
      if (!digest.empty() && !parts_.blobs->Contains(digest)) absent.insert(digest);
    }
  };
  for (const v1::TaskResult& result : message.results().results()) look(result);
  for (const v1::TaskResult& result : message.register_().unacknowledged()) look(result);
  return absent;
}

void FarmImpl::DetachWorker(ConnectionId connection) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    workers_.erase(connection);
  }
  loop_->Post(WorkerDetached{connection});
}

absl::StatusOr<v1::CollectGarbageResponse> FarmImpl::CollectGarbage(
    const v1::CollectGarbageRequest& request) {
  if (request.target_bytes() < 0) {
    return absl::InvalidArgumentError("target_bytes: must not be negative");
  }
  KILN_ASSIGN_OR_RETURN(const store::BlobGcResult result,
                        parts_.blobs->CollectGarbage(request.target_bytes(), request.dry_run()));
  v1::CollectGarbageResponse response;
  response.set_bytes_before(result.bytes_before);
  response.set_bytes_after(result.bytes_after);
  response.set_artifacts_dropped(result.dropped);
  return response;
}

absl::StatusOr<v1::BackupResponse> FarmImpl::Backup(const v1::BackupRequest& request) {
  const std::filesystem::path directory(request.directory());
  if (!directory.is_absolute()) {
    return absl::InvalidArgumentError(
        absl::StrCat("directory '", request.directory(), "': must be an absolute path"));
  }
  std::error_code error;
  if (!parts_.store_directory.empty() && IsInside(directory, parts_.store_directory)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "directory '", request.directory(), "': lies in the store itself (", parts_.store_directory,
        "), where the next backup and the store's own files would mix; name one elsewhere"));
  }
  if (std::filesystem::exists(directory, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat(request.directory(), " exists; name a directory that does not"));
  }
  if (!std::filesystem::create_directories(directory, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot create ", request.directory(), ": ", error.message()));
  }
  // Metadata first: every blob that it names is then in the later copy of the blobs.
  KILN_ASSIGN_OR_RETURN(const int64_t meta, parts_.meta->Checkpoint((directory / "meta").string()));
  KILN_ASSIGN_OR_RETURN(const int64_t blobs,
                        parts_.blobs->Checkpoint((directory / "blobs").string()));
  v1::BackupResponse response;
  response.set_bytes(meta + blobs);
  return response;
}

FarmGauges FarmImpl::Gauges() const {
  FarmGauges out;
  out.term = term_;
  out.queued_events = loop_->queued();
  std::lock_guard<std::mutex> lock(mutex_);
  out.active_sweeps = stats_.active_sweeps;
  out.ready_tasks = stats_.ready_tasks;
  out.leased_tasks = stats_.leased_tasks;
  out.workers = stats_.workers;
  out.misses = stats_.misses;
  out.stale_results = stats_.stale_results;
  out.leases_granted = stats_.leases_granted;
  out.tasks_done = stats_.tasks_done;
  return out;
}

void FarmImpl::Deliver(Effects effects) {
  for (Send& send : effects.sends) SendTo(send);
  for (Reply& reply : effects.replies) Answer(std::move(reply));
  for (Publish& publish : effects.publishes) Tell(publish);
  for (ExpandJob& job : effects.expand) {
    pool_->Add([this, job = std::move(job)] { RunJob(job); });
  }
  if (parts_.observer == nullptr) return;
  for (const Observation& observation : effects.observations) {
    parts_.observer->OnObservation(observation);
  }
}

void FarmImpl::RunJob(const ExpandJob& job) {
  if (stopped_) return;
  std::optional<Expanded> answer = AnswerFromStore(job, parts_.meta, parts_.blobs, &programs_);
  if (answer.has_value()) {
    loop_->Post(*std::move(answer));
    return;
  }
  JobPool* const pool = job.lookup_only ? lookups_.get() : expansions_.get();
  pool->Add([this, job] {
    if (stopped_) return;
    loop_->Post(RunExpandJob(job, parts_.expander, parts_.meta, parts_.blobs, &programs_));
  });
}

void FarmImpl::SendTo(Send& send) {
  std::shared_ptr<WorkerSink> sink;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = workers_.find(send.connection);
    if (it == workers_.end()) return;
    sink = it->second;
    if (send.close) workers_.erase(it);
  }
  sink->Send(send.message);
  if (send.close) sink->Close(absl::FailedPreconditionError(send.message.reject().reason()));
}

void FarmImpl::Tell(Publish& publish) {
  Watcher watcher;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = watchers_.find(publish.watch);
    if (it == watchers_.end()) return;
    watcher = it->second;
    if (publish.last) watchers_.erase(it);
  }
  if (absl::IsNotFound(publish.status)) return TellStored(watcher.sweep, watcher.sink);
  if (!publish.status.ok()) return watcher.sink->OnDone(publish.status);
  watcher.sink->OnEvent(publish.event);
  if (publish.last) watcher.sink->OnDone(absl::OkStatus());
}

// The sweep was over before the watch began.
void FarmImpl::TellStored(std::string sweep, std::shared_ptr<WatchSink> sink) {
  pool_->Add([this, sweep = std::move(sweep), sink = std::move(sink)] {
    const absl::StatusOr<v1::SweepEvent> end = StoredEnd(parts_.meta, sweep);
    if (end.ok()) sink->OnEvent(*end);
    sink->OnDone(end.status());
  });
}

void FarmImpl::RepliesFailed(std::vector<Reply> replies, const absl::Status& status) {
  for (Reply& reply : replies) Answer({reply.request, status});
}

void FarmImpl::Committed(double seconds, int rows) {
  if (parts_.observer != nullptr) parts_.observer->OnCommit(seconds, rows);
}

void FarmImpl::Turned(int events, double seconds, const CoreStats& stats) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stats_ = stats;
  }
  if (parts_.observer != nullptr) parts_.observer->OnTurn(events, seconds);
}

void FarmImpl::Fatal(const absl::Status& status) {
  std::function<void(const absl::Status&)> callback;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    callback = std::move(on_fatal_);
  }
  CloseAll(absl::UnavailableError(status.message()));
  if (callback) callback(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Farm>> Farm::Start(const Parts& parts, const Options& options) {
  KILN_ASSIGN_OR_RETURN(const uint64_t term, parts.meta->BeginTerm());
  auto farm = std::make_unique<FarmImpl>(parts, options, term);
  KILN_RETURN_IF_ERROR(farm->Open());
  return farm;
}

}  // namespace kiln::core
