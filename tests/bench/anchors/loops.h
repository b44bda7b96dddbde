// Threaded loops over memory: what a memory-bound kernel is held against.
#ifndef KILN_TESTS_BENCH_ANCHORS_LOOPS_H_
#define KILN_TESTS_BENCH_ANCHORS_LOOPS_H_

#include <barrier>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "tests/bench/anchors/streams.h"

namespace kiln::bench {

// A fixed crew of threads, the caller among them. Not reentrant.
class Crew {
 public:
  explicit Crew(int threads);
  ~Crew();
  // Runs part(i) for i in [0, threads), one thread each, and waits.
  void Run(const std::function<void(int)>& part);
  int threads() const { return threads_; }

 private:
  const int threads_;
  std::barrier<> start_, finish_;
  const std::function<void(int)>* part_ = nullptr;
  std::vector<std::jthread> helpers_;
};

// Each thread takes one contiguous share, by one compiler's loops.
void Read(Crew& crew, const kiln_streams& loops, const float* x, int64_t count);
void Copy(Crew& crew, const kiln_streams& loops, const float* x, float* y, int64_t count);
void Multiply(Crew& crew, const kiln_streams& loops, const float* a, const float* b, float* y,
              int64_t count);

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_ANCHORS_LOOPS_H_
