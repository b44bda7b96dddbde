// Fragments that a launch's matrix products add to and nothing else looks at meanwhile: what may
// lie elsewhere than in registers as long as that lasts. Asked by the pass that puts them there
// (passes/hold_sums) and by the recommender, before tunables have values.
#ifndef KILN_COMPILER_IR_SUMS_H_
#define KILN_COMPILER_IR_SUMS_H_

#include <string>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// The statements [first, last) of a sequence that hold all products on a fragment, and nothing else
// that touches it. Without a sequence there are none, and `why_not` says why.
struct SumsRange {
  const Seq* seq = nullptr;
  size_t first = 0, last = 0;
  std::string why_not;
};
SumsRange FindSums(const Launch& launch, const Buffer& sums);

// What keeps the products on a fragment from leaving their results elsewhere one by one, each to be
// brought to the fragment at once, as those may whose sums are looked at between them; empty where
// nothing does.
std::string WhyNotApart(const Launch& launch, const Buffer& sums);

// The product `s` where it is one on `sums`, else null; whether there is one in `s`.
const Gemm* ProductOn(const Stmt& s, const Buffer& sums);
bool HasProductOn(const Stmt& s, const Buffer& sums);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_SUMS_H_
