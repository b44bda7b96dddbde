// Propagation macros over absl::Status, and the CHECK family.
//
// Errors come in three kinds that never mix: the caller's mistake (an absl::Status that says what,
// where and what to do), our own bug (KILN_CHECK, which names file and line and aborts), and a
// candidate that fails (data: a Failure record, never a Status that crosses an RPC).
#ifndef KILN_COMPILER_BASE_STATUS_H_
#define KILN_COMPILER_BASE_STATUS_H_

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// Prints "file:line: CHECK failed: condition" and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

// The same status with `context` and ": " put before its message; code and payloads are kept.
absl::Status WithContext(const absl::Status& status, absl::string_view context);

}  // namespace kiln

#define KILN_CHECK(condition) \
  (static_cast<bool>(condition) ? (void)0 : ::kiln::CheckFailed(__FILE__, __LINE__, #condition))

#define KILN_CONCAT_INNER_(a, b) a##b
#define KILN_CONCAT_(a, b) KILN_CONCAT_INNER_(a, b)

// Returns the status of `expression` from the enclosing function unless it is OK.
#define KILN_RETURN_IF_ERROR(expression)         \
  do {                                           \
    ::absl::Status kiln_status_ = (expression);  \
    if (!kiln_status_.ok()) return kiln_status_; \
  } while (false)

// Declares or assigns `lhs` from a StatusOr, or returns its status.
#define KILN_ASSIGN_OR_RETURN(lhs, expression) \
  KILN_ASSIGN_OR_RETURN_IMPL_(KILN_CONCAT_(kiln_statusor_, __LINE__), lhs, expression)
#define KILN_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expression) \
  auto tmp = (expression);                                \
  if (!tmp.ok()) return std::move(tmp).status();          \
  lhs = std::move(tmp).value()

#endif  // KILN_COMPILER_BASE_STATUS_H_
