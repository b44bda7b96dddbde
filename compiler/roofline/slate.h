// From a ranking to a slate: few candidates that differ. Private to this folder.
#ifndef KILN_COMPILER_ROOFLINE_SLATE_H_
#define KILN_COMPILER_ROOFLINE_SLATE_H_

#include <string>
#include <vector>

#include "compiler/roofline/priced_space.h"

namespace kiln::roofline {

struct SlateEntry {
  int64_t rank = 0;  // in the space
  std::string why;   // "" = by predicted time; else why a slower one is here
};

// `top_k` entries, or all of the few thousand that are looked at: the best prediction first; then,
// one at a time, the best prediction after a penalty for being like one already chosen; quotas keep
// a seat for the best config of another regime (another binding resource, the transposed tile
// aspect, the kernel's own default).
std::vector<SlateEntry> ChooseSlate(const PricedSpace& space, int top_k, const Config& fallback);

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_SLATE_H_
