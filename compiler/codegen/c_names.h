// Names that C and C++ accept.
#ifndef KILN_COMPILER_CODEGEN_C_NAMES_H_
#define KILN_COMPILER_CODEGEN_C_NAMES_H_

#include <set>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace kiln::codegen {

// Letters, digits and underscores, no digit first, that C, C++ and the header of an artifact leave
// free: no keyword, no macro of theirs, no name of kiln_launch.h.
bool IsCIdentifier(absl::string_view name);

// `name`, with an underscore behind it where it is taken.
std::string FreeName(std::string name);

// The C entry point of a kernel that was given no symbol: "kiln_" and its name.
std::string DefaultSymbol(absl::string_view kernel);

// The arguments of one function: a kernel may call its own as C may not.
class ArgumentNames {
 public:
  // `taken` are those that the function has already.
  explicit ArgumentNames(std::set<std::string> taken) : taken_(std::move(taken)) {}

  // `name`, with as many underscores behind it as make it free and the function's only one; of
  // those that begin with one, "arg" before it.
  std::string Add(std::string name);

 private:
  std::set<std::string> taken_;
};

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_C_NAMES_H_
