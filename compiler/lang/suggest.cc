#include "compiler/lang/suggest.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace kiln::lang {
namespace {

constexpr size_t kMaxLength = 64;

// Edit distance with transpositions of neighbours; case differences cost nothing but a tie-break.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = absl::ascii_tolower(a[i - 1]) == absl::ascii_tolower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string Nearest(absl::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() > kMaxLength) return "";
  // Of one letter, any other would be as near: only its other case is.
  const size_t allowed = name.size() < 2 ? 0 : std::max<size_t>(1, name.size() / 3);
  size_t best = allowed + 1;
  const std::string* nearest = nullptr;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kMaxLength || candidate == name) continue;
    const size_t gap = candidate.size() > name.size() ? candidate.size() - name.size()
                                                      : name.size() - candidate.size();
    if (gap > allowed) continue;
    const size_t distance = Distance(name, candidate);
    if (distance < best || (distance == best && nearest != nullptr && candidate < *nearest)) {
      best = distance;
      nearest = &candidate;
    }
  }
  return nearest == nullptr ? "" : *nearest;
}

std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates,
                       absl::string_view otherwise) {
  const std::string nearest = Nearest(name, candidates);
  if (nearest.empty()) return std::string(otherwise);
  return absl::StrCat("did you mean '", nearest, "'?");
}

}  // namespace kiln::lang
