// kiln-coordinator and `tunectl tune` as processes: start and end, restarts, kill -9, backup,
// metrics under a real Prometheus.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/kiln_client.h"
#include "kiln/v1/work.grpc.pb.h"
#include "tests/e2e/rpc/process.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using test::FreePort;
using test::HttpGet;
using test::Process;
using testing::HasSubstr;

// A worker that answers empty tasks, attaching again whenever its stream breaks. Counts every task
// that it was leased.
class EmptyWorker {
 public:
  EmptyWorker(const std::string& address, std::string name)
      : name_(std::move(name)), thread_([this, address] { Run(address); }) {}
  ~EmptyWorker() {
    stopping_ = true;
    thread_.join();
  }
  int64_t leased() const { return leased_; }

 private:
  void Run(const std::string& address) {
    while (!stopping_) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      const auto stub = v1::Work::NewStub(
          grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
      grpc::ClientContext context;
      const auto stream = stub->Attach(&context);
      std::atomic<bool> ended{false};
      std::thread stopper([&] {
        while (!stopping_ && !ended) absl::SleepFor(absl::Milliseconds(5));
        context.TryCancel();
      });
      Serve(stream.get());
      ended = true;
      stopper.join();
      stream->Finish();
      if (!stopping_) absl::SleepFor(absl::Milliseconds(50));
    }
  }

  void Serve(grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>* stream) {
    v1::WorkerMessage hello;
    v1::Register* const reg = hello.mutable_register_();
    reg->set_worker(name_);
    reg->set_instance(name_ + "-1");
    reg->set_compile_slots(1);
    reg->set_compiler_build("test");
    reg->set_protocol(1);
    for (const v1::TaskResult& result : unacknowledged_) *reg->add_unacknowledged() = result;
    if (!stream->Write(hello)) return;
    v1::CoordinatorMessage message;
    while (stream->Read(&message)) {
      for (const std::string& task : message.acknowledge().tasks()) {
        std::erase_if(unacknowledged_, [&](const auto& r) { return r.task() == task; });
      }
      if (!message.has_leases()) continue;
      v1::WorkerMessage done;
      for (const v1::Task& task : message.leases().tasks()) {
        ++leased_;
        v1::TaskResult result;
        result.set_task(task.id());
        result.set_epoch(task.epoch());
        unacknowledged_.push_back(result);
        *done.mutable_results()->add_results() = result;
      }
      if (!stream->Write(done)) return;
    }
  }

  const std::string name_;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> leased_{0};
  std::vector<v1::TaskResult> unacknowledged_;
  std::thread thread_;
};

class CoordinatorTest : public testing::Test {
 protected:
  CoordinatorTest() {
    folder_ = fs::path(testing::TempDir()) / absl::StrCat("kiln_coord_", getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    address_ = absl::StrCat("unix:", (folder_ / "s.sock").string());
  }
  ~CoordinatorTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) { return (folder_ / name).string(); }

  std::unique_ptr<Process> Coordinator(const std::string& log, std::vector<std::string> more = {}) {
    std::vector<std::string> argv = {test::BinaryFolder() + "/kiln-coordinator",
                                     "--store",
                                     Path("store"),
                                     "--listen",
                                     address_,
                                     "--heartbeat-seconds",
                                     "0.5"};
    argv.insert(argv.end(), more.begin(), more.end());
    return std::make_unique<Process>(argv, Path(log));
  }
  static bool Listens(Process* process) { return process->AwaitLog("listening on"); }

  std::unique_ptr<client::Client> Client() { return *client::Client::Connect(address_); }

  static client::SweepSpec Empty(int tasks, const std::string& name) {
    client::SweepSpec spec;
    spec.template_name = "empty";
    spec.name = name;
    spec.max_candidates = tasks;
    spec.arguments = {{"n", std::to_string(tasks)}};
    return spec;
  }

  fs::path folder_;
  std::string address_;
};

