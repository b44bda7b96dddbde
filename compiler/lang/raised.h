// Errors that Python raises as exceptions. An `except` is followed where it is certain to catch
// one, or not to; an error that it might catch says that it is not followed.
#ifndef KILN_COMPILER_LANG_RAISED_H_
#define KILN_COMPILER_LANG_RAISED_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "compiler/lang/ast.h"

namespace kiln::lang {

// `error`, which is an exception of that type in Python ("KeyError").
absl::Status Raised(absl::Status error, absl::string_view type);

// The type that the error has in Python; empty: it is not known.
std::string ExceptionOf(const absl::Status& error);

// The handler that catches the error; null: none does, or it is not certain which one.
const ast::Handler* HandlerOf(const absl::Status& error, const ast::Try& node);

// The error of a try's body. Where one of its handlers would catch it, or might, as the type of the
// exception is not known, the message says that it is not followed.
absl::Status NotFollowed(const absl::Status& error, const ast::Try& node);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_RAISED_H_
