// Functions of libraries that are found at run time, so that nothing of them is needed to build.
#ifndef KILN_WORKER_PROFILE_DYNAMIC_LIBRARY_H_
#define KILN_WORKER_PROFILE_DYNAMIC_LIBRARY_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace kiln::worker {

struct Symbol {
  const char* name;
  void* place;            // a pointer to a function lies there
  bool optional = false;  // null where the library does not have it
};

// Fills in all places from `library` (of dlopen). kUnavailable: "<who> has no <name><help>".
absl::Status Resolve(void* library, absl::Span<const Symbol> symbols, absl::string_view who,
                     absl::string_view help = "");

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_DYNAMIC_LIBRARY_H_
