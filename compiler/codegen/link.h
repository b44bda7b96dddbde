// Linking, in process (lld): no tool on the compile host is needed.
#ifndef KILN_COMPILER_CODEGEN_LINK_H_
#define KILN_COMPILER_CODEGEN_LINK_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::codegen {

// A shared object with the object's global symbols, which needs libc.so.6 and libm.so.6 alone.
// Uses a private temporary folder. One call at a time in a process (lld has global state): callers
// are serialised.
// `soname` is the file name that programs linked against it look for.
absl::StatusOr<std::string> LinkSharedObject(absl::string_view object, const std::string& soname);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_LINK_H_