TEST_F(CoordinatorTest, EndsWithTheStatedCodes) {
  const std::string binary = test::BinaryFolder() + "/kiln-coordinator";
  const auto code = [&](std::vector<std::string> arguments, std::string* err = nullptr) {
    arguments.insert(arguments.begin(), binary);
    Process process(arguments, Path("code"));
    const int result = process.Wait(absl::Seconds(20));
    if (err != nullptr) *err = process.err();
    return result;
  };
  std::string err;
  EXPECT_EQ(code({}), 2);
  EXPECT_EQ(code({"--store", Path("x"), "--listen", "nonsense"}), 2);
  EXPECT_EQ(code({"--store", Path("x"), "--listen", "0.0.0.0:0"}, &err), 2);
  EXPECT_THAT(err, HasSubstr("--allow-remote"));
  EXPECT_EQ(code({"--store", Path("x"), "--listen", "unix:/no/such/folder/s.sock"}, &err), 4);
  EXPECT_THAT(err, HasSubstr("there is no folder /no/such/folder/"));
  EXPECT_NE(code({"--store", "/proc/nothing", "--listen", address_}), 0);

  const auto first = Coordinator("first");
  ASSERT_TRUE(Listens(first.get())) << first->err();
  EXPECT_EQ(code({"--store", Path("store"), "--listen", "127.0.0.1:0"}, &err), 3) << err;
  EXPECT_EQ(code({"--store", Path("other"), "--listen", address_}, &err), 4) << err;
  EXPECT_THAT(err, HasSubstr("another process serves"));
  const std::string port = absl::StrCat("127.0.0.1:", FreePort());
  Process other({binary, "--store", Path("tcp"), "--listen", port}, Path("tcp_log"));
  ASSERT_TRUE(Listens(&other)) << other.err();
  EXPECT_EQ(code({"--store", Path("other"), "--listen", port}, &err), 4) << err;
  EXPECT_THAT(err, HasSubstr("cannot listen on " + port + ": another process listens there"));
  EXPECT_THAT(err, testing::Not(HasSubstr("chttp2"))) << "gRPC's own log says nothing to people";
  EXPECT_TRUE(Client()->Workers().ok()) << "the first one is unharmed";
  first->Signal(SIGTERM);
  EXPECT_EQ(first->Wait(absl::Seconds(10)), 0) << first->err();
  EXPECT_FALSE(fs::exists(folder_ / "s.sock"));
}

TEST_F(CoordinatorTest, AWatchOutlivesKillsAndNothingIsLost) {
  auto coordinator = Coordinator("c0");
  ASSERT_TRUE(Listens(coordinator.get())) << coordinator->err();
  EmptyWorker one(address_, "one"), two(address_, "two");
  const auto client = Client();
  constexpr int kTasks = 60000;
  const auto submitted = client->Submit(Empty(kTasks, "survivor"));
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  std::atomic<bool> finished{false};
  absl::StatusOr<client::SweepEvent> last = absl::UnknownError("not watched");
  std::thread watcher([&] {
    client::CallOptions options;
    options.retry.max_attempts = 30;
    options.timeout = absl::Seconds(90);
    last = client->Watch(
        submitted->sweep, [](const client::SweepEvent&) { return true; }, options);
    finished = true;
  });
  // On this thread: a process dies with the thread that started it.
  int kills = 0;
  for (int i = 1; i <= 4 && !finished; ++i) {
    absl::SleepFor(absl::Milliseconds(150 + 90 * i));
    coordinator->Signal(i % 2 == 0 ? SIGTERM : SIGKILL);
    EXPECT_NE(coordinator->Wait(absl::Seconds(10)), -1);
    coordinator = Coordinator(absl::StrCat("c", i));
    EXPECT_TRUE(Listens(coordinator.get())) << coordinator->err();
    ++kills;
  }
  watcher.join();
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->progress.state, client::SweepState::kDone) << last->progress.message;
  EXPECT_GE(kills, 1);
  EXPECT_GE(one.leased() + two.leased(), kTasks);
  const auto shown = client->Show(submitted->sweep, false);
  ASSERT_TRUE(shown.ok());
  EXPECT_EQ(shown->summary.progress.state, client::SweepState::kDone);
  EXPECT_EQ(shown->summary.name, "survivor");
}

