// Elapsed time on the steady clock.
#ifndef KILN_WORKER_ELAPSED_H_
#define KILN_WORKER_ELAPSED_H_

#include <chrono>

namespace kiln::worker {

inline double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace kiln::worker

#endif  // KILN_WORKER_ELAPSED_H_
