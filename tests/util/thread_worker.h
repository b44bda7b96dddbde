// A modelled worker on a thread of its own, for a Farm in the same process.
#ifndef KILN_TESTS_UTIL_THREAD_WORKER_H_
#define KILN_TESTS_UTIL_THREAD_WORKER_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "coordinator/core/farm.h"
#include "tests/util/fake_space.h"

namespace kiln::testing {

// Runs what it is leased at once, in order. Thread-safe.
class ThreadWorker : public core::WorkerSink {
 public:
  ThreadWorker(const SpaceModel& space, store::BlobStore* blobs) : space_(space), blobs_(blobs) {}

  // Both are called on the farm's thread, for each lease and each acknowledgement of a used result.
  std::function<void(const v1::Task&)> on_lease;
  std::function<void(const std::string& task)> on_used;
  std::chrono::microseconds pause{0};  // for each task

  void Send(const v1::CoordinatorMessage& message) override {
    const auto& stale = message.acknowledge().stale();
    for (const std::string& id : message.acknowledge().tasks()) {
      const bool used = std::find(stale.begin(), stale.end(), id) == stale.end();
      if (used && on_used) on_used(id);
    }
    std::lock_guard<std::mutex> lock(mutex_);
    for (const v1::Task& task : message.leases().tasks()) {
      if (on_lease) on_lease(task);
      queue_.push_back(task);
    }
    wake_.notify_all();
  }

  void Close(const absl::Status& status) override {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    wake_.notify_all();
  }

  // Attaches and works until the farm closes the stream.
  static void Serve(const std::shared_ptr<ThreadWorker>& self, core::Farm* farm,
                    const v1::Register& info) {
    const core::ConnectionId connection = farm->AttachWorker(self);
    v1::WorkerMessage hello;
    *hello.mutable_register_() = info;
    farm->WorkerSaid(connection, hello);
    for (;;) {
      std::deque<v1::Task> tasks;
      {
        std::unique_lock<std::mutex> lock(self->mutex_);
        self->wake_.wait_for(lock, std::chrono::milliseconds(200),
                             [&] { return self->closed_ || !self->queue_.empty(); });
        if (self->closed_) return;
        tasks.swap(self->queue_);
      }
      v1::WorkerMessage message;
      if (tasks.empty()) message.mutable_heartbeat();
      for (const v1::Task& task : tasks) {
        if (self->pause.count() > 0) std::this_thread::sleep_for(self->pause);
        *message.mutable_results()->add_results() = self->Run(task, info.worker());
      }
      farm->WorkerSaid(connection, std::move(message));
    }
  }

  // A worker of one compile and one profile slot or more, of build "build-1".
  static v1::Register Info(const std::string& name, const std::string& instance = "1") {
    v1::Register r;
    r.set_worker(name);
    r.set_instance(instance);
    r.set_compile_slots(2);
    r.set_profile_slots(1);
    *r.add_archs() = FakeArch();
    r.add_compile_targets("x86-64");
    r.set_compiler_build("build-1");
    r.set_protocol(1);
    return r;
  }

 private:
  v1::TaskResult Run(const v1::Task& task, const std::string& name) {
    v1::TaskResult result;
    result.set_task(task.id());
    result.set_epoch(task.epoch());
    if (task.kind() == v1::TASK_EMPTY) return result;
    v1::SweepInputs inputs;
    const auto bytes = blobs_->ReadAll(task.inputs_digest());
    if (!bytes.ok() || !inputs.ParseFromString(*bytes)) {
      result.set_released(absl::StrCat("lost inputs: blob ", task.inputs_digest()));
      return result;
    }
    const FakeSpace space = SpaceOf(space_, inputs);
    for (const v1::TaskCandidate& c : task.candidates()) {
      v1::CandidateResult* out = result.add_candidates();
      out->set_config(c.config());
      if (task.kind() == v1::TASK_COMPILE) {
        std::string bundle;
        *out->mutable_artifact() = space.Compile(inputs, c.config(), "build-1", &bundle);
        KILN_CHECK(blobs_->PutBytes(bundle).ok());
      } else {
        *out->mutable_measurement() = space.Measure(
            c.config(), absl::StrCat(task.kind(), task.round()), task.samples(), name + "/cpu");
        if (task.kind() == v1::TASK_FINALS) {
          *out->mutable_fresh() = space.Measure(c.config(), "fresh", task.samples(), name + "/cpu");
        }
      }
    }
    return result;
  }

  const SpaceModel space_;
  store::BlobStore* const blobs_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<v1::Task> queue_;
  bool closed_ = false;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_UTIL_THREAD_WORKER_H_
