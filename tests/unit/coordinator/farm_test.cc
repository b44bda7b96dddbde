// The farm with its threads: callbacks, watches, restarts and stops as the RPC layer sees them.
#include "coordinator/core/farm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "coordinator/core/stored_view.h"
#include "tests/util/thread_worker.h"

namespace kiln::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class Recorder : public core::WatchSink {
 public:
  void OnEvent(const v1::SweepEvent& event) override {
    std::lock_guard<std::mutex> lock(mutex_);
    events_.push_back(event);
  }
  void OnDone(const absl::Status& status) override { done_.set_value(status); }
  absl::Status Wait() {
    auto future = done_.get_future();
    if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
      return absl::DeadlineExceededError("no end");
    }
    return future.get();
  }
  std::vector<v1::SweepEvent> events() {
    std::lock_guard<std::mutex> lock(mutex_);
    return events_;
  }

 private:
  std::mutex mutex_;
  std::vector<v1::SweepEvent> events_;
  std::promise<absl::Status> done_;
};

template <typename T>
absl::StatusOr<T> Await(const std::function<void(core::Callback<T>)>& call) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<T>>>();
  auto future = promise->get_future();
  call([promise](absl::StatusOr<T> value) { promise->set_value(std::move(value)); });
  if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
    return absl::DeadlineExceededError("no answer");
  }
  return future.get();
}

class FarmTest : public ::testing::Test {
 protected:
  FarmTest()
      : expander_(space_),
        meta_(store::NewMemoryMetaStore()),
        blobs_(store::NewMemoryBlobStore({}, RealClock::Get())) {}

  ~FarmTest() override { StopAll(); }

  void Start(int workers, search::Expander* expander = nullptr) {
    if (expander == nullptr) expander = &expander_;
    auto farm = core::Farm::Start({meta_.get(), blobs_.get(), expander, RealClock::Get(), nullptr},
                                  core::Options());
    ASSERT_TRUE(farm.ok()) << farm.status();
    farm_ = *std::move(farm);
    for (int i = 0; i < workers; ++i) {
      auto worker = std::make_shared<ThreadWorker>(space_, blobs_.get());
      threads_.emplace_back([this, worker, i] {
        ThreadWorker::Serve(worker, farm_.get(), ThreadWorker::Info(absl::StrCat("w", i)));
      });
    }
  }
  void StopAll() {
    if (farm_ != nullptr) farm_->Stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    farm_.reset();
  }

  absl::StatusOr<v1::SubmitSweepResponse> Submit(const v1::SweepSpec& spec) {
    return Await<v1::SubmitSweepResponse>(
        [&](auto done) { farm_->SubmitSweep(spec, std::move(done)); });
  }
  absl::StatusOr<v1::LookupWinnerResponse> Lookup(const v1::SweepSpec& spec,
                                                  v1::Match match = v1::EXACT) {
    v1::LookupWinnerRequest request;
    *request.mutable_spec() = spec;
    request.set_match(match);
    return Await<v1::LookupWinnerResponse>(
        [&](auto done) { farm_->LookupWinner(request, std::move(done)); });
  }
  absl::StatusOr<v1::ListMissesResponse> Misses() {
    v1::ListMissesRequest request;
    request.set_with_kernels(true);
    return Await<v1::ListMissesResponse>(
        [&](auto done) { farm_->ListMisses(request, std::move(done)); });
  }
  absl::StatusOr<v1::GetSweepResponse> Get(const std::string& sweep) {
    v1::GetSweepRequest request;
    request.set_sweep(sweep);
    request.set_with_candidates(true);
    return Await<v1::GetSweepResponse>(
        [&](auto done) { farm_->GetSweep(request, std::move(done)); });
  }

  SpaceModel space_;
  FakeExpander expander_;
  std::unique_ptr<store::MetaStore> meta_;
  std::unique_ptr<store::BlobStore> blobs_;
  std::unique_ptr<core::Farm> farm_;
  std::vector<std::thread> threads_;
};

