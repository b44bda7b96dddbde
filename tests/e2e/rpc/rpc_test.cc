// The RPC server and the client library together, over real sockets, against a scripted farm:
// calls, watching, fetching, blobs.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "compiler/base/digest.h"
#include "coordinator/rpc/status.h"
#include "kiln/v1/tuning.grpc.pb.h"
#include "kiln/v1/work.grpc.pb.h"
#include "tests/e2e/rpc/rpc_fixture.h"

namespace kiln {
namespace {

using testing::HasSubstr;

// A socket at `path` that keeps whoever connects waiting before it passes bytes to and from
// `target`.
class SlowRelay {
 public:
  SlowRelay(const std::string& path, std::string target, absl::Duration wait)
      : target_(std::move(target)), wait_(wait), listener_(Open(path, /*listens=*/true)) {
    thread_ = std::thread([this] { Accept(); });
  }
  ~SlowRelay() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }

 private:
  static int Open(const std::string& path, bool listens) {
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    path.copy(name.sun_path, sizeof(name.sun_path) - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const auto* address = reinterpret_cast<const sockaddr*>(&name);
    const int bound =
        listens ? bind(fd, address, sizeof(name)) : connect(fd, address, sizeof(name));
    EXPECT_EQ(bound, 0) << path;
    if (listens) EXPECT_EQ(listen(fd, 8), 0);
    return fd;
  }

  void Accept() {
    std::vector<std::thread> passing;
    for (int fd = 0; (fd = accept(listener_, nullptr, nullptr)) >= 0;) {
      passing.emplace_back([this, fd] { Pass(fd); });
    }
    for (std::thread& t : passing) t.join();
  }

  void Pass(int from) const {
    absl::SleepFor(wait_);
    const int to = Open(target_, /*listens=*/false);
    pollfd ends[] = {{from, POLLIN, 0}, {to, POLLIN, 0}};
    for (bool open = true; open && poll(ends, 2, -1) > 0;) {
      for (int end : {0, 1}) {
        if (ends[end].revents == 0) continue;
        char bytes[4096];
        const ssize_t n = read(ends[end].fd, bytes, sizeof(bytes));
        open = open && n > 0 && write(ends[1 - end].fd, bytes, static_cast<size_t>(n)) == n;
      }
    }
    close(from);
    close(to);
  }

  const std::string target_;
  const absl::Duration wait_;
  const int listener_;
  std::thread thread_;
};

// ---- unary calls ----

// A loaded machine answers a new connection late; giving up on it early means never to be served.
TEST_F(RpcTest, AConnectionMayTakeHalfASecond) {
  const std::string path = (folder_ / "slow.sock").string();
  const SlowRelay relay(path, (folder_ / "s.sock").string(), absl::Milliseconds(500));
  const auto client = Client::Connect(absl::StrCat("unix:", path));
  ASSERT_TRUE(client.ok()) << client.status();
  const auto workers = (*client)->Workers();
  EXPECT_TRUE(workers.ok()) << workers.status();
}

TEST_F(RpcTest, SubmitCarriesTheWholeSpec) {
  const auto submitted = client_->Submit(Spec());
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  EXPECT_EQ(submitted->sweep, kSweep);
  EXPECT_EQ(submitted->winner, nullptr);
  ASSERT_EQ(farm_.submitted().size(), 1u);
  const v1::SweepSpec seen = farm_.submitted()[0];
  EXPECT_EQ(seen.template_(), "matmul");
  EXPECT_EQ(seen.arguments().at("dtype"), "float32");
  EXPECT_EQ(seen.tunables().at("block_M").values_size(), 2);
  EXPECT_EQ(seen.user(), "ada");
}

TEST_F(RpcTest, UnavailableIsTriedAgainOthersAreNot) {
  client::CallOptions options;
  options.retry.initial_backoff = absl::Milliseconds(1);
  farm_.FailNext(3, absl::UnavailableError("the store is read-only"));
  EXPECT_TRUE(client_->Submit(Spec(), options).ok());
  EXPECT_EQ(farm_.submitted().size(), 4u);
  farm_.FailNext(1, absl::ResourceExhaustedError("the queue is full"));
  const auto refused = client_->Submit(Spec(), options);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("the queue is full"));
  EXPECT_EQ(farm_.submitted().size(), 5u);
}

TEST_F(RpcTest, NobodyThereIsUnavailableAndSaysWhere) {
  auto client = Client::Connect(absl::StrCat("unix:", (folder_ / "nobody").string()));
  ASSERT_TRUE(client.ok());
  client::CallOptions options;
  options.retry.max_attempts = 2;
  options.retry.initial_backoff = absl::Milliseconds(1);
  const auto result = (*client)->Workers(options);
  EXPECT_TRUE(absl::IsUnavailable(result.status())) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("nobody"));
}

