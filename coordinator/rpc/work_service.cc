#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "coordinator/rpc/call.h"
#include "coordinator/rpc/services.h"
#include "coordinator/rpc/status.h"
#include "coordinator/rpc/write_queue.h"
#include "kiln/v1/work.grpc.pb.h"

namespace kiln::rpc {
namespace {

constexpr size_t kMaxQueuedMessages = 4096;
constexpr int kMaxMergedTasks = 1024;

// Leases and acknowledgements travel in batches: what waits behind a slow write becomes one
// message.
bool MergeMessages(v1::CoordinatorMessage* last, v1::CoordinatorMessage* next) {
  if (last->has_leases() && next->has_leases() && last->leases().tasks_size() < kMaxMergedTasks) {
    last->mutable_leases()->MergeFrom(next->leases());
    return true;
  }
  if (last->has_acknowledge() && next->has_acknowledge() &&
      last->acknowledge().tasks_size() < kMaxMergedTasks) {
    last->mutable_acknowledge()->MergeFrom(next->acknowledge());
    return true;
  }
  return false;
}

class WorkerReactor;

// The farm's side of a worker's stream; outlives the reactor when the farm holds on to it.
class QueuedWorker : public core::WorkerSink {
 public:
  explicit QueuedWorker(WorkerReactor* reactor) : queue_(reactor) {}

  void Send(const v1::CoordinatorMessage& message) override {
    if (queue_.size() > kMaxQueuedMessages) {
      queue_.Abort(absl::UnavailableError("the worker does not read; attach again"));
      return;
    }
    queue_.PushOrMerge(message, MergeMessages);
  }
  void Close(const absl::Status& status) override { queue_.End(status); }

  WriteQueue<v1::CoordinatorMessage, WorkerReactor>* queue() { return &queue_; }

 private:
  WriteQueue<v1::CoordinatorMessage, WorkerReactor> queue_;
};

class WorkerReactor : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage> {
 public:
  explicit WorkerReactor(const ServiceParts& parts)
      : farm_(parts.farm),
        timer_(parts.metrics, "Attach"),
        sink_(std::make_shared<QueuedWorker>(this)),
        connection_(farm_->AttachWorker(sink_)) {
    timer_.metrics()->OnStream("Attach", 1);
    StartRead(&message_);
  }

  void FinishStream(const absl::Status& status) {
    code_ = status.code();
    Finish(ToGrpc(status));
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      farm_->WorkerSaid(connection_, std::move(message_));
      message_.Clear();
      StartRead(&message_);
      return;
    }
    farm_->DetachWorker(connection_);
    sink_->queue()->End(absl::OkStatus());
  }
  void OnWriteDone(bool ok) override { sink_->queue()->WriteDone(ok); }
  void OnCancel() override { sink_->queue()->Abort(absl::CancelledError("the worker left")); }
  void OnDone() override {
    timer_.metrics()->OnStream("Attach", -1);
    timer_.End(code_);
    delete this;
  }

 private:
  core::Farm* const farm_;
  const CallTimer timer_;
  const std::shared_ptr<QueuedWorker> sink_;
  const core::ConnectionId connection_;
  v1::WorkerMessage message_;
  absl::StatusCode code_ = absl::StatusCode::kOk;
};

class WorkService : public v1::Work::CallbackService {
 public:
  explicit WorkService(const ServiceParts& parts) : parts_(parts) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* Attach(
      grpc::CallbackServerContext* context) override {
    return new WorkerReactor(parts_);
  }

 private:
  const ServiceParts parts_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewWorkService(const ServiceParts& parts) {
  return std::make_unique<WorkService>(parts);
}

}  // namespace kiln::rpc
