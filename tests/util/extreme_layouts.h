// Layout texts whose numbers are as large as layouts allow, and larger: most are refused, the
// others must be handled without overflow and in bounded time.
#ifndef KILN_TESTS_UTIL_EXTREME_LAYOUTS_H_
#define KILN_TESTS_UTIL_EXTREME_LAYOUTS_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/rng.h"

namespace kiln::test {

// A list "(a,b,c)" of `count` of `values`, each with one of `axes` when there are any.
inline std::string AnyList(Rng* rng, size_t count, const std::vector<const char*>& values,
                           const std::vector<const char*>& axes) {
  std::string text = "(";
  for (size_t k = 0; k < count; ++k) {
    absl::StrAppend(&text, k > 0 ? "," : "", values[rng->Below(values.size())],
                    axes.empty() ? "" : axes[rng->Below(axes.size())]);
  }
  return text + ")";
}

inline std::string ExtremeLayoutText(Rng* rng) {
  static const std::vector<const char*> kExtents = {
      "1", "2", "3", "7", "32", "1000", "1048576", "1000003", "4294967296", "1152921504606846976"};
  static const std::vector<const char*> kStrides = {"0",
                                                    "1",
                                                    "-1",
                                                    "2",
                                                    "5",
                                                    "64",
                                                    "-3",
                                                    "1000003",
                                                    "4194304",
                                                    "1073741827",
                                                    "1152921504606846975",
                                                    "-1152921504606846975",
                                                    "9223372036854775807",
                                                    "-9223372036854775808"};
  static const std::vector<const char*> kAxes = {"",      "",      "@laneid", "@warpid",
                                                 "@wgid", "@TCol", "@bx"};
  static const std::vector<const char*> kSwizzles = {
      "", "", "", "<3,3,3> o ", "<0,30,30> o ", "<0,1,59,outer> o ", "<20,20,20>@TCol o "};
  const size_t digits = 1 + rng->Below(4);
  const size_t copies = rng->Below(3);
  std::string text = absl::StrCat(kSwizzles[rng->Below(kSwizzles.size())], "S[",
                                  AnyList(rng, digits, kExtents, {}), ":",
                                  AnyList(rng, digits, kStrides, kAxes), "]");
  if (copies > 0) {
    absl::StrAppend(&text, " + R[", AnyList(rng, copies, kExtents, {}), ":",
                    AnyList(rng, copies, kStrides, kAxes), "]");
  }
  if (rng->Below(3) == 0) {
    absl::StrAppend(&text, " + ", kStrides[rng->Below(kStrides.size())],
                    kAxes[rng->Below(kAxes.size())]);
  }
  return text;
}

}  // namespace kiln::test

#endif  // KILN_TESTS_UTIL_EXTREME_LAYOUTS_H_