TEST_F(CoordinatorTest, ABackupStartsAsAFarm) {
  const auto coordinator = Coordinator("c");
  ASSERT_TRUE(Listens(coordinator.get())) << coordinator->err();
  {
    EmptyWorker worker(address_, "one");
    const auto submitted = Client()->Submit(Empty(1000, "kept"));
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    ASSERT_TRUE(
        Client()->Watch(submitted->sweep, [](const client::SweepEvent&) { return true; }).ok());
  }
  const auto bytes = Client()->Backup(Path("backup"));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GT(*bytes, 0);
  EXPECT_FALSE(Client()->Backup(Path("backup")).ok()) << "it exists already";
  for (const std::string inside : {"store", "store/backup", "store/meta/x", "store/../store/b"}) {
    const absl::Status status = Client()->Backup(Path(inside)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << inside << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("lies in the store itself"));
  }
  EXPECT_FALSE(fs::exists(folder_ / "store" / "backup"));
  const std::string restored = absl::StrCat("unix:", Path("restored.sock"));
  Process second(
      {test::BinaryFolder() + "/kiln-coordinator", "--store", Path("backup"), "--listen", restored},
      Path("restored"));
  ASSERT_TRUE(Listens(&second)) << second.err();
  const auto sweeps = (*client::Client::Connect(restored))->List(0, false);
  ASSERT_TRUE(sweeps.ok()) << sweeps.status();
  ASSERT_EQ(sweeps->size(), 1u);
  EXPECT_EQ((*sweeps)[0].name, "kept");
  EXPECT_EQ((*sweeps)[0].progress.state, client::SweepState::kDone);
}

TEST_F(CoordinatorTest, HostileCallsLeaveItStanding) {
  const auto coordinator = Coordinator("c");
  ASSERT_TRUE(Listens(coordinator.get())) << coordinator->err();
  const auto client = Client();
  client::SweepSpec spec;
  spec.template_name = "no_such_template";
  client::CallOptions quick;
  quick.timeout = absl::Seconds(1);  // it would wait for a worker that says what "cpu" is
  EXPECT_TRUE(absl::IsDeadlineExceeded(client->Submit(spec, quick).status()));
  EXPECT_TRUE(absl::IsNotFound(client->Show("0123456789", false).status()));
  EXPECT_TRUE(absl::IsNotFound(client->Cancel("0123456789", "").status()));
  std::string bytes;
  EXPECT_TRUE(absl::IsNotFound(client->FetchBytes({"0123456789", ""}, &bytes).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(client->Backup("relative/path").status()));
  EXPECT_EQ(coordinator->Wait(absl::ZeroDuration()), -1);
  EXPECT_TRUE(client->Workers().ok());
}

// ---- metrics ----

std::set<std::string> MetricNames(const std::string& text, const std::string& pattern) {
  std::set<std::string> names;
  const std::regex expression(pattern);
  for (auto it = std::sregex_iterator(text.begin(), text.end(), expression);
       it != std::sregex_iterator(); ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

TEST_F(CoordinatorTest, PrometheusScrapesIt) {
  const int port = FreePort(), prometheus_port = FreePort();
  const auto coordinator = Coordinator("c", {"--metrics", absl::StrCat("127.0.0.1:", port)});
  ASSERT_TRUE(Listens(coordinator.get())) << coordinator->err();
  {
    EmptyWorker worker(address_, "one");
    const auto submitted = Client()->Submit(Empty(500, "counted"));
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    ASSERT_TRUE(
        Client()->Watch(submitted->sweep, [](const client::SweepEvent&) { return true; }).ok());
  }
  const std::string answer = HttpGet(port, "/metrics");
  ASSERT_THAT(answer, HasSubstr("200 OK"));
  const std::string text = answer.substr(answer.find("\r\n\r\n") + 4);
  std::ofstream(Path("metrics.txt")) << text;
  Process check({"sh", "-c", "promtool check metrics < " + Path("metrics.txt")}, Path("promtool"));
  EXPECT_EQ(check.Wait(absl::Seconds(30)), 0) << check.out() << check.err();
  EXPECT_THAT(text, HasSubstr("kiln_tasks_done_total{kind=\"empty\"} 500"));

  // What the alerts speak of is there.
  const std::set<std::string> known = MetricNames(text, "\n(kiln_[a-z_]+)");
  for (const std::string& name :
       MetricNames(test::ReadText("deploy/prometheus/kiln_alerts.yml"), "(kiln_[a-z_]+)[^.a-z_]")) {
    EXPECT_TRUE(known.count(name) == 1 || name == "kiln_alerts") << name;
  }

  std::ofstream(Path("prometheus.yml"))
      << "global: {scrape_interval: 500ms}\nscrape_configs:\n  - job_name: kiln-coordinator\n"
      << "    static_configs: [{targets: ['127.0.0.1:" << port << "']}]\n";
  Process prometheus({"prometheus", "--config.file=" + Path("prometheus.yml"),
                      "--storage.tsdb.path=" + Path("tsdb"),
                      absl::StrCat("--web.listen-address=127.0.0.1:", prometheus_port)},
                     Path("prometheus"));
  std::string value;
  for (int i = 0; i < 300 && value.empty(); ++i) {
    absl::SleepFor(absl::Milliseconds(100));
    const std::string reply = HttpGet(
        prometheus_port, "/api/v1/query?query=kiln_tasks_done_total%7Bkind%3D%22empty%22%7D");
    const size_t body = reply.find("\r\n\r\n");
    if (body == std::string::npos) continue;
    const auto document = nlohmann::json::parse(reply.substr(body + 4), nullptr, false);
    if (document.is_discarded() || document.value("status", "") != "success") continue;
    const auto& results = document["data"]["result"];
    if (!results.empty()) value = results[0]["value"][1].get<std::string>();
  }
  EXPECT_EQ(value, "500") << prometheus.err();
}

TEST(PrometheusFiles, PassTheirOwnChecks) {
  const std::string log = testing::TempDir() + "kiln_promtool";
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"promtool", "check", "config", "deploy/prometheus/prometheus.yml"},
           {"promtool", "check", "rules", "deploy/prometheus/kiln_alerts.yml"},
           {"promtool", "test", "rules", "deploy/prometheus/kiln_alerts_test.yml"}}) {
    Process process(command, log);
    EXPECT_EQ(process.Wait(absl::Seconds(30)), 0) << process.out() << process.err();
  }
}

