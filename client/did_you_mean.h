// "did you mean" for names that the user mistyped.
#ifndef KILN_CLIENT_DID_YOU_MEAN_H_
#define KILN_CLIENT_DID_YOU_MEAN_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace kiln::client {

// ", did you mean 'X'?" with the known name nearest to `name`, or "" when none is near (more edits
// than a third of its length, at least one).
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& known);

}  // namespace kiln::client

#endif  // KILN_CLIENT_DID_YOU_MEAN_H_