TEST_F(RpcTest, TheServerChecksForItself) {
  const auto stub = v1::Tuning::NewStub(RawChannel());
  {
    grpc::ClientContext context;
    v1::SubmitSweepRequest request;
    request.mutable_spec()->set_template_("no/such");
    v1::SubmitSweepResponse response;
    const grpc::Status status = stub->SubmitSweep(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("spec.template"));
  }
  {
    grpc::ClientContext context;
    v1::SubmitSweepRequest request;
    request.mutable_spec()->set_kernel_source(std::string(5 << 20, ' '));
    v1::SubmitSweepResponse response;
    const grpc::Status status = stub->SubmitSweep(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  {
    grpc::ClientContext context;
    v1::GetSweepRequest request;
    request.set_sweep("xyz");
    v1::GetSweepResponse response;
    EXPECT_EQ(stub->GetSweep(&context, request, &response).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  {
    grpc::ClientContext context;
    v1::ListSweepsRequest request;
    request.set_limit(100000);
    v1::ListSweepsResponse response;
    EXPECT_EQ(stub->ListSweeps(&context, request, &response).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_TRUE(farm_.submitted().empty());
}

TEST_F(RpcTest, LongDiagnosticsArriveCutWithTheirCode) {
  std::string message = "gemm.py:1:1: error: ";
  for (int i = 0; i < 20000; ++i) message += i % 3 == 0 ? "\n" : "\xc3\xa9";
  message += " the end";
  farm_.FailNext(1, absl::InvalidArgumentError(message));
  const auto result = client_->Submit(Spec());
  EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status().code();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("gemm.py:1:1"));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("(cut)"));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("the end"));
  EXPECT_EQ(rpc::CutMessage("short", 100), "short");
}

TEST_F(RpcTest, ListFollowsThePages) {
  const auto all = client_->List(0, false);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 1200u);
  for (int i = 0; i < 1200; ++i) EXPECT_EQ((*all)[i].name, std::to_string(i));
  const auto some = client_->List(777, false);
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->size(), 777u);
}

TEST_F(RpcTest, ShowLeavesOutRawSamplesAndWhatIsTooLarge) {
  v1::GetSweepResponse sweep;
  for (int i = 0; i < 3; ++i) {
    v1::Candidate* const c = sweep.add_candidates();
    c->set_config(absl::StrCat("block=", i));
    v1::Measurement* const m = c->add_measurements();
    for (int k = 0; k < 100; ++k) m->add_samples_ns(k);
  }
  farm_.SetSweep(sweep);
  const auto details = client_->Show(kSweep, true);
  ASSERT_TRUE(details.ok()) << details.status();
  ASSERT_EQ(details->candidates.size(), 3u);
  EXPECT_EQ(details->candidates[0].measurements[0].sample_count, 100);
  EXPECT_TRUE(details->candidates[0].measurements[0].samples_ns.empty());

  for (int i = 0; i < 70; ++i) {
    sweep.add_candidates()->mutable_hint()->set_reason(std::string(1 << 20, 'r'));
  }
  farm_.SetSweep(sweep);
  const auto large = client_->Show(kSweep, true);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_LT(large->candidates.size(), 65u);
  EXPECT_GT(large->candidates.size(), 50u);
}

TEST_F(RpcTest, TheOtherCallsArrive) {
  EXPECT_EQ((*client_->Lookup(Spec())).miss_reason, "the target differs");
  const auto first = client_->Cancel(kSweep, "enough"), second = client_->Cancel(kSweep, "more");
  EXPECT_EQ(first->state, client::SweepState::kCancelled);
  EXPECT_FALSE(first->had_ended);
  EXPECT_TRUE(second->had_ended);
  EXPECT_EQ(second->message, "enough");
  EXPECT_LT(absl::Now() - second->finished, absl::Minutes(1));
  EXPECT_TRUE(client_->Bars()->empty());
  EXPECT_TRUE(client_->LiftBars({})->empty());
  EXPECT_TRUE(absl::IsNotFound(client_->LiftBars({"0123456789"}).status()));
  EXPECT_EQ((*client_->Workers())[0].name, "w0");
  EXPECT_EQ((*client_->CollectGarbage(0, true)).bytes_after, 100);
  EXPECT_EQ((*client_->CollectGarbage(0, false)).bytes_after, 10);
  EXPECT_EQ(*client_->Backup("/tmp/x"), 7);
  EXPECT_TRUE(absl::IsInvalidArgument(client_->Backup("relative").status()));
}

TEST_F(RpcTest, DiskWorkDoesNotHoldUpCalls) {
  farm_.backup_time = absl::Seconds(2);
  std::vector<std::thread> backups;
  for (int i = 0; i < 8; ++i) {
    backups.emplace_back([this] { EXPECT_TRUE(client_->Backup("/tmp/x").ok()); });
  }
  absl::SleepFor(absl::Milliseconds(200));
  const absl::Time begin = absl::Now();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(client_->Workers().ok());
  EXPECT_LT(absl::Now() - begin, absl::Seconds(1));
  for (std::thread& thread : backups) thread.join();
}

TEST_F(RpcTest, DeadlineAndCancelEndACall) {
  farm_.backup_time = absl::Seconds(3);
  client::CallOptions options;
  options.timeout = absl::Milliseconds(100);
  const absl::Status late = client_->Backup("/tmp/x", options).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late));
  EXPECT_THAT(std::string(late.message()), testing::HasSubstr("timed out after 100ms: "));
  EXPECT_THAT(std::string(late.message()), testing::HasSubstr("had not answered Backup"));
  client::CallOptions cancelled;
  std::thread canceller([token = cancelled.cancel]() mutable {
    absl::SleepFor(absl::Milliseconds(100));
    token.Cancel();
  });
  const absl::Time begin = absl::Now();
  EXPECT_TRUE(absl::IsCancelled(client_->Backup("/tmp/x", cancelled).status()));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
  canceller.join();
}