TEST_F(FarmTest, SubmitWatchFetchAndShow) {
  Start(2);
  const auto submitted = Submit(FakeSpec());
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  auto recorder = std::make_shared<Recorder>();
  farm_->WatchSweep(submitted->sweep(), recorder);
  ASSERT_TRUE(recorder->Wait().ok());
  const v1::SweepEvent end = recorder->events().back();
  EXPECT_EQ(end.progress().state(), v1::DONE);

  v1::FetchWinnerRequest fetch;
  fetch.set_sweep(submitted->sweep().substr(0, 8));
  const auto artifact = farm_->FindArtifact(fetch);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->info.config(), end.winner().config());
  EXPECT_EQ(blobs_->ReadAll(artifact->digest)->size(), artifact->size_bytes);

  const auto shown = Get(submitted->sweep());
  ASSERT_TRUE(shown.ok());
  EXPECT_EQ(shown->winner().config(), end.winner().config());
  EXPECT_THAT(shown->candidates(), SizeIs(8));
  EXPECT_TRUE(shown->seconds().count("queue"));
  EXPECT_EQ(shown->legal_configs(), 48);

  auto late = std::make_shared<Recorder>();
  farm_->WatchSweep(submitted->sweep(), late);
  ASSERT_TRUE(late->Wait().ok());
  EXPECT_EQ(late->events().back().winner().config(), end.winner().config());

  v1::ListSweepsRequest list;
  const auto listed =
      Await<v1::ListSweepsResponse>([&](auto done) { farm_->ListSweeps(list, std::move(done)); });
  ASSERT_THAT(listed->sweeps(), SizeIs(1));
  EXPECT_EQ(listed->sweeps(0).progress().state(), v1::DONE);
}

TEST_F(FarmTest, LookupFindsAndExplainsMisses) {
  Start(1);
  const auto lookup = [&](const v1::SweepSpec& spec) { return *Lookup(spec); };
  auto recorder = std::make_shared<Recorder>();
  farm_->WatchSweep(Submit(FakeSpec("1"))->sweep(), recorder);
  ASSERT_TRUE(recorder->Wait().ok());
  EXPECT_TRUE(lookup(FakeSpec("1")).found());
  const v1::LookupWinnerResponse miss = lookup(FakeSpec("2"));
  EXPECT_FALSE(miss.found());
  EXPECT_THAT(miss.miss_reason(), HasSubstr("tuned for problem=1, asked problem=2"));
}

TEST_F(FarmTest, MissesAreListedWithWhatWasAskedAndOutliveTheFarm) {
  Start(1);
  while (farm_->Gauges().workers < 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(Lookup(FakeSpec("often"))->found());
  EXPECT_FALSE(Lookup(FakeSpec("once"), v1::ARCH)->found());
  auto list = Misses();
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_THAT(list->misses(), SizeIs(2));
  EXPECT_EQ(list->misses(0).count(), 5);
  EXPECT_EQ(list->misses(0).spec().arguments().at("problem"), "often");
  EXPECT_EQ(list->misses(0).spec().kernel_source(), FakeSpec().kernel_source());
  EXPECT_THAT(list->misses(0).reason(), HasSubstr("no winner of this kernel"));
  EXPECT_EQ(farm_->Gauges().misses, 2);
  v1::ListMissesRequest first;
  first.set_limit(1);
  list = Await<v1::ListMissesResponse>([&](auto done) { farm_->ListMisses(first, done); });
  ASSERT_THAT(list->misses(), SizeIs(1));
  EXPECT_EQ(list->total(), 2);
  EXPECT_EQ(list->misses(0).spec().kernel_source(), "") << "only who asks gets it";
  first.set_limit(-1);
  list = Await<v1::ListMissesResponse>([&](auto done) { farm_->ListMisses(first, done); });
  EXPECT_TRUE(absl::IsInvalidArgument(list.status()));
  StopAll();
  Start(1);
  EXPECT_EQ(Misses()->misses(0).count(), 5) << "an orderly end loses nothing";
  auto recorder = std::make_shared<Recorder>();
  farm_->WatchSweep(Submit(Misses()->misses(0).spec())->sweep(), recorder);
  ASSERT_TRUE(recorder->Wait().ok());
  const auto hit = Lookup(FakeSpec("often"));
  EXPECT_TRUE(hit->found());
  ASSERT_THAT(Misses()->misses(), SizeIs(1));
  EXPECT_EQ(Misses()->misses(0).spec().arguments().at("problem"), "once");

  v1::FetchWinnerRequest fetch;
  fetch.set_winner_key(hit->winner().winner_key());
  const auto artifact = farm_->FindArtifact(fetch);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->info.config(), hit->winner().config());
  fetch.set_winner_key(std::string(64, '0'));
  EXPECT_TRUE(absl::IsNotFound(farm_->FindArtifact(fetch).status()));
}

