// Elapsed time on the steady clock.
#ifndef KILN_WORKER_ELAPSED_H_
#define KILN_WORKER_ELAPSED_H_

#include <chrono>
#include <cstdint>

namespace kiln::worker {

inline double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The steady clock's reading; 0 is another moment in every process.
inline int64_t SteadyNs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace kiln::worker

#endif  // KILN_WORKER_ELAPSED_H_
