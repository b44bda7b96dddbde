// Values as text: Python's format(value, spec), for f-strings, and dtypes as their names.
#ifndef KILN_COMPILER_LANG_FORMAT_VALUE_H_
#define KILN_COMPILER_LANG_FORMAT_VALUE_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/lang/value.h"

namespace kiln::lang {

// Of numbers, strings and dtypes: [[fill]align][sign][#][0][width][, or _][.digits][type] as
// Python's documentation ("Format Specification Mini-Language") has it, widths and digits up to 200
// and 50. None where the spec does not fit the value, or is none. `spec` is not empty.
std::optional<std::string> FormatValue(const Value& value, absl::string_view spec);

// Whether the spec is none because its width is above 200.
bool IsTooWide(absl::string_view spec);

class Elaborator;
// A value as a replacement field of text shows it: "!r" or "!s" (`conversion`; '\0': neither), then
// `spec`. An error where the spec does not fit, and where run time or the config decides the
// digits.
absl::StatusOr<std::string> FormattedText(Elaborator& e, const Value& value, char conversion,
                                          const std::string& spec, SourceLoc loc);
// "%d of %s" % value.
absl::StatusOr<Value> FormatByPercent(Elaborator& e, const Value& format, const Value& value,
                                      SourceLoc loc);
// A dtype's name, as TVM's dtypes are strings too ("int8" in dtype, dtype[:3], dtype.upper()); any
// other value as it is.
Value AsText(Elaborator& e, const Value& v);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_FORMAT_VALUE_H_