TEST_F(FarmTest, NamesThatAreUnknownOrTooShortAreErrors) {
  Start(1);
  EXPECT_EQ(Get("abcdef12").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Get("abc").status().code(), absl::StatusCode::kInvalidArgument);
  auto recorder = std::make_shared<Recorder>();
  farm_->WatchSweep("abcdef12", recorder);
  EXPECT_TRUE(absl::IsNotFound(recorder->Wait()));
  v1::FetchWinnerRequest fetch;
  fetch.set_sweep("abcdef12");
  EXPECT_TRUE(absl::IsNotFound(farm_->FindArtifact(fetch).status()));
}

TEST_F(FarmTest, TheArtifactOfAKernelWithoutTunablesCanBeFetched) {
  const uint64_t term = *meta_->BeginTerm();
  const std::string digest(64, 'b');
  store::Batch batch;
  v1::SweepRow& sweep = batch.sweeps.emplace_back();
  sweep.set_digest(digest);
  sweep.mutable_spec()->set_objective(v1::SweepSpec::COMPILE);
  v1::SweepStatusRow& status = batch.statuses.emplace_back();
  status.set_digest(digest);
  status.set_state(v1::DONE);
  store::CandidateWrite& write = batch.candidates.emplace_back();
  write.sweep = digest;
  write.row.mutable_candidate()->mutable_artifact()->set_digest("the artifact");
  ASSERT_TRUE(meta_->Commit(term, batch).ok());
  const auto found = core::FindStoredArtifact(meta_.get(), digest, "");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->digest, "the artifact");
  EXPECT_TRUE(absl::IsNotFound(core::FindStoredArtifact(meta_.get(), digest, "m=1").status()));
}

TEST_F(FarmTest, FetchingFromARunningSweepIsAPrecondition) {
  Start(0);
  // A bare sink keeps the sweep from ever getting on.
  auto idle = std::make_shared<ThreadWorker>(space_, blobs_.get());
  const core::ConnectionId connection = farm_->AttachWorker(idle);
  v1::WorkerMessage hello;
  *hello.mutable_register_() = ThreadWorker::Info("idle");
  farm_->WorkerSaid(connection, hello);
  const auto submitted = Submit(FakeSpec());
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  v1::FetchWinnerRequest fetch;
  fetch.set_sweep(submitted->sweep());
  EXPECT_EQ(farm_->FindArtifact(fetch).status().code(), absl::StatusCode::kFailedPrecondition);
  v1::CancelSweepRequest cancel;
  cancel.set_sweep(submitted->sweep());
  const auto first = Await<v1::CancelSweepResponse>(
      [&](auto done) { farm_->CancelSweep(cancel, std::move(done)); });
  EXPECT_EQ(first->state(), v1::CANCELLED);
  EXPECT_FALSE(first->had_ended());
  const auto second = Await<v1::CancelSweepResponse>(
      [&](auto done) { farm_->CancelSweep(cancel, std::move(done)); });
  EXPECT_EQ(second->state(), v1::CANCELLED) << "cancelling what is over says how it ended";
  EXPECT_TRUE(second->had_ended());
  EXPECT_GT(second->finished_unix_ms(), 0);
  EXPECT_TRUE(absl::IsNotFound(farm_->FindArtifact(fetch).status()));
}

TEST_F(FarmTest, StopAnswersEverybodyAndARestartGoesOn) {
  Start(0);
  auto recorder = std::make_shared<Recorder>();
  auto idle = std::make_shared<ThreadWorker>(space_, blobs_.get());
  const core::ConnectionId connection = farm_->AttachWorker(idle);
  v1::WorkerMessage hello;
  *hello.mutable_register_() = ThreadWorker::Info("w0");
  farm_->WorkerSaid(connection, hello);
  const std::string sweep = Submit(FakeSpec())->sweep();
  farm_->WatchSweep(sweep, recorder);
  StopAll();
  EXPECT_TRUE(absl::IsUnavailable(recorder->Wait()));
  Start(2);
  auto again = std::make_shared<Recorder>();
  farm_->WatchSweep(sweep, again);
  ASSERT_TRUE(again->Wait().ok());
  EXPECT_EQ(again->events().back().progress().state(), v1::DONE);
}

