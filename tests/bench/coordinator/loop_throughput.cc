// Empty tasks a second through the farm without sockets: core, loop, synced RocksDB store, and
// workers that answer at once from one other thread. Prints one line: tasks/s, the p50 and p99 of a
// lease (from being sent to its acknowledgement), and rows/s. Arguments: tasks, workers, directory
// for the store.
#include <stdlib.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/clock.h"
#include "compiler/base/status.h"
#include "coordinator/core/farm.h"

namespace kiln {
namespace {

class NoExpander : public search::Expander {
 public:
  absl::StatusOr<search::Expansion> Expand(const v1::SweepSpec&, const v1::ArchRecord&) override {
    return absl::UnimplementedError("no kernels here");
  }
};

// All workers: one inbox, one thread that answers.
class Workers {
 public:
  explicit Workers(core::Farm* farm) : farm_(farm), thread_([this] { Run(); }) {}
  ~Workers() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  void Push(core::ConnectionId connection, const v1::CoordinatorMessage& message) {
    std::lock_guard<std::mutex> lock(mutex_);
    inbox_.emplace_back(connection, message);
    wake_.notify_one();
  }
  std::vector<int64_t> TakeLatencies() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::move(latencies_);
  }

 private:
  void Run() {
    std::unordered_map<std::string, int64_t> sent;
    for (;;) {
      std::deque<std::pair<core::ConnectionId, v1::CoordinatorMessage>> inbox;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || !inbox_.empty(); });
        if (stop_) return;
        inbox.swap(inbox_);
      }
      const int64_t now = RealClock::Get()->Now().mono_ns;
      std::vector<int64_t> latencies;
      for (auto& [connection, message] : inbox) {
        for (const std::string& id : message.acknowledge().tasks()) {
          auto it = sent.find(id);
          if (it == sent.end()) continue;
          latencies.push_back(now - it->second);
          sent.erase(it);
        }
        if (message.leases().tasks().empty()) continue;
        v1::WorkerMessage answer;
        for (const v1::Task& task : message.leases().tasks()) {
          sent[task.id()] = now;
          v1::TaskResult* result = answer.mutable_results()->add_results();
          result->set_task(task.id());
          result->set_epoch(task.epoch());
        }
        farm_->WorkerSaid(connection, std::move(answer));
      }
      std::lock_guard<std::mutex> lock(mutex_);
      latencies_.insert(latencies_.end(), latencies.begin(), latencies.end());
    }
  }

  core::Farm* const farm_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::pair<core::ConnectionId, v1::CoordinatorMessage>> inbox_;
  std::vector<int64_t> latencies_;
  bool stop_ = false;
  std::thread thread_;
};

class Sink : public core::WorkerSink {
 public:
  explicit Sink(Workers* workers) : workers_(workers) {}
  void Send(const v1::CoordinatorMessage& message) override { workers_->Push(connection, message); }
  void Close(const absl::Status&) override {}
  core::ConnectionId connection = 0;

 private:
  Workers* const workers_;
};

class Done : public core::WatchSink {
 public:
  void OnEvent(const v1::SweepEvent&) override {}
  void OnDone(const absl::Status& status) override { done.set_value(status); }
  std::promise<absl::Status> done;
};

int Main(int argc, char** argv) {
  const int tasks = argc > 1 ? std::atoi(argv[1]) : 200'000;
  const int count = argc > 2 ? std::atoi(argv[2]) : 64;
  core::Options options;
  if (argc > 3) options.empty_queue_per_slot = std::atoi(argv[3]);
  std::string directory = argc > 4 ? argv[4] : "/tmp/kiln-loop-XXXXXX";
  if (argc <= 4 && mkdtemp(directory.data()) == nullptr) return 1;
  auto meta = store::OpenRocksMetaStore(directory + "/meta");
  auto blobs = store::OpenRocksBlobStore(directory + "/blobs", {}, RealClock::Get());
  KILN_CHECK(meta.ok() && blobs.ok());
  NoExpander expander;
  auto farm = *core::Farm::Start({meta->get(), blobs->get(), &expander, RealClock::Get(), nullptr},
                                 options);
  auto workers = std::make_unique<Workers>(farm.get());
  for (int i = 0; i < count; ++i) {
    auto sink = std::make_shared<Sink>(workers.get());
    sink->connection = farm->AttachWorker(sink);
    v1::WorkerMessage hello;
    v1::Register* info = hello.mutable_register_();
    info->set_worker(absl::StrCat("w", i));
    info->set_instance("1");
    info->set_compile_slots(1);
    info->set_protocol(1);
    farm->WorkerSaid(sink->connection, hello);
  }
  v1::SweepSpec spec;
  spec.set_template_("empty");
  spec.set_max_candidates(tasks);
  std::promise<std::string> sweep;
  const int64_t start = RealClock::Get()->Now().mono_ns;
  farm->SubmitSweep(spec, [&](auto response) { sweep.set_value(response->sweep()); });
  auto done = std::make_shared<Done>();
  farm->WatchSweep(sweep.get_future().get(), done);
  const absl::Status status = done->done.get_future().get();
  const double seconds = NsToSeconds(RealClock::Get()->Now().mono_ns - start);
  std::vector<int64_t> latencies = workers->TakeLatencies();
  std::sort(latencies.begin(), latencies.end());
  farm->Stop();
  workers.reset();
  if (!status.ok() || latencies.empty()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return 1;
  }
  std::printf(
      "loop_throughput tasks=%d workers=%d tasks_per_s=%.0f lease_p50_ms=%.2f "
      "lease_p99_ms=%.2f\n",
      tasks, count, tasks / seconds, latencies[latencies.size() / 2] / 1e6,
      latencies[latencies.size() * 99 / 100] / 1e6);
  return 0;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }
