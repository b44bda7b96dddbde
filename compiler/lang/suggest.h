// "Did you mean": the nearest known name by edit distance, by its words, or by its meaning.
#ifndef KILN_COMPILER_LANG_SUGGEST_H_
#define KILN_COMPILER_LANG_SUGGEST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace kiln::lang {

// What other languages' `name` is here; the candidate nearest to it, when it is near enough to be a
// typing mistake; one of the same words; empty otherwise.
std::string Nearest(absl::string_view name, const std::vector<std::string>& candidates);

// "did you mean 'x'?" or, without a near name, `otherwise`.
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates,
                       absl::string_view otherwise);

// What to do about parameters, or a size such as A_shape_0, that nothing gives a value: kilnc's
// options, spelt out.
std::string GiveArguments(const std::vector<std::string>& missing);
std::string GiveSize(absl::string_view name);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_SUGGEST_H_
