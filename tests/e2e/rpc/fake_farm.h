// A core::Farm without a core: it answers what the test tells it and remembers what it was asked,
// so that the RPC layer and the client are tested against every answer, also those that a real farm
// seldom gives. Blobs are real (the memory store).
#ifndef KILN_TESTS_E2E_RPC_FAKE_FARM_H_
#define KILN_TESTS_E2E_RPC_FAKE_FARM_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "compiler/base/clock.h"
#include "coordinator/core/farm.h"

namespace kiln::test {

class FakeFarm : public core::Farm {
 public:
  FakeFarm() : blobs_(store::NewMemoryBlobStore({}, RealClock::Get())) {}
  ~FakeFarm() override {
    for (std::thread& thread : late_) thread.join();
  }

  // Scripts. `failures` are given to the next calls, one each, before `answers` are.
  void FailNext(int count, absl::Status status) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (int i = 0; i < count; ++i) failures_.push_back(status);
  }
  void SetHealth(absl::Status status) {
    std::lock_guard<std::mutex> lock(mutex_);
    health_ = std::move(status);
  }
  void SetArtifact(core::ArtifactRef artifact) {
    std::lock_guard<std::mutex> lock(mutex_);
    artifact_ = std::move(artifact);
  }
  void LoseArtifact(std::string config) {
    std::lock_guard<std::mutex> lock(mutex_);
    lost_ = std::move(config);
  }
  void SetSweep(v1::GetSweepResponse sweep) {
    std::lock_guard<std::mutex> lock(mutex_);
    sweep_ = std::move(sweep);
  }
  void SetMisses(v1::ListMissesResponse misses) {
    std::lock_guard<std::mutex> lock(mutex_);
    misses_ = std::move(misses);
  }
  void SetBars(v1::ListBarsResponse bars) {
    std::lock_guard<std::mutex> lock(mutex_);
    bars_ = std::move(bars);
  }
  // In place of the 1200.
  void SetSweeps(v1::ListSweepsResponse sweeps) {
    std::lock_guard<std::mutex> lock(mutex_);
    sweeps_ = std::move(sweeps);
  }
  // Called for every watch, on the RPC thread that opens it.
  void OnWatch(std::function<void(std::shared_ptr<core::WatchSink>)> script) {
    std::lock_guard<std::mutex> lock(mutex_);
    on_watch_ = std::move(script);
  }
  void OnWorkerMessage(
      std::function<void(const v1::WorkerMessage&, std::shared_ptr<core::WorkerSink>)> script) {
    std::lock_guard<std::mutex> lock(mutex_);
    on_worker_ = std::move(script);
  }
  absl::Duration backup_time = absl::ZeroDuration();
  // The answer to a submit, but for the sweep's digest, and how long it takes.
  void SetSubmitAnswer(v1::SubmitSweepResponse answer) {
    std::lock_guard<std::mutex> lock(mutex_);
    submit_answer_ = std::move(answer);
  }
  void SetSubmitTime(absl::Duration time) {
    std::lock_guard<std::mutex> lock(mutex_);
    submit_time_ = time;
  }

  std::vector<v1::SweepSpec> submitted() {
    std::lock_guard<std::mutex> lock(mutex_);
    return submitted_;
  }
  std::vector<v1::WorkerMessage> worker_messages() {
    std::lock_guard<std::mutex> lock(mutex_);
    return worker_messages_;
  }
  int attached() {
    std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int>(workers_.size());
  }
  int watches() {
    std::lock_guard<std::mutex> lock(mutex_);
    return open_watches_;
  }

