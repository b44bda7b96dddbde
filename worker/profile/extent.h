// Extents that a manifest gives as text: a run-time dimension, or integer arithmetic with some, as
// the compiler prints it: "(H - 3) // 2 * N", "max(K, 1)".
#ifndef KILN_WORKER_PROFILE_EXTENT_H_
#define KILN_WORKER_PROFILE_EXTENT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::worker {

// The value of a name.
using ExtentNames = std::function<absl::StatusOr<int64_t>(const std::string& name)>;

// Division rounds down, as in the kernel language. kInvalidArgument for any other text, a result
// that has no value (a division by zero, one that does not fit int64), or what `names` says.
absl::StatusOr<int64_t> EvaluateExtent(absl::string_view text, const ExtentNames& names);

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_EXTENT_H_
