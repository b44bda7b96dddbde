// Errors that Python raises as exceptions. Of `except` the kernel language follows that of an
// import alone; an error that another would catch says so.
#ifndef KILN_COMPILER_LANG_RAISED_H_
#define KILN_COMPILER_LANG_RAISED_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "compiler/lang/ast.h"

namespace kiln::lang {

// `error`, which is an exception of that type in Python ("KeyError").
absl::Status Raised(absl::Status error, absl::string_view type);

// The error of a try's body. Where one of its handlers would catch it, or might, as the type of the
// exception is not known, the message says that it is not followed.
absl::Status NotFollowed(const absl::Status& error, const ast::Try& node);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_RAISED_H_