// Expands as the fake does, but specs with an argument "slow" only after Release().
class SlowExpander : public search::Expander {
 public:
  explicit SlowExpander(search::Expander* inner) : inner_(inner) {}
  absl::StatusOr<search::Expansion> Expand(const v1::SweepSpec& spec,
                                           const v1::ArchRecord& arch) override {
    if (spec.arguments().count("slow") > 0) {
      ++waiting_;
      released_.wait();
    }
    return inner_->Expand(spec, arch);
  }
  void Release() { release_.set_value(); }
  void AwaitWaiting(int count) const {
    while (waiting_ < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  search::Expander* const inner_;
  std::promise<void> release_;
  std::shared_future<void> released_ = release_.get_future().share();
  std::atomic<int> waiting_{0};
};

TEST_F(FarmTest, LongExpansionsHoldUpNeitherStoredAnswersNorLookupsNorTheEnd) {
  SlowExpander slow(&expander_);
  Start(1, &slow);
  auto recorder = std::make_shared<Recorder>();
  farm_->WatchSweep(Submit(FakeSpec())->sweep(), recorder);
  ASSERT_TRUE(recorder->Wait().ok());
  std::atomic<int> unavailable{0};
  for (int i = 0; i < 4; ++i) {
    v1::SweepSpec spec = FakeSpec();
    (*spec.mutable_arguments())["slow"] = absl::StrCat(i);
    farm_->SubmitSweep(spec, [&](absl::StatusOr<v1::SubmitSweepResponse> response) {
      unavailable += absl::IsUnavailable(response.status());
    });
  }
  slow.AwaitWaiting(2);
  const auto stored = Submit(FakeSpec());
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_TRUE(stored->answered());
  v1::SweepSpec other = FakeSpec();
  (*other.mutable_arguments())["problem"] = "another";
  const auto miss = Lookup(other);
  ASSERT_TRUE(miss.ok()) << "a lookup that needs an expansion: " << miss.status();
  EXPECT_FALSE(miss->found());
  farm_->Stop();
  EXPECT_EQ(unavailable, 4) << "who waits is told to come again";
  EXPECT_FALSE(farm_->AwaitExpansions(0.05));
  slow.Release();
  EXPECT_TRUE(farm_->AwaitExpansions(20));
  StopAll();
}

TEST_F(FarmTest, ASecondCoordinatorOnTheStoreEndsTheFirst) {
  Start(1);
  std::promise<absl::Status> fatal;
  farm_->OnFatal([&](const absl::Status& status) { fatal.set_value(status); });
  ASSERT_TRUE(meta_->BeginTerm().ok());
  const auto submitted = Submit(FakeSpec());
  EXPECT_TRUE(absl::IsUnavailable(submitted.status())) << submitted.status();
  EXPECT_TRUE(absl::IsAborted(fatal.get_future().get()));
  EXPECT_FALSE(farm_->Health().ok());
}

TEST_F(FarmTest, WhoAsksWhileItEndsIsAnswered) {
  for (int round = 0; round < 20; ++round) {
    Start(1);
    std::atomic<int> asked{0}, answered{0};
    std::vector<std::thread> askers;
    for (int t = 0; t < 2; ++t) {
      askers.emplace_back([&] {
        while (farm_->Health().ok()) {
          ++asked;
          farm_->ListWorkers({}, [&](const auto&) { ++answered; });
        }
      });
    }
    while (asked < 100) std::this_thread::yield();
    ASSERT_TRUE(meta_->BeginTerm().ok());
    EXPECT_TRUE(absl::IsUnavailable(Submit(FakeSpec(absl::StrCat(round))).status()));
    for (std::thread& asker : askers) asker.join();
    for (int i = 0; i < 2000 && answered < asked; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(answered, asked) << "round " << round;
    StopAll();
  }
}

TEST_F(FarmTest, ManyThreadsAskAtOnce) {
  Start(4);
  std::vector<std::thread> askers;
  std::atomic<int> done{0};
  for (int t = 0; t < 4; ++t) {
    askers.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        const auto submitted = Submit(FakeSpec(absl::StrCat((t + i) % 6)));
        if (!submitted.ok()) continue;
        if (!submitted->answered()) {
          auto recorder = std::make_shared<Recorder>();
          farm_->WatchSweep(submitted->sweep(), recorder);
          if (!recorder->Wait().ok()) continue;
        }
        ++done;
      }
    });
  }
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(done, 20);
}

}  // namespace
}  // namespace kiln::testing
