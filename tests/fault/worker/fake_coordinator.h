// A coordinator that does what a test says: leases what it is given, keeps what it is told, and can
// be torn down and brought back on the same socket.
#ifndef KILN_TESTS_FAULT_WORKER_FAKE_COORDINATOR_H_
#define KILN_TESTS_FAULT_WORKER_FAKE_COORDINATOR_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "compiler/base/digest.h"
#include "kiln/v1/work.grpc.pb.h"

namespace kiln::worker {

class FakeCoordinator : public v1::Work::Service, public v1::Blobs::Service {
 public:
  explicit FakeCoordinator(std::string address) : address_(std::move(address)) { Start(); }
  ~FakeCoordinator() override { Stop(); }

  // Like a crash and a restart: streams break, blobs and results stay.
  void Stop() {
    if (server_ == nullptr) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }
  void Start() {
    stopping_ = false;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(static_cast<v1::Work::Service*>(this));
    builder.RegisterService(static_cast<v1::Blobs::Service*>(this));
    server_ = builder.BuildAndStart();
  }

  std::string AddBlob(const std::string& bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::string digest = Sha256Hex(bytes);
    blobs_[digest] = bytes;
    return digest;
  }
  // Hands out other bytes under this digest.
  void CorruptBlob(const std::string& digest) {
    std::lock_guard<std::mutex> lock(mutex_);
    blobs_[digest] = "rotten";
  }
  std::string Blob(const std::string& digest) {
    std::lock_guard<std::mutex> lock(mutex_);
    return blobs_[digest];
  }
  bool HasBlob(const std::string& digest) {
    std::lock_guard<std::mutex> lock(mutex_);
    return blobs_.count(digest) > 0;
  }

  void Lease(v1::Task task) {
    v1::CoordinatorMessage message;
    *message.mutable_leases()->add_tasks() = std::move(task);
    Say(std::move(message));
  }
  void Revoke(const std::string& task) {
    v1::CoordinatorMessage message;
    message.mutable_revoke()->add_tasks(task);
    message.mutable_revoke()->set_reason("test");
    Say(std::move(message));
  }
  void Say(v1::CoordinatorMessage message) {
    std::lock_guard<std::mutex> lock(mutex_);
    outbox_.push_back(std::move(message));
    changed_.notify_all();
  }
  void set_acknowledging(bool on) {
    std::lock_guard<std::mutex> lock(mutex_);
    acknowledging_ = on;
  }

  std::optional<v1::TaskResult> WaitResult(const std::string& task, double seconds = 30) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!Wait(&lock, seconds, [&] { return results_.count(task) > 0; })) return std::nullopt;
    return results_[task].back();
  }
  // How often a result of the task arrived.
  int Arrivals(const std::string& task) {
    std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int>(results_[task].size());
  }
  bool WaitRegistrations(size_t count, double seconds = 30) {
    std::unique_lock<std::mutex> lock(mutex_);
    return Wait(&lock, seconds, [&] { return registrations_.size() >= count; });
  }
  v1::Register registration(size_t index) {
    std::lock_guard<std::mutex> lock(mutex_);
    return registrations_.at(index);
  }
  bool WaitHeartbeatWith(const std::string& task, double seconds = 30) {
    std::unique_lock<std::mutex> lock(mutex_);
    return Wait(&lock, seconds, [&] {
      for (const v1::RunningTask& running : heartbeat_.running()) {
        if (running.task() == task) return true;
      }
      return false;
    });
  }
  bool WaitDrain(double seconds = 30) {
    std::unique_lock<std::mutex> lock(mutex_);
    return Wait(&lock, seconds, [&] { return drained_; });
  }
  int heartbeats() {
    std::lock_guard<std::mutex> lock(mutex_);
    return heartbeats_;
  }

  grpc::Status Attach(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* stream) override {
    bool open = true;
    std::thread writer;
    v1::WorkerMessage message;
    while (stream->Read(&message)) {
      if (message.has_register_()) {
        Note(message.register_());
        v1::CoordinatorMessage welcome;
        welcome.mutable_welcome()->set_heartbeat_seconds(0.2);
        stream->Write(welcome);
        writer = std::thread([this, stream, &open] { WriteLoop(stream, &open); });
      }
      std::lock_guard<std::mutex> lock(mutex_);
      if (message.has_results()) {
        for (const v1::TaskResult& result : message.results().results()) Keep(result);
      }
      if (message.has_heartbeat()) {
        heartbeat_ = message.heartbeat();
        ++heartbeats_;
      }
      if (message.has_drain()) drained_ = true;
      changed_.notify_all();
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      open = false;
      changed_.notify_all();
    }
    if (writer.joinable()) writer.join();
    return grpc::Status::OK;
  }

  grpc::Status PutBlob(grpc::ServerContext*, grpc::ServerReader<v1::PutBlobRequest>* reader,
                       v1::PutBlobResponse*) override {
    std::string digest;
    std::string bytes;
    v1::PutBlobRequest request;
    while (reader->Read(&request)) {
      if (digest.empty()) digest = request.digest();
      bytes += request.chunk();
    }
    if (Sha256Hex(bytes) != digest) return {grpc::StatusCode::INVALID_ARGUMENT, "digest"};
    AddBlob(bytes);
    return grpc::Status::OK;
  }

  grpc::Status GetBlob(grpc::ServerContext*, const v1::GetBlobRequest* request,
                       grpc::ServerWriter<v1::GetBlobResponse>* writer) override {
    std::string bytes;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      auto found = blobs_.find(request->digest());
      if (found == blobs_.end()) return {grpc::StatusCode::NOT_FOUND, "no such blob"};
      bytes = found->second.substr(static_cast<size_t>(request->offset()));
    }
    v1::GetBlobResponse response;
    for (size_t at = 0; at < bytes.size() || at == 0; at += 1000) {
      response.set_chunk(bytes.substr(std::min(at, bytes.size()), 1000));
      writer->Write(response);
    }
    return grpc::Status::OK;
  }

 private:
  template <typename Predicate>
  bool Wait(std::unique_lock<std::mutex>* lock, double seconds, Predicate predicate) {
    return changed_.wait_for(*lock, std::chrono::duration<double>(seconds), predicate);
  }

  void Note(const v1::Register& registration) {
    std::lock_guard<std::mutex> lock(mutex_);
    registrations_.push_back(registration);
    for (const v1::TaskResult& result : registration.unacknowledged()) Keep(result);
    changed_.notify_all();
  }

  void Keep(const v1::TaskResult& result) {
    results_[result.task()].push_back(result);
    if (!acknowledging_) return;
    v1::CoordinatorMessage message;
    message.mutable_acknowledge()->add_tasks(result.task());
    outbox_.push_back(std::move(message));
  }

  void WriteLoop(grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* stream,
                 const bool* open) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !*open || stopping_ || !outbox_.empty(); });
      if (!*open || stopping_) return;
      v1::CoordinatorMessage message = std::move(outbox_.front());
      outbox_.pop_front();
      lock.unlock();
      bool written = stream->Write(message);
      lock.lock();
      if (!written) return;
    }
  }

  const std::string address_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool acknowledging_ = true;
  bool drained_ = false;
  int heartbeats_ = 0;
  v1::Heartbeat heartbeat_;
  std::map<std::string, std::string> blobs_;
  std::deque<v1::CoordinatorMessage> outbox_;
  std::map<std::string, std::vector<v1::TaskResult>> results_;
  std::vector<v1::Register> registrations_;
};

}  // namespace kiln::worker

#endif  // KILN_TESTS_FAULT_WORKER_FAKE_COORDINATOR_H_
