#include "coordinator/rpc/disk_pool.h"

#include <utility>

namespace kiln::rpc {

DiskPool::DiskPool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

DiskPool::~DiskPool() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void DiskPool::Post(std::function<void()> job) {
  absl::MutexLock lock(&mutex_);
  jobs_.push_back(std::move(job));
}

void DiskPool::Run() {
  while (true) {
    std::function<void()> job;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &DiskPool::HasWork));
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace kiln::rpc