// ---- watching ----

TEST_F(RpcTest, WatchDeliversInOrderToTheEnd) {
  farm_.OnWatch([](std::shared_ptr<core::WatchSink> sink) {
    std::thread([sink] {
      for (int i = 0; i < 500; ++i) sink->OnEvent(Event(v1::RUNNING, i, absl::StrCat("c=", i)));
      v1::SweepEvent last = Event(v1::DONE, 500);
      last.mutable_winner()->set_config("c=7");
      sink->OnEvent(last);
      sink->OnDone(absl::OkStatus());
    }).detach();
  });
  std::vector<std::string> changed;
  const auto last = client_->Watch(kSweep, [&](const SweepEvent& event) {
    if (event.changed != nullptr) changed.push_back(event.changed->config);
    return true;
  });
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->progress.state, client::SweepState::kDone);
  EXPECT_EQ(last->winner->config, "c=7");
  ASSERT_EQ(changed.size(), 500u);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(changed[i], absl::StrCat("c=", i));
}

TEST_F(RpcTest, ProgressAloneIsMergedForASlowWatcher) {
  farm_.OnWatch([](std::shared_ptr<core::WatchSink> sink) {
    for (int i = 0; i < 100000; ++i) sink->OnEvent(Event(v1::RUNNING, i));
    sink->OnEvent(Event(v1::DONE, 100000));
    sink->OnDone(absl::OkStatus());
  });
  int events = 0, last_done = -1;
  const auto last = client_->Watch(kSweep, [&](const SweepEvent& event) {
    EXPECT_GT(event.progress.done, last_done);
    last_done = event.progress.done;
    ++events;
    return true;
  });
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last_done, 100000);
  EXPECT_LT(events, 50000);
}

TEST_F(RpcTest, AWatcherThatStopsIsForgotten) {
  farm_.OnWatch(
      [](std::shared_ptr<core::WatchSink> sink) { sink->OnEvent(Event(v1::RUNNING, 1)); });
  const auto last = client_->Watch(kSweep, [](const SweepEvent&) { return false; });
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->progress.done, 1);
  for (int i = 0; i < 500 && farm_.watches() > 0; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(farm_.watches(), 0);
}

