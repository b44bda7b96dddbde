// The attributes that objects of Python's own types have (Python 3.10 and later, "Built-in Types"),
// whether or not the language has them.
#ifndef KILN_COMPILER_LANG_PYTHON_ATTRIBUTES_H_
#define KILN_COMPILER_LANG_PYTHON_ATTRIBUTES_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "compiler/lang/value.h"

namespace kiln::lang {

// Whether it is a number, text, list, tuple, range, dict or set.
bool IsPythonData(const Value& v);

// Whether `data` has `attr` in each of these; nullopt: that is a matter of the version, of a
// special name ("__len__"), or of a value that is no such data.
std::optional<bool> PythonHas(const Value& data, absl::string_view attr);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_PYTHON_ATTRIBUTES_H_
