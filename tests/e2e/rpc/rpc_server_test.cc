// The RPC server over real sockets: workers' streams, health, reflection, where it listens,
// metrics.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kiln/v1/tuning.grpc.pb.h"
#include "kiln/v1/work.grpc.pb.h"
#include "tests/e2e/rpc/rpc_fixture.h"

namespace kiln {
namespace {

using testing::HasSubstr;

// ---- workers ----

TEST_F(RpcTest, AWorkersStreamKeepsItsOrderBothWays) {
  farm_.OnWorkerMessage(
      [](const v1::WorkerMessage& message, std::shared_ptr<core::WorkerSink> sink) {
        if (!message.has_register_()) return;
        for (int i = 0; i < 5000; ++i) {
          v1::CoordinatorMessage out;
          if (i % 100 == 99) {
            out.mutable_acknowledge()->add_tasks(absl::StrCat("t", i));
          } else {
            out.mutable_leases()->add_tasks()->set_id(absl::StrCat("t", i));
          }
          sink->Send(out);
        }
        sink->Close(absl::UnavailableError("the coordinator is stopping"));
      });
  const auto stub = v1::Work::NewStub(RawChannel());
  grpc::ClientContext context;
  const auto stream = stub->Attach(&context);
  for (int i = 0; i < 200; ++i) {
    v1::WorkerMessage beat;
    beat.mutable_heartbeat()->set_free_compile(i);
    stream->Write(beat);
  }
  v1::WorkerMessage hello;
  hello.mutable_register_()->set_worker("w");
  stream->Write(hello);
  v1::CoordinatorMessage message;
  int next = 0, messages = 0;
  while (stream->Read(&message)) {
    ++messages;
    for (const auto& task : message.leases().tasks()) {
      EXPECT_EQ(task.id(), absl::StrCat("t", next++));
    }
    for (const auto& task : message.acknowledge().tasks()) {
      EXPECT_EQ(task, absl::StrCat("t", next++));
    }
  }
  EXPECT_EQ(next, 5000);
  EXPECT_LT(messages, 5000) << "what waits behind a write travels together";
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the coordinator is stopping");
  const auto seen = farm_.worker_messages();
  ASSERT_EQ(seen.size(), 201u);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(seen[i].heartbeat().free_compile(), i);
}

TEST_F(RpcTest, AWorkerThatVanishesIsDetached) {
  const auto stub = v1::Work::NewStub(RawChannel());
  {
    grpc::ClientContext context;
    const auto stream = stub->Attach(&context);
    v1::WorkerMessage hello;
    hello.mutable_register_()->set_worker("w");
    stream->Write(hello);
    for (int i = 0; i < 500 && farm_.attached() == 0; ++i) absl::SleepFor(absl::Milliseconds(5));
    EXPECT_EQ(farm_.attached(), 1);
    context.TryCancel();
    stream->Finish();
  }
  for (int i = 0; i < 500 && farm_.attached() > 0; ++i) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(farm_.attached(), 0);
}

TEST_F(RpcTest, ManyStreamsThatBreakAtAnyMoment) {
  farm_.OnWorkerMessage([](const v1::WorkerMessage&, std::shared_ptr<core::WorkerSink> sink) {
    for (int i = 0; i < 50; ++i) {
      v1::CoordinatorMessage out;
      out.mutable_leases()->add_tasks()->set_id("t");
      sink->Send(out);
    }
  });
  farm_.OnWatch([](std::shared_ptr<core::WatchSink> sink) {
    std::thread([sink] {
      for (int i = 0; i < 200; ++i) sink->OnEvent(Event(v1::RUNNING, i, "c=1"));
    }).detach();
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      const auto channel = RawChannel();
      const auto work = v1::Work::NewStub(channel);
      const auto tuning = v1::Tuning::NewStub(channel);
      for (int round = 0; round < 25; ++round) {
        grpc::ClientContext work_context, watch_context;
        const auto now = std::chrono::system_clock::now();
        work_context.set_deadline(now + std::chrono::microseconds(round * 700 + t * 130));
        watch_context.set_deadline(now + std::chrono::microseconds(round * 600 + t * 170));
        const auto stream = work->Attach(&work_context);
        v1::WorkerMessage beat;
        beat.mutable_heartbeat();
        for (int i = 0; i < 5; ++i) stream->Write(beat);
        v1::WatchSweepRequest request;
        request.set_sweep(kSweep);
        const auto watch = tuning->WatchSweep(&watch_context, request);
        v1::CoordinatorMessage message;
        v1::SweepEvent event;
        std::thread reader([&] {
          while (watch->Read(&event)) {
          }
        });
        while (stream->Read(&message)) {
        }
        reader.join();
        stream->Finish();
        watch->Finish();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 1000 && (farm_.attached() > 0 || farm_.watches() > 0); ++i) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_EQ(farm_.attached(), 0);
  EXPECT_EQ(farm_.watches(), 0);
  EXPECT_TRUE(client_->Workers().ok());
}

// ---- standing services ----

// One call of a method that this program has no stubs for, with raw bytes.
grpc::Status RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& request, std::string* response) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  const grpc::Slice slice(request);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer buffer;
  call->Read(&buffer, nullptr);
  queue.Next(&tag, &ok);
  if (ok) {
    std::vector<grpc::Slice> slices;
    buffer.Dump(&slices);
    for (const grpc::Slice& s : slices) {
      response->append(reinterpret_cast<const char*>(s.begin()), s.size());
    }
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  return status;
}

TEST_F(RpcTest, HealthFollowsTheFarm) {
  const std::string name = "kiln.v1.Tuning";
  const std::string request = std::string("\x0a") + static_cast<char>(name.size()) + name;
  const auto state = [&] {
    std::string response;
    EXPECT_TRUE(RawCall(RawChannel(), "/grpc.health.v1.Health/Check", request, &response).ok());
    return response.size() == 2 ? static_cast<int>(response[1]) : -1;  // field 1: status
  };
  EXPECT_EQ(state(), 1);  // SERVING
  farm_.SetHealth(absl::UnavailableError("disk full"));
  for (int i = 0; i < 300 && state() != 2; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(state(), 2);  // NOT_SERVING
  farm_.SetHealth(absl::OkStatus());
  for (int i = 0; i < 300 && state() != 1; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(state(), 1);
}

TEST_F(RpcTest, ReflectionListsTheServices) {
  std::string response;
  // ServerReflectionRequest.list_services (field 7) = "*"
  RawCall(RawChannel(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
          "\x3a\x01*", &response);
  for (const char* service :
       {"kiln.v1.Tuning", "kiln.v1.Work", "kiln.v1.Blobs", "grpc.health.v1.Health"}) {
    EXPECT_THAT(response, HasSubstr(service));
  }
}

TEST_F(RpcTest, ListensOnlyWhereItMay) {
  struct stat info = {};
  ASSERT_EQ(stat((folder_ / "s.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto start = [&](const std::string& address, bool remote) {
    rpc::ServerOptions options;
    options.listen = {address};
    options.allow_remote = remote;
    return rpc::Server::Start(&farm_, metrics_.get(), options).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(start("0.0.0.0:0", false)));
  EXPECT_TRUE(start("0.0.0.0:0", true).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(start("nonsense", true)));
  EXPECT_TRUE(absl::IsFailedPrecondition(start(address_, false))) << "the socket is served";
  EXPECT_TRUE(absl::IsFailedPrecondition(start(server_->addresses()[1], false))) << "the port is";
  EXPECT_TRUE(client_->Workers().ok()) << "the first server is unharmed";
}

TEST_F(RpcTest, ASocketThatNobodyServesIsTakenOver) {
  const std::string path = (folder_ / "stale.sock").string();
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(fd);
  rpc::ServerOptions options;
  options.listen = {"unix:" + path};
  const auto server = rpc::Server::Start(&farm_, metrics_.get(), options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE((*Client::Connect("unix:" + path))->Workers().ok());
}

// ---- metrics ----

std::string MetricLine(const std::string& text, const std::string& name) {
  std::istringstream stream(text);
  std::string line;
  while (std::getline(stream, line)) {
    if (line.rfind(name + " ", 0) == 0) return line.substr(name.size() + 1);
  }
  return "";
}

TEST_F(RpcTest, MetricsCountWhatHappened) {
  metrics_->SetFarm(&farm_);
  ASSERT_TRUE(client_->Submit(Spec()).ok());
  farm_.FailNext(1, absl::InvalidArgumentError("x"));
  ASSERT_FALSE(client_->Submit(Spec()).ok());
  using Kind = core::Observation::Kind;
  metrics_->OnObservation({Kind::kLease, "compile", 0.002});
  metrics_->OnObservation({Kind::kLease, "something new", 0.5});
  metrics_->OnObservation({Kind::kCandidateFailed, "check", 0});
  metrics_->OnObservation({Kind::kStaleResult, "", 0});
  metrics_->OnCommit(0.0003, 12);
  const std::string text = metrics_->Text();
  EXPECT_EQ(MetricLine(text, "kiln_rpc_requests_total{code=\"OK\",method=\"SubmitSweep\"}"), "1");
  EXPECT_EQ(
      MetricLine(text, "kiln_rpc_requests_total{code=\"INVALID_ARGUMENT\",method=\"SubmitSweep\"}"),
      "1");
  EXPECT_EQ(MetricLine(text, "kiln_leases_total{kind=\"compile\"}"), "1");
  EXPECT_EQ(MetricLine(text, "kiln_leases_total{kind=\"other\"}"), "1");
  EXPECT_EQ(MetricLine(text, "kiln_queue_seconds_bucket{kind=\"compile\",le=\"0.003\"}"), "1");
  EXPECT_EQ(MetricLine(text, "kiln_queue_seconds_bucket{kind=\"compile\",le=\"0.001\"}"), "0");
  EXPECT_EQ(MetricLine(text, "kiln_candidate_failures_total{stage=\"check\"}"), "1");
  EXPECT_EQ(MetricLine(text, "kiln_stale_completions_total"), "1");
  EXPECT_EQ(MetricLine(text, "kiln_store_commit_seconds_count"), "1");
  EXPECT_EQ(MetricLine(text, "kiln_tasks_ready"), "17");
  EXPECT_EQ(MetricLine(text, "kiln_healthy"), "1");
  metrics_->SetFarm(nullptr);
  EXPECT_EQ(MetricLine(metrics_->Text(), "kiln_healthy"), "0");
}

}  // namespace
}  // namespace kiln