TEST_F(RpcTest, WatchErrorsReachTheCaller) {
  farm_.OnWatch([](std::shared_ptr<core::WatchSink> sink) {
    sink->OnDone(absl::NotFoundError("no sweep begins with aaa"));
  });
  const auto result = client_->Watch(kSweep, [](const SweepEvent&) { return true; });
  EXPECT_TRUE(absl::IsNotFound(result.status())) << result.status();
  const auto bad = client_->Watch("nonsense!", [](const SweepEvent&) { return true; });
  EXPECT_TRUE(absl::IsInvalidArgument(bad.status()));
}

TEST_F(RpcTest, WatchSurvivesARestartOfTheServer) {
  farm_.OnWatch(
      [](std::shared_ptr<core::WatchSink> sink) { sink->OnEvent(Event(v1::RUNNING, 1)); });
  std::thread restart([this] {
    absl::SleepFor(absl::Milliseconds(200));
    server_.reset();
    farm_.OnWatch([](std::shared_ptr<core::WatchSink> sink) {
      sink->OnEvent(Event(v1::DONE, 2));
      sink->OnDone(absl::OkStatus());
    });
    rpc::ServerOptions options;
    options.listen = {address_};
    server_ = *rpc::Server::Start(&farm_, metrics_.get(), options);
  });
  const auto last = client_->Watch(kSweep, [](const SweepEvent&) { return true; });
  restart.join();
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->progress.done, 2);
}

TEST_F(RpcTest, AWatchOutlastsAnOutageOfItsPatienceAndSaysSoOnce) {
  farm_.OnWatch(
      [](std::shared_ptr<core::WatchSink> sink) { sink->OnEvent(Event(v1::RUNNING, 1)); });
  std::thread restart([this] {
    absl::SleepFor(absl::Milliseconds(200));
    server_.reset();
    absl::SleepFor(absl::Milliseconds(1500));
    farm_.OnWatch([](std::shared_ptr<core::WatchSink> sink) {
      sink->OnEvent(Event(v1::DONE, 2));
      sink->OnDone(absl::OkStatus());
    });
    rpc::ServerOptions options;
    options.listen = {address_};
    server_ = *rpc::Server::Start(&farm_, metrics_.get(), options);
  });
  client::CallOptions options;
  options.retry.max_attempts = 2;  // far fewer than the outage takes
  options.retry.initial_backoff = absl::Milliseconds(20);
  options.retry.max_backoff = absl::Milliseconds(100);
  options.watch.patience = absl::Seconds(30);
  int lost = 0;
  options.watch.on_lost = [&lost](const absl::Status&) { ++lost; };
  const auto last = client_->Watch(
      kSweep, [](const SweepEvent&) { return true; }, options);
  restart.join();
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->progress.done, 2);
  EXPECT_EQ(lost, 1);
}

TEST_F(RpcTest, AWatchGivesUpWhenItsPatienceIsOver) {
  farm_.OnWatch(
      [](std::shared_ptr<core::WatchSink> sink) { sink->OnEvent(Event(v1::RUNNING, 1)); });
  std::thread end([this] {
    absl::SleepFor(absl::Milliseconds(200));
    server_.reset();
  });
  client::CallOptions options;
  options.retry.max_attempts = 2;
  options.retry.initial_backoff = absl::Milliseconds(20);
  options.retry.max_backoff = absl::Milliseconds(100);
  options.watch.patience = absl::Seconds(1);
  const absl::Time begin = absl::Now();
  const auto last = client_->Watch(
      kSweep, [](const SweepEvent&) { return true; }, options);
  end.join();
  EXPECT_TRUE(absl::IsUnavailable(last.status())) << last.status();
  EXPECT_GT(absl::Now() - begin, absl::Seconds(1));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
}

// ---- fetching ----

TEST_F(RpcTest, FetchBringsEveryByte) {
  for (const size_t size : {size_t{0}, size_t{1000}, size_t{256 << 10}, size_t{3 << 20} | 77}) {
    const std::string bundle = StoreBundle(size);
    std::string bytes;
    const auto fetched = client_->FetchBytes({kSweep, ""}, &bytes);
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    EXPECT_EQ(bytes, bundle);
    EXPECT_EQ(fetched->digest, Sha256Hex(bundle));
    EXPECT_EQ(fetched->info.config, "block_M=16");
    EXPECT_EQ(client::ParseBundle(bytes)->object.size(), size);
  }
}

