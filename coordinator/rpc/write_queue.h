// Messages on their way into one gRPC stream. gRPC allows one outstanding write (a second
// StartWrite aborts the process), so messages wait here for their turn, and the end of the stream
// waits for them.
#ifndef KILN_COORDINATOR_RPC_WRITE_QUEUE_H_
#define KILN_COORDINATOR_RPC_WRITE_QUEUE_H_

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"

namespace kiln::rpc {

// `Port` is the reactor's side: StartWrite(const Message*) and FinishStream(const absl::Status&).
// Thread-safe. Port calls are made under the queue's lock and must not call back into it (gRPC's
// reactions arrive on other threads). After FinishStream the port is not used.
template <typename Message, typename Port>
class WriteQueue {
 public:
  explicit WriteQueue(Port* port) : port_(port) {}

  // Queues `message`; dropped when the stream is ending.
  void Push(Message message) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (port_ == nullptr || end_.has_value()) return;
    queue_.push_back(std::move(message));
    Next();
  }

  // Queues `message`, or hands it to `merge` together with the last waiting message; `merge`
  // returns true when it took it over.
  void PushOrMerge(Message message, const std::function<bool(Message*, Message*)>& merge) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (port_ == nullptr || end_.has_value()) return;
    if (queue_.empty() || !merge(&queue_.back(), &message)) queue_.push_back(std::move(message));
    Next();
  }

  // Ends the stream with `status` after what is queued; the first call counts.
  void End(const absl::Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (port_ == nullptr || end_.has_value()) return;
    end_ = status;
    Next();
  }

  // Ends the stream now: the peer is gone or too slow, what is queued is dropped.
  void Abort(const absl::Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (port_ == nullptr) return;
    queue_.clear();
    end_ = status;
    Next();
  }

  // The reactor's OnWriteDone.
  void WriteDone(bool ok) {
    std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    if (!ok) {
      queue_.clear();
      if (!end_.has_value()) end_ = absl::CancelledError("the peer is gone");
    }
    Next();
  }

  size_t size() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return queue_.size();
  }

 private:
  void Next() {  // under mutex_
    if (writing_ || port_ == nullptr) return;
    if (!queue_.empty()) {
      current_ = std::move(queue_.front());
      queue_.pop_front();
      writing_ = true;
      port_->StartWrite(&current_);
    } else if (end_.has_value()) {
      Port* const port = port_;
      port_ = nullptr;
      port->FinishStream(*end_);
    }
  }

  mutable std::mutex mutex_;  // guards what follows
  Port* port_;                // null after FinishStream
  std::deque<Message> queue_;
  Message current_;
  bool writing_ = false;
  std::optional<absl::Status> end_;
};

}  // namespace kiln::rpc

#endif  // KILN_COORDINATOR_RPC_WRITE_QUEUE_H_
