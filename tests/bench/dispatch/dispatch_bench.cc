// How fast the coordinator hands out work: simulated workers with empty tasks, from another
// process, over gRPC on loopback, against a synced RocksDB store.
//
//   dispatch_bench                      64 workers, 400000 tasks, TCP
//   dispatch_bench --min-rate 20000     exit code 1 below that many tasks a second
//
// The server is this program again (--serve), a whole coordinator without an expander. Prints one
// line: tasks/s, and how long a worker waits from handing in results until its next lease.
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/kiln_client.h"
#include "coordinator/rpc/daemon.h"
#include "kiln/v1/work.grpc.pb.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

struct Flags {
  bool serve = false;
  std::string store;
  std::string listen;
  int workers = 64;
  int slots = 1;
  int64_t tasks = 400000;
  double min_rate = 0;
  bool unix_socket = false;
  bool json = false;
};

// ---- the server process ----

class NoExpander : public search::Expander {
 public:
  absl::StatusOr<search::Expansion> Expand(const v1::SweepSpec&, const v1::ArchRecord&) override {
    return absl::UnimplementedError("this coordinator hands out empty tasks only");
  }
};

int Serve(const Flags& flags) {
  rpc::BlockEndSignals();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("server"));
  spdlog::set_level(spdlog::level::warn);
  rpc::DaemonOptions options;
  options.store = flags.store;
  options.server.listen = {flags.listen};
  NoExpander expander;
  return rpc::RunDaemon(options, &expander);
}

pid_t StartServer(const Flags& flags) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const std::vector<std::string> arguments = {self,        "--serve",  "--store",
                                              flags.store, "--listen", flags.listen};
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    execv(argv[0], argv.data());
    _exit(127);
  }
  return pid;
}

// ---- a simulated worker ----

// Answers every lease at once. gRPC calls one reaction at a time for reads and one for writes.
class SimulatedWorker : public grpc::ClientBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage> {
 public:
  SimulatedWorker(v1::Work::Stub* stub, int number, int slots) {
    v1::WorkerMessage hello;
    v1::Register* const reg = hello.mutable_register_();
    reg->set_worker(absl::StrCat("sim-", number));
    reg->set_instance(absl::StrCat("sim-", number, "-", getpid()));
    reg->set_compile_slots(slots);
    reg->set_compiler_build("bench");
    reg->set_protocol(1);
    stub->async()->Attach(&context_, this);
    StartRead(&in_);
    Post(std::move(hello));
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (in_.has_leases()) TakeLeases();
    in_.Clear();
    StartRead(&in_);
  }
  void OnWriteDone(bool ok) override {
    std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    if (ok) Next();
  }
  void OnDone(const grpc::Status& status) override {
    std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
    ended_.notify_all();
  }

  void Heartbeat() {
    v1::WorkerMessage beat;
    beat.mutable_heartbeat();
    Post(std::move(beat));
  }
  void End() {
    context_.TryCancel();
    std::unique_lock<std::mutex> lock(mutex_);
    ended_.wait(lock, [this] { return done_; });
  }
  std::vector<double> waits() {
    std::lock_guard<std::mutex> lock(mutex_);
    return waits_;
  }

 private:
  void TakeLeases() {
    const absl::Time now = absl::Now();
    v1::WorkerMessage message;
    for (const v1::Task& task : in_.leases().tasks()) {
      v1::TaskResult* const result = message.mutable_results()->add_results();
      result->set_task(task.id());
      result->set_epoch(task.epoch());
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (handed_in_ != absl::InfinitePast()) {
        waits_.push_back(absl::ToDoubleMilliseconds(now - handed_in_));
      }
      handed_in_ = now;
    }
    Post(std::move(message));
  }

  void Post(v1::WorkerMessage message) {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(message));
    Next();
  }
  void Next() {
    if (writing_ || queue_.empty()) return;
    out_ = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    StartWrite(&out_);
  }

  grpc::ClientContext context_;
  v1::CoordinatorMessage in_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable ended_;
  v1::WorkerMessage out_;
  std::deque<v1::WorkerMessage> queue_;
  bool writing_ = false;
  bool done_ = false;
  absl::Time handed_in_ = absl::InfinitePast();
  std::vector<double> waits_;
};

class Crew {
 public:
  Crew(const std::string& address, int workers, int slots)
      : stub_(v1::Work::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {
    for (int i = 0; i < workers; ++i) {
      workers_.push_back(std::make_unique<SimulatedWorker>(stub_.get(), i, slots));
    }
    heartbeat_ = std::thread([this] {
      std::unique_lock<std::mutex> lock(mutex_);
      while (!stop_.wait_for(lock, std::chrono::seconds(1), [this] { return stopping_; })) {
        for (const auto& worker : workers_) worker->Heartbeat();
      }
    });
  }
  ~Crew() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    stop_.notify_all();
    heartbeat_.join();
    for (const auto& worker : workers_) worker->End();
  }