// ---- tune ----

class TuneTest : public CoordinatorTest {
 protected:
  TuneTest() {
    // The real coordinator, and a worker that never attaches, so that a tune waits for ever.
    fs::create_directories(folder_ / "bin");
    fs::create_symlink(test::BinaryFolder() + "/kiln-coordinator",
                       folder_ / "bin/kiln-coordinator");
    SetWorker("exec sleep 1000");
    fs::create_directories(folder_ / "run");
    std::ofstream(folder_ / "gemm.yaml") << "template: matmul\nshapes: {M: 64, N: 64, K: 64}\n";
  }
  void SetWorker(const std::string& body) {
    std::ofstream(folder_ / "bin/kiln-worker") << "#!/bin/sh\necho hello from the worker >&2\n"
                                               << body << "\n";
    fs::permissions(folder_ / "bin/kiln-worker", fs::perms::owner_all);
  }
  std::unique_ptr<Process> Tune(const std::string& log, std::vector<std::string> more = {}) {
    std::vector<std::string> argv = {test::BinaryFolder() + "/tunectl", "tune", Path("gemm.yaml"),
                                     "--store", Path("tune_store")};
    argv.insert(argv.end(), more.begin(), more.end());
    return std::make_unique<Process>(
        argv, Path(log),
        std::map<std::string, std::string>{{"KILN_BIN_DIR", Path("bin")},
                                           {"XDG_RUNTIME_DIR", Path("run")}});
  }
  std::vector<pid_t> ChildrenOf(pid_t parent) {
    std::vector<pid_t> children;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      if (!std::isdigit(entry.path().filename().c_str()[0])) continue;
      std::ifstream stat(entry.path() / "stat");
      std::string text((std::istreambuf_iterator<char>(stat)), {});
      const size_t close = text.rfind(')');
      if (close == std::string::npos) continue;
      if (std::atoi(text.c_str() + close + 4) == parent) {
        children.push_back(std::atoi(entry.path().filename().c_str()));
      }
    }
    return children;
  }
  std::vector<pid_t> AwaitChildren(Process* tune) {
    for (int i = 0; i < 1000; ++i) {
      const std::vector<pid_t> children = ChildrenOf(tune->pid());
      if (children.size() == 2) return children;
      if (tune->Wait(absl::ZeroDuration()) != -1) break;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return {};
  }
  // Whether all of them are gone (or zombies of somebody else) within two seconds.
  static bool AllEnd(const std::vector<pid_t>& pids) {
    for (int i = 0; i < 200; ++i) {
      bool alive = false;
      for (const pid_t pid : pids) {
        const std::string stat = test::ReadText(absl::StrCat("/proc/", pid, "/stat"));
        const size_t close = stat.rfind(')');
        alive = alive || (close != std::string::npos && stat[close + 2] != 'Z');
      }
      if (!alive) return true;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return false;
  }
};

// What an older build made is no answer, so that the store is asked when the worker is there; when
// none comes, what is stored answers as it is.
TEST_F(TuneTest, AStoredWinnerWaitsForTheWorkerThatItIsComparedWith) {
  std::ofstream(folder_ / "gemm.yaml")
      << "template: matmul\nshapes: {M: 64, N: 64, K: 64}\nbudget: {candidates: 2}\n"
      << "measurement: {min_seconds: 0.01}\n";
  const std::string real = absl::StrCat("exec ", test::BinaryFolder(), "/kiln-worker \"$@\"");
  const std::string uncompared = "whichever compiler made it";
  SetWorker(real);
  const auto first = Tune("first");
  ASSERT_EQ(first->Wait(absl::Seconds(60)), 0) << first->err();
  EXPECT_THAT(first->out(), Not(HasSubstr("answered from the store")));

  SetWorker("sleep 1; " + real);
  const auto late = Tune("late");
  ASSERT_EQ(late->Wait(absl::Seconds(60)), 0) << late->err();
  EXPECT_THAT(late->out(), HasSubstr("answered from the store"));
  EXPECT_THAT(late->out(), Not(HasSubstr(uncompared)));

  SetWorker("exit 7");
  const auto none = Tune("none");
  ASSERT_EQ(none->Wait(absl::Seconds(60)), 0) << none->err();
  EXPECT_THAT(none->out(), HasSubstr(uncompared));
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--set", "K=32"}, {"--fresh"}}) {
    const auto needed = Tune("needed", more);
    EXPECT_EQ(needed->Wait(absl::Seconds(20)), 4) << needed->err();
    EXPECT_THAT(needed->err(), HasSubstr("kiln-worker ended with code 7"));
  }

  SetWorker("exec sleep 1000");
  const auto never = Tune("never", {"--timeout", "2"});
  ASSERT_EQ(never->Wait(absl::Seconds(20)), 0) << never->err();
  EXPECT_THAT(never->out(), HasSubstr(uncompared));
}

