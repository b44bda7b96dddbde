#include "coordinator/core/job_pool.h"

#include <chrono>
#include <utility>

namespace kiln::core {

JobPool::JobPool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

void JobPool::Add(std::function<void()> job) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void JobPool::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool JobPool::StopWithin(double seconds) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
    const bool idle = idle_.wait_for(lock, std::chrono::duration<double>(seconds),
                                     [this] { return running_ == 0 && jobs_.empty(); });
    if (!idle) return false;
  }
  Stop();
  return true;
}

void JobPool::Run() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      ++running_;
    }
    job();
    job = nullptr;
    std::lock_guard<std::mutex> lock(mutex_);
    --running_;
    idle_.notify_all();
  }
}

}  // namespace kiln::core