  void Stop() override {}
  bool AwaitExpansions(double) override { return true; }
  absl::Status Health() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return health_;
  }
  void OnFatal(std::function<void(const absl::Status&)> callback) override {}

  void SubmitSweep(v1::SweepSpec spec, core::Callback<v1::SubmitSweepResponse> done) override {
    std::unique_lock<std::mutex> lock(mutex_);
    submitted_.push_back(std::move(spec));
    v1::SubmitSweepResponse response = submit_answer_;
    response.set_sweep(std::string(64, 'a'));
    const absl::Duration time = submit_time_;
    if (time != absl::ZeroDuration()) {
      late_.emplace_back([this, response, done, time] {
        absl::SleepFor(time);
        Answer(response, done);
      });
      return;
    }
    lock.unlock();
    Answer(std::move(response), done);
  }
  void LookupWinner(v1::LookupWinnerRequest request,
                    core::Callback<v1::LookupWinnerResponse> done) override {
    v1::LookupWinnerResponse response;
    response.set_miss_reason("the target differs");
    if (request.match() == v1::COMPATIBLE) {
      response.set_found(true);
      response.set_matched(v1::COMPATIBLE);
      response.mutable_winner()->set_config("block_M=8");
      v1::KeyDifference* const d = response.add_differences();
      d->set_field("driver");
      d->set_stored("550");
      d->set_asked("570");
    }
    Answer(std::move(response), done);
  }
  void ListMisses(const v1::ListMissesRequest& request,
                  core::Callback<v1::ListMissesResponse> done) override {
    v1::ListMissesResponse response;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      response = misses_;
    }
    Answer(std::move(response), done);
  }
  void ClearMisses(const v1::ClearMissesRequest& request,
                   core::Callback<v1::ClearMissesResponse> done) override {
    v1::ClearMissesResponse response;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      response.set_cleared(misses_.misses_size());
      misses_.clear_misses();
    }
    Answer(std::move(response), done);
  }
  void ListBars(const v1::ListBarsRequest& request,
                core::Callback<v1::ListBarsResponse> done) override {
    std::lock_guard<std::mutex> lock(mutex_);
    done(bars_);
  }
  void LiftBars(const v1::LiftBarsRequest& request,
                core::Callback<v1::LiftBarsResponse> done) override {
    v1::LiftBarsResponse response;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const v1::Bar& bar : bars_.bars()) {
      for (const std::string& id : request.ids()) {
        if (bar.id().starts_with(id)) *response.add_lifted() = bar;
      }
      if (request.all()) *response.add_lifted() = bar;
    }
    if (!request.all() && response.lifted_size() == 0) {
      return done(absl::NotFoundError("there is no bar " + request.ids(0)));
    }
    done(response);
  }
  void ListSweeps(const v1::ListSweepsRequest& request,
                  core::Callback<v1::ListSweepsResponse> done) override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (sweeps_.sweeps_size() > 0) return done(sweeps_);
    }
    // 1200 sweeps, by number.
    v1::ListSweepsResponse response;
    const int begin = request.page_token().empty() ? 0 : std::stoi(request.page_token());
    const int end = std::min(1200, begin + request.limit());
    for (int i = begin; i < end; ++i) response.add_sweeps()->set_name(std::to_string(i));
    if (end < 1200) response.set_next_page_token(std::to_string(end));
    Answer(std::move(response), done);
  }
  void GetSweep(const v1::GetSweepRequest& request,
                core::Callback<v1::GetSweepResponse> done) override {
    v1::GetSweepResponse response;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      response = sweep_;
    }
    Answer(std::move(response), done);
  }
  void CancelSweep(const v1::CancelSweepRequest& request,
                   core::Callback<v1::CancelSweepResponse> done) override {
    v1::CancelSweepResponse response;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      response = cancelled_;
      cancelled_.set_had_ended(true);
      cancelled_.set_message(request.reason());
      cancelled_.set_finished_unix_ms(absl::ToUnixMillis(absl::Now()));
    }
    response.set_state(v1::CANCELLED);
    Answer(std::move(response), done);
  }
  void ListWorkers(const v1::ListWorkersRequest& request,
                   core::Callback<v1::ListWorkersResponse> done) override {
    v1::ListWorkersResponse response;
    response.add_workers()->set_name("w0");
    if (!request.target().empty()) response.set_nobody("nobody has a " + request.target());
    Answer(std::move(response), done);
  }

  core::WatchId WatchSweep(std::string sweep, std::shared_ptr<core::WatchSink> sink) override {
    std::function<void(std::shared_ptr<core::WatchSink>)> script;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      script = on_watch_;
      ++open_watches_;
    }
    if (script) script(std::move(sink));
    return 1;
  }
  void Unwatch(core::WatchId watch) override {
    std::lock_guard<std::mutex> lock(mutex_);
    --open_watches_;
  }

  absl::StatusOr<core::ArtifactRef> FindArtifact(const v1::FetchWinnerRequest& request) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failures_.empty()) {
      const absl::Status status = failures_.front();
      failures_.pop_front();
      return status;
    }
    if (artifact_.digest.empty()) return absl::NotFoundError("the sweep has no winner");
    if (!request.config().empty() && request.config() == lost_) {
      return absl::NotFoundError("the artifact of '" + lost_ + "' has been collected");
    }
    return artifact_;
  }

  core::ConnectionId AttachWorker(std::shared_ptr<core::WorkerSink> sink) override {
    std::lock_guard<std::mutex> lock(mutex_);
    workers_[++last_connection_] = std::move(sink);
    return last_connection_;
  }
  void WorkerSaid(core::ConnectionId connection, v1::WorkerMessage message) override {
    std::shared_ptr<core::WorkerSink> sink;
    std::function<void(const v1::WorkerMessage&, std::shared_ptr<core::WorkerSink>)> script;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      worker_messages_.push_back(message);
      sink = workers_[connection];
      script = on_worker_;
    }
    if (script && sink != nullptr) script(message, sink);
  }
  void DetachWorker(core::ConnectionId connection) override {
    std::lock_guard<std::mutex> lock(mutex_);
    workers_.erase(connection);
  }

  absl::StatusOr<v1::CollectGarbageResponse> CollectGarbage(
      const v1::CollectGarbageRequest& request) override {
    v1::CollectGarbageResponse response;
    response.set_bytes_before(100);
    response.set_bytes_after(request.dry_run() ? 100 : 10);
    return response;
  }
  absl::StatusOr<v1::BackupResponse> Backup(const v1::BackupRequest& request) override {
    absl::SleepFor(backup_time);
    v1::BackupResponse response;
    response.set_bytes(7);
    return response;
  }

  store::BlobStore* blobs() override { return blobs_.get(); }
  core::FarmGauges Gauges() const override {
    core::FarmGauges gauges;
    gauges.workers = 3;
    gauges.ready_tasks = 17;
    gauges.term = 5;
    return gauges;
  }

 private:
  template <typename T>
  void Answer(T response, const core::Callback<T>& done) {
    absl::Status status;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!failures_.empty()) {
        status = failures_.front();
        failures_.pop_front();
      }
    }
    if (status.ok()) {
      done(std::move(response));
    } else {
      done(status);
    }
  }

  const std::unique_ptr<store::BlobStore> blobs_;
  mutable std::mutex mutex_;  // guards what follows
  std::deque<absl::Status> failures_;
  absl::Status health_;
  core::ArtifactRef artifact_;
  std::string lost_;  // config whose artifact is gone
  v1::GetSweepResponse sweep_;
  v1::ListMissesResponse misses_;
  v1::ListBarsResponse bars_;
  v1::ListSweepsResponse sweeps_;
  v1::CancelSweepResponse cancelled_;  // of the next call
  std::function<void(std::shared_ptr<core::WatchSink>)> on_watch_;
  std::function<void(const v1::WorkerMessage&, std::shared_ptr<core::WorkerSink>)> on_worker_;
  v1::SubmitSweepResponse submit_answer_;
  absl::Duration submit_time_ = absl::ZeroDuration();
  std::vector<v1::SweepSpec> submitted_;
  std::vector<v1::WorkerMessage> worker_messages_;
  std::map<core::ConnectionId, std::shared_ptr<core::WorkerSink>> workers_;
  core::ConnectionId last_connection_ = 0;
  int open_watches_ = 0;
  std::vector<std::thread> late_;
};

}  // namespace kiln::test

#endif  // KILN_TESTS_E2E_RPC_FAKE_FARM_H_