TEST_F(TuneTest, WhatEarlierOnesLeftUnfinishedIsToldOf) {
  SetWorker(absl::StrCat("exec ", test::BinaryFolder(), "/kiln-worker \"$@\""));
  std::ofstream(folder_ / "gemm.yaml")
      << "name: long\ntemplate: matmul\nshapes: {M: 512, N: 512, K: 512}\n"
      << "measurement: {min_seconds: 1}\n";
  const auto first = Tune("first");
  ASSERT_TRUE(first->AwaitLog("long: ", absl::Seconds(60))) << first->err();
  first->Signal(SIGKILL);
  ASSERT_EQ(first->Wait(absl::Seconds(5)), 1000 + SIGKILL);

  const auto again = Tune("again", {"--timeout", "2"});
  EXPECT_EQ(again->Wait(absl::Seconds(60)), 5) << again->err();
  EXPECT_THAT(again->err(), Not(HasSubstr("left unfinished")));
  std::ofstream(folder_ / "gemm.yaml")
      << "name: short\ntemplate: matmul\nshapes: {M: 64, N: 64, K: 64}\n";
  const auto other = Tune("other", {"--timeout", "2"});
  other->Wait(absl::Seconds(60));
  EXPECT_THAT(other->err(), HasSubstr("left unfinished"));
  EXPECT_THAT(other->err(), HasSubstr("(long)"));
}

TEST_F(TuneTest, ChildrenEndWithItWhenItIsKilled) {
  const auto tune = Tune("t");
  const std::vector<pid_t> children = AwaitChildren(tune.get());
  ASSERT_EQ(children.size(), 2u) << tune->err();
  ASSERT_EQ(std::distance(fs::directory_iterator(folder_ / "run"), {}), 1);
  const auto private_folder = *fs::directory_iterator(folder_ / "run");
  EXPECT_EQ(fs::status(private_folder).permissions(), fs::perms::owner_all);
  tune->Signal(SIGKILL);
  EXPECT_EQ(tune->Wait(absl::Seconds(5)), 1000 + SIGKILL);
  EXPECT_TRUE(AllEnd(children));

  const auto next = Tune("n");
  const std::vector<pid_t> again = AwaitChildren(next.get());
  EXPECT_EQ(again.size(), 2u) << next->err();
  EXPECT_FALSE(fs::exists(private_folder.path())) << "what the killed one left is cleaned up";
}

TEST_F(TuneTest, InterruptEndsEverythingInOrder) {
  const auto tune = Tune("t");
  const std::vector<pid_t> children = AwaitChildren(tune.get());
  ASSERT_EQ(children.size(), 2u) << tune->err();
  absl::SleepFor(absl::Milliseconds(300));
  tune->Signal(SIGINT);
  EXPECT_EQ(tune->Wait(absl::Seconds(10)), 5) << tune->err();
  EXPECT_THAT(tune->err(), HasSubstr(": interrupted"));
  EXPECT_TRUE(AllEnd(children));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "run"), {}), 0);
}

