// A coordinator in memory: no sockets, scripted failures.
#ifndef KILN_TESTS_UNIT_WORKER_MEMORY_LINK_H_
#define KILN_TESTS_UNIT_WORKER_MEMORY_LINK_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compiler/base/digest.h"
#include "worker/link.h"

namespace kiln::worker {

class MemoryLink : public Link {
 public:
  std::string AddBlob(const std::string& bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    blobs_[Sha256Hex(bytes)] = bytes;
    return Sha256Hex(bytes);
  }
  void SetBlob(const std::string& digest, const std::string& bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    blobs_[digest] = bytes;
  }
  bool HasBlob(const std::string& digest) {
    std::lock_guard<std::mutex> lock(mutex_);
    return blobs_.count(digest) > 0;
  }
  // The next `count` blob calls fail as if the network were gone.
  void FailBlobCalls(int count) {
    std::lock_guard<std::mutex> lock(mutex_);
    failing_ = count;
  }
  int gets() {
    std::lock_guard<std::mutex> lock(mutex_);
    return gets_;
  }

  absl::Status GetBlob(const std::string& digest, int64_t offset, const Sink& sink) override {
    std::string bytes;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++gets_;
      if (failing_ > 0 && failing_-- > 0) return absl::UnavailableError("no network");
      auto found = blobs_.find(digest);
      if (found == blobs_.end()) return absl::NotFoundError("no such blob");
      bytes = found->second.substr(static_cast<size_t>(offset));
    }
    for (size_t at = 0; at < bytes.size(); at += 7) {
      absl::Status status = sink(absl::string_view(bytes).substr(at, 7));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::Status PutBlob(const std::string& digest, absl::string_view bytes) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failing_ > 0 && failing_-- > 0) return absl::UnavailableError("no network");
    blobs_[digest] = std::string(bytes);
    return absl::OkStatus();
  }

  // The attachment as the test sees it: what the worker wrote, what it shall read.
  struct Line {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<v1::WorkerMessage> said;
    std::deque<v1::CoordinatorMessage> to_say;
    bool broken = false;

    void Say(v1::CoordinatorMessage message) {
      std::lock_guard<std::mutex> lock(mutex);
      to_say.push_back(std::move(message));
      changed.notify_all();
    }
    void Break() {
      std::lock_guard<std::mutex> lock(mutex);
      broken = true;
      changed.notify_all();
    }
    bool WaitSaid(const std::function<bool(const v1::WorkerMessage&)>& wanted) {
      std::unique_lock<std::mutex> lock(mutex);
      return changed.wait_for(lock, std::chrono::seconds(20), [&] {
        for (const v1::WorkerMessage& message : said) {
          if (wanted(message)) return true;
        }
        return false;
      });
    }
  };

  // The attachment number `index`, waiting for it.
  std::shared_ptr<Line> WaitLine(size_t index) {
    std::unique_lock<std::mutex> lock(mutex_);
    bool there =
        changed_.wait_for(lock, std::chrono::seconds(20), [&] { return lines_.size() > index; });
    return there ? lines_[index] : nullptr;
  }

  std::unique_ptr<Stream> Attach() override {
    std::lock_guard<std::mutex> lock(mutex_);
    lines_.push_back(std::make_shared<Line>());
    changed_.notify_all();
    return std::make_unique<MemoryStream>(lines_.back());
  }

 private:
  class MemoryStream : public Stream {
   public:
    explicit MemoryStream(std::shared_ptr<Line> line) : line_(std::move(line)) {}
    bool Write(const v1::WorkerMessage& message) override {
      std::lock_guard<std::mutex> lock(line_->mutex);
      if (line_->broken) return false;
      line_->said.push_back(message);
      line_->changed.notify_all();
      return true;
    }
    bool Read(v1::CoordinatorMessage* message) override {
      std::unique_lock<std::mutex> lock(line_->mutex);
      line_->changed.wait(lock, [&] { return line_->broken || !line_->to_say.empty(); });
      if (line_->broken) return false;
      *message = std::move(line_->to_say.front());
      line_->to_say.pop_front();
      return true;
    }
    void WritesDone() override { line_->Break(); }
    void Cancel() override { line_->Break(); }
    absl::Status Finish() override { return absl::UnavailableError("the line is dead"); }

   private:
    std::shared_ptr<Line> line_;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> blobs_;
  std::vector<std::shared_ptr<Line>> lines_;
  int failing_ = 0;
  int gets_ = 0;
};

}  // namespace kiln::worker

#endif  // KILN_TESTS_UNIT_WORKER_MEMORY_LINK_H_
