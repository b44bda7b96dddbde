// On which cores threads may run. A thread's children, threads and processes, inherit its cores.
#ifndef KILN_COMPILER_BASE_AFFINITY_H_
#define KILN_COMPILER_BASE_AFFINITY_H_

#include <sched.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// Of this thread, ascending; empty where the system does not say.
std::vector<int> AllowedCores();

// This thread, from now on. kUnavailable where the system refuses.
absl::Status RunOn(const std::vector<int>& cores);

// "0-3,8" as the kernel writes it, and back. kInvalidArgument: it is no such list.
absl::StatusOr<std::vector<int>> ParseCores(absl::string_view text);
std::string CoresText(const std::vector<int>& cores);

// While it lives this thread runs on one core alone, then where it did before. A negative number,
// or a core that is refused, changes nothing.
class OnCore {
 public:
  explicit OnCore(int core);
  ~OnCore();
  OnCore(const OnCore&) = delete;
  OnCore& operator=(const OnCore&) = delete;

 private:
  bool moved_ = false;
  cpu_set_t before_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_BASE_AFFINITY_H_