TEST_F(RpcTest, FetchResumesAFileThatBrokeOff) {
  const std::string bundle = StoreBundle(2 << 20);
  const std::string path = (folder_ / "out.bundle").string();
  const std::string part = absl::StrCat(path, ".", Sha256Hex(bundle).substr(0, 16), ".part");
  std::ofstream(part, std::ios::binary) << bundle.substr(0, 1500000);
  const auto fetched = client_->FetchToFile({kSweep, ""}, path);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->resumed_at, 1500000);
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  EXPECT_EQ(text.str(), bundle);
  EXPECT_FALSE(fs::exists(part));
}

TEST_F(RpcTest, FetchDropsAPartOfAnotherBundle) {
  const std::string bundle = StoreBundle(5000);
  const std::string path = (folder_ / "other.bundle").string();
  std::ofstream(path + ".0123456789abcdef.part") << "old bytes";
  const auto fetched = client_->FetchToFile({kSweep, ""}, path);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->resumed_at, 0);
  EXPECT_EQ(fs::file_size(path), bundle.size());
  EXPECT_FALSE(fs::exists(path + ".0123456789abcdef.part"));
}

TEST_F(RpcTest, FetchFindsALongerPartAndStartsAgain) {
  const std::string bundle = StoreBundle(5000);
  const std::string path = (folder_ / "long.bundle").string();
  const std::string part = absl::StrCat(path, ".", Sha256Hex(bundle).substr(0, 16), ".part");
  std::ofstream(part) << bundle << "and more";
  const auto fetched = client_->FetchToFile({kSweep, ""}, path);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fs::file_size(path), bundle.size());
}

TEST_F(RpcTest, FetchChecksTheDigest) {
  const std::string bundle = StoreBundle(5000);
  core::ArtifactRef lying;
  lying.digest = *farm_.blobs()->PutBytes(bundle);
  lying.size_bytes = static_cast<int64_t>(bundle.size());
  const std::string path = (folder_ / "bad.bundle").string();
  std::string damaged = bundle;
  damaged[10] ^= 1;
  const std::string part = absl::StrCat(path, ".", lying.digest.substr(0, 16), ".part");
  std::ofstream(part, std::ios::binary) << damaged.substr(0, 100);
  EXPECT_TRUE(absl::IsDataLoss(client_->FetchToFile({kSweep, ""}, path).status()));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(part));
  EXPECT_TRUE(client_->FetchToFile({kSweep, ""}, path).ok()) << "the next fetch starts clean";
}

TEST_F(RpcTest, FetchErrorsAndRetries) {
  std::string bytes;
  EXPECT_TRUE(absl::IsNotFound(client_->FetchBytes({kSweep, ""}, &bytes).status()));
  StoreBundle(100);
  client::CallOptions options;
  options.retry.initial_backoff = absl::Milliseconds(1);
  farm_.FailNext(2, absl::UnavailableError("later"));
  EXPECT_TRUE(client_->FetchBytes({kSweep, ""}, &bytes, options).ok());
  farm_.FailNext(1, absl::FailedPreconditionError("the sweep runs"));
  EXPECT_TRUE(absl::IsFailedPrecondition(client_->FetchBytes({kSweep, ""}, &bytes).status()));
}

TEST_F(RpcTest, CompileHandsBackEveryConfig) {
  StoreBundle(100);
  farm_.OnWatch([](std::shared_ptr<core::WatchSink> sink) {
    sink->OnEvent(Event(v1::DONE, 2));
    sink->OnDone(absl::OkStatus());
  });
  v1::GetSweepResponse sweep;
  v1::Candidate* good = sweep.add_candidates();
  good->set_config("block_M=16");
  good->mutable_artifact()->set_digest("d");
  v1::Candidate* bad = sweep.add_candidates();
  bad->set_config("block_M=32");
  bad->mutable_failure()->set_stage(v1::Failure::COMPILE);
  bad->mutable_failure()->set_message("out of registers");
  farm_.SetSweep(sweep);
  const auto compiled = client_->Compile(Spec());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_EQ(compiled->size(), 2u);
  EXPECT_EQ(farm_.submitted()[0].objective(), v1::SweepSpec::COMPILE);
  ASSERT_TRUE((*compiled)[0].bundle.ok());
  EXPECT_EQ((*compiled)[0].bundle->name, "gemm");
  EXPECT_FALSE((*compiled)[1].bundle.ok());
  EXPECT_EQ((*compiled)[1].failure.message, "out of registers");
}

// ---- blobs ----