TEST_F(TuneTest, AWorkerThatDiesIsReportedWithItsLog) {
  SetWorker("sleep 0.3; exit 7");
  const auto tune = Tune("t");
  EXPECT_EQ(tune->Wait(absl::Seconds(20)), 4) << tune->err();
  EXPECT_THAT(tune->err(), HasSubstr("kiln-worker ended with code 7"));
  EXPECT_THAT(tune->err(), HasSubstr("hello from the worker"));
}

TEST_F(TuneTest, TwoTunesShareAStoreOneAfterTheOther) {
  const auto first = Tune("a");
  ASSERT_EQ(AwaitChildren(first.get()).size(), 2u) << first->err();
  const auto impatient = Tune("b", {"--no-wait"});
  EXPECT_EQ(impatient->Wait(absl::Seconds(10)), 6) << impatient->err();
  const auto patient = Tune("c");
  EXPECT_TRUE(patient->AwaitLog("waiting for it")) << patient->err();
  first->Signal(SIGKILL);
  EXPECT_EQ(AwaitChildren(patient.get()).size(), 2u) << patient->err();
}

TEST_F(TuneTest, AWorkerThatDoesNotComeIsToldOf) {
  const auto tune = Tune("t");
  EXPECT_TRUE(tune->AwaitLog("matmul waits for a worker: this machine's own is not up yet"))
      << tune->err();
}

TEST_F(TuneTest, AWorkerThatLingersIsWaitedFor) {
  fs::create_directories(folder_ / "tune_store/worker");
  const int fd = open(Path("tune_store/worker/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  const auto tune = Tune("t");
  EXPECT_TRUE(tune->AwaitLog("worker of an earlier tune still uses the store")) << tune->err();
  EXPECT_EQ(ChildrenOf(tune->pid()).size(), 1u) << "no worker yet";
  close(fd);
  EXPECT_EQ(AwaitChildren(tune.get()).size(), 2u) << tune->err();
}

TEST_F(TuneTest, DamageIsToldAtOnceAndNothingIsTouched) {
  const auto list = [this](std::string* err) {
    Process process({test::BinaryFolder() + "/tunectl", "list", "--store", Path("tune_store")},
                    Path("l"), {{"KILN_BIN_DIR", Path("bin")}, {"XDG_RUNTIME_DIR", Path("run")}});
    const int code = process.Wait(absl::Seconds(60));
    *err = process.err();
    return code;
  };
  std::string err;
  fs::create_directories(folder_ / "tune_store" / "farm");
  ASSERT_EQ(list(&err), 0) << err;
  const fs::path meta = folder_ / "tune_store" / "farm" / "meta";
  const std::string current = test::ReadText((meta / "CURRENT").string());
  fs::remove(meta / "CURRENT");
  const auto names = [&] {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(meta)) out.insert(entry.path().filename());
    return out;
  };
  const std::set<std::string> before = names();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(list(&err), 7) << err;
    EXPECT_THAT(err, HasSubstr("CURRENT is missing"));
    EXPECT_EQ(names(), before);
  }
  std::ofstream(meta / "CURRENT") << current;
  EXPECT_EQ(list(&err), 0) << err;

  const std::string manifest = test::ReadText((meta / "CURRENT").string());
  const fs::path file = meta / manifest.substr(0, manifest.find('\n'));
  std::string bytes = test::ReadText(file.string());
  for (size_t i = 0; i < std::min<size_t>(40, bytes.size()); ++i) bytes[i] ^= 0x5a;
  std::ofstream(file, std::ios::binary) << bytes;
  const absl::Time begin = absl::Now();
  EXPECT_EQ(list(&err), 7) << err;
  EXPECT_THAT(err, HasSubstr("damaged"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(3)) << "nobody else has the store: do not wait";
}

TEST_F(TuneTest, MissingProgramsAreNamed) {
  fs::create_directories(folder_ / "alone");
  fs::copy_file(test::BinaryFolder() + "/tunectl", folder_ / "alone/tunectl");
  Process tune({Path("alone/tunectl"), "tune", Path("gemm.yaml"), "--store", Path("s2")}, Path("m"),
               {{"KILN_BIN_DIR", "/nonexistent"}, {"PATH", "/nonexistent"}});
  EXPECT_EQ(tune.Wait(absl::Seconds(20)), 3) << tune.err();
  EXPECT_THAT(tune.err(), HasSubstr("kiln-coordinator"));
}

}  // namespace
}  // namespace kiln
