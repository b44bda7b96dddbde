// A few threads beside the loop for what may take long: expansions and large reads.
#ifndef KILN_COORDINATOR_CORE_JOB_POOL_H_
#define KILN_COORDINATOR_CORE_JOB_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kiln::core {

// Thread-safe. Jobs start in order. Stop runs what was added before it, and joins.
class JobPool {
 public:
  explicit JobPool(int threads);
  ~JobPool() { Stop(); }
  void Add(std::function<void()> job);
  void Stop();
  // As Stop, but waits at most `seconds`. False: a job still runs, and Stop must follow.
  bool StopWithin(double seconds);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<std::function<void()>> jobs_;
  int running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_JOB_POOL_H_