grpc::Status Put(v1::Blobs::Stub* stub, const std::string& digest, int64_t size,
                 const std::vector<std::string>& chunks, v1::PutBlobResponse* response) {
  grpc::ClientContext context;
  const auto writer = stub->PutBlob(&context, response);
  v1::PutBlobRequest request;
  request.set_digest(digest);
  request.set_size_bytes(size);
  bool open = writer->Write(request);
  for (const std::string& chunk : chunks) {
    v1::PutBlobRequest more;
    more.set_chunk(chunk);
    open = open && writer->Write(more);
  }
  writer->WritesDone();
  return writer->Finish();
}

TEST_F(RpcTest, BlobsGoInAndOut) {
  const auto stub = v1::Blobs::NewStub(RawChannel());
  const std::vector<std::string> chunks = {std::string(256 << 10, 'a'), std::string(100, 'b')};
  const std::string bytes = chunks[0] + chunks[1];
  const std::string digest = Sha256Hex(bytes);
  const auto size = static_cast<int64_t>(bytes.size());
  v1::PutBlobResponse response;
  EXPECT_TRUE(Put(stub.get(), digest, size, chunks, &response).ok());
  EXPECT_FALSE(response.existed());
  EXPECT_TRUE(Put(stub.get(), digest, size, chunks, &response).ok());
  EXPECT_TRUE(response.existed());

  for (const int64_t offset : {int64_t{0}, int64_t{1000}, size}) {
    grpc::ClientContext context;
    v1::GetBlobRequest request;
    request.set_digest(digest);
    request.set_offset(offset);
    const auto reader = stub->GetBlob(&context, request);
    std::string got;
    v1::GetBlobResponse part;
    int64_t total = 0;
    while (reader->Read(&part)) {
      EXPECT_LE(part.chunk().size(), 256u << 10);
      got += part.chunk();
      total = std::max(total, part.total_bytes());
    }
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(got, bytes.substr(static_cast<size_t>(offset)));
    EXPECT_EQ(total, size);
  }
}

TEST_F(RpcTest, BadBlobsAreRefused) {
  const auto stub = v1::Blobs::NewStub(RawChannel());
  const std::string bytes = "some bytes", digest = Sha256Hex(bytes);
  v1::PutBlobResponse response;
  const auto code = [&](const std::string& name, int64_t size,
                        const std::vector<std::string>& chunks) {
    return Put(stub.get(), name, size, chunks, &response).error_code();
  };
  EXPECT_EQ(code(digest, 10, {"other text"}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code(digest, 10, {"some"}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code(digest, 10, {"some bytes and more"}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code("nonsense", 10, {bytes}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code(digest, -1, {bytes}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code(digest, int64_t{1} << 40, {bytes}), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(code(Sha256Hex("x"), 300 << 10, {std::string(300 << 10, 'x')}),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_FALSE(farm_.blobs()->Contains(digest));
  const auto get = [&](const std::string& name, int64_t offset) {
    grpc::ClientContext context;
    v1::GetBlobRequest request;
    request.set_digest(name);
    request.set_offset(offset);
    const auto reader = stub->GetBlob(&context, request);
    v1::GetBlobResponse part;
    while (reader->Read(&part)) {
    }
    return reader->Finish().error_code();
  };
  EXPECT_EQ(get(digest, 0), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(get("xx", 0), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code(digest, 10, {bytes}), grpc::StatusCode::OK);
  EXPECT_EQ(get(digest, 11), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(get(digest, -1), grpc::StatusCode::OUT_OF_RANGE);
}

TEST_F(RpcTest, AnUploadThatBreaksOffLeavesNothing) {
  const std::string bytes(1000, 'q'), digest = Sha256Hex(bytes);
  const auto stub = v1::Blobs::NewStub(RawChannel());
  {
    grpc::ClientContext context;
    v1::PutBlobResponse response;
    const auto writer = stub->PutBlob(&context, &response);
    v1::PutBlobRequest request;
    request.set_digest(digest);
    request.set_size_bytes(1000);
    request.set_chunk(bytes.substr(0, 500));
    writer->Write(request);
    context.TryCancel();
    EXPECT_FALSE(writer->Finish().ok());
  }
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_FALSE(farm_.blobs()->Contains(digest));
  v1::PutBlobResponse response;
  EXPECT_TRUE(Put(stub.get(), digest, 1000, {bytes}, &response).ok());
}

}  // namespace
}  // namespace kiln