  std::vector<double> Waits() {
    std::vector<double> all;
    for (const auto& worker : workers_) {
      const std::vector<double> waits = worker->waits();
      all.insert(all.end(), waits.begin(), waits.end());
    }
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  const std::unique_ptr<v1::Work::Stub> stub_;
  std::vector<std::unique_ptr<SimulatedWorker>> workers_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread heartbeat_;
};

// ---- the measurement ----

client::SweepSpec EmptySweep(int64_t tasks) {
  client::SweepSpec spec;
  spec.name = "dispatch";
  spec.template_name = "empty";
  spec.max_candidates = static_cast<int>(tasks);
  spec.user = "bench";
  return spec;
}

double Percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * sorted.size()))];
}

int Report(const Flags& flags, double seconds, const std::vector<double>& waits) {
  const double rate = static_cast<double>(flags.tasks) / seconds;
  std::printf(flags.json
                  ? "{\"workers\": %d, \"tasks\": %lld, \"tasks_per_second\": %.0f, "
                    "\"lease_p50_ms\": %.3f, \"lease_p99_ms\": %.3f, \"lease_max_ms\": %.3f}\n"
                  : "dispatch: %d workers, %lld empty tasks, %.0f tasks/s, lease p50 %.2f ms, "
                    "p99 %.2f ms, max %.2f ms\n",
              flags.workers, static_cast<long long>(flags.tasks), rate, Percentile(waits, 0.5),
              Percentile(waits, 0.99), waits.empty() ? 0 : waits.back());
  return rate >= flags.min_rate ? 0 : 1;
}

int Measure(const Flags& flags) {
  auto client = client::Client::Connect(flags.listen);
  if (!client.ok()) return 2;
  client::CallOptions options;
  options.retry.max_attempts = 200;
  options.retry.max_backoff = absl::Milliseconds(100);
  if (!(*client)->Workers(options).ok()) {
    std::fprintf(stderr, "dispatch_bench: the server does not answer\n");
    return 2;
  }
  Crew crew(flags.listen, flags.workers, flags.slots);
  while ((*client)->Workers()->size() < static_cast<size_t>(flags.workers)) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  const absl::Time begin = absl::Now();
  const auto submitted = (*client)->Submit(EmptySweep(flags.tasks));
  if (!submitted.ok()) {
    std::fprintf(stderr, "dispatch_bench: %s\n", submitted.status().ToString().c_str());
    return 2;
  }
  const auto last =
      (*client)->Watch(submitted->sweep, [](const client::SweepEvent&) { return true; });
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  if (!last.ok() || last->progress.state != client::SweepState::kDone) {
    std::fprintf(stderr, "dispatch_bench: the sweep did not end well: %s\n",
                 last.ok() ? last->progress.message.c_str() : last.status().ToString().c_str());
    return 2;
  }
  return Report(flags, seconds, crew.Waits());
}

int Main(int argc, char** argv) {
  CLI::App app("dispatch_bench: tasks a second and lease latency of the coordinator");
  Flags flags;
  app.add_flag("--serve", flags.serve, "be the server");
  app.add_option("--store", flags.store, "folder of the store (default: a temporary one)");
  app.add_option("--listen", flags.listen, "address of the server");
  app.add_option("--workers", flags.workers)->capture_default_str();
  app.add_option("--slots", flags.slots, "compile slots of each worker")->capture_default_str();
  app.add_option("--tasks", flags.tasks)->capture_default_str();
  app.add_option("--min-rate", flags.min_rate, "exit with 1 below this many tasks a second");
  app.add_flag("--unix", flags.unix_socket, "a Unix socket in place of TCP");
  app.add_flag("--json", flags.json);
  CLI11_PARSE(app, argc, argv);
  if (flags.serve) return Serve(flags);

  std::string folder = (fs::temp_directory_path() / "kiln-dispatch-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 2;
  if (flags.store.empty()) flags.store = folder + "/store";
  if (flags.listen.empty()) {
    flags.listen = flags.unix_socket ? absl::StrCat("unix:", folder, "/s.sock")
                                     : absl::StrCat("127.0.0.1:", 20000 + getpid() % 20000);
  }
  const pid_t server = StartServer(flags);
  const int code = Measure(flags);
  kill(server, SIGTERM);
  waitpid(server, nullptr, 0);
  fs::remove_all(folder);
  return code;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }
