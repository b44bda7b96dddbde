// "Did you mean": the nearest known name by edit distance.
#ifndef KILN_COMPILER_LANG_SUGGEST_H_
#define KILN_COMPILER_LANG_SUGGEST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace kiln::lang {

// The candidate nearest to `name`, when it is near enough to be a typing mistake; empty otherwise.
std::string Nearest(absl::string_view name, const std::vector<std::string>& candidates);

// "did you mean 'x'?" or, without a near name, `otherwise`.
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates,
                       absl::string_view otherwise);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_SUGGEST_H_
