// Arguments that leave a size to run time: T.dynamic("M") in place of a number makes the parameter,
// or the T.const size, a run-time dimension of the program that is called M. Several arguments may
// name one dimension, which makes them equal. T.dynamic alone is one with the argument's own name.
#ifndef KILN_COMPILER_LANG_ARGUMENTS_H_
#define KILN_COMPILER_LANG_ARGUMENTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/lang/ast_expr.h"
#include "compiler/lang/value.h"

namespace kiln::lang {

// T.dynamic("M"): the one text of it that is stored and compared.
std::string DynamicArgument(absl::string_view dimension);

// The dimension that the argument `name` is, empty where `text` is no T.dynamic. An error says what
// is wrong with a T.dynamic that names no dimension.
absl::StatusOr<std::string> DimensionOf(absl::string_view name, absl::string_view text);

// `text`, or DynamicArgument where it is a T.dynamic in another spelling.
std::string NormaliseArgument(absl::string_view name, absl::string_view text);

// What a dotted name is as an argument: a dtype (T.float16), or how warps share a product
// (T.GemmWarpPolicy.Square).
absl::StatusOr<Value> MemberArgument(const ast::Attribute& attribute);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_ARGUMENTS_H_
