// Loops over elements and over tasks, shared by the cores of this process.
#ifndef KILN_WORKER_PROFILE_PARALLEL_H_
#define KILN_WORKER_PROFILE_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace kiln::worker {

inline constexpr int64_t kPiece = int64_t{1} << 20;  // elements worth a thread
inline constexpr int kMostThreads = 16;

inline int64_t ParallelWidth() {
  return std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
}

// Calls body(first, last) for consecutive ranges that make up [0, count), from several threads at
// once when there are many elements. Ranges begin at multiples of 64.
template <typename Body>
void ParallelFor(int64_t count, const Body& body) {
  const int64_t pieces = std::clamp<int64_t>(count / kPiece, 1, ParallelWidth());
  const int64_t step = (count / pieces + 63) / 64 * 64;
  std::vector<std::thread> threads;
  for (int64_t first = step; first < count; first += step) {
    threads.emplace_back(
        [&body, first, last = std::min(count, first + step)] { body(first, last); });
  }
  body(int64_t{0}, std::min(count, step));
  for (std::thread& thread : threads) thread.join();
}

// Calls body(task) for each task of [0, count), from several threads at once, in any order.
template <typename Body>
void ParallelTasks(int64_t count, const Body& body) {
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t task = next++; task < count; task = next++) body(task);
  };
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < std::min(ParallelWidth(), count); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_PARALLEL_H_
