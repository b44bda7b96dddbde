// Threads for what blocks on the disk, so that no blob, backup or collection holds up the few
// threads that gRPC runs its callbacks on, and with them the workers' heartbeats.
#ifndef KILN_COORDINATOR_RPC_DISK_POOL_H_
#define KILN_COORDINATOR_RPC_DISK_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kiln::rpc {

// Thread-safe. Jobs start in the order in which they came. The queue needs no bound of its own:
// a stream has at most one job in it, and gRPC bounds the streams.
class DiskPool {
 public:
  explicit DiskPool(int threads);
  // Runs what is queued, then joins.
  ~DiskPool();
  DiskPool(const DiskPool&) = delete;
  DiskPool& operator=(const DiskPool&) = delete;

  void Post(std::function<void()> job);

 private:
  void Run();

  std::mutex mutex_;  // guards what follows, up to threads_
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kiln::rpc

#endif  // KILN_COORDINATOR_RPC_DISK_POOL_H_
