// What caches keep and what they let through: private to this folder and its tests.
#ifndef KILN_COMPILER_ROOFLINE_TRAFFIC_H_
#define KILN_COMPILER_ROOFLINE_TRAFFIC_H_

#include <vector>

#include "compiler/roofline/demand.h"

namespace kiln::roofline {

// A cache as traffic sees it.
struct CacheView {
  double bytes = 0;           // capacity that may be counted on
  bool holds_onchip = false;  // the blocks' own storage lives in it too (CPU caches)
  double sharers = 1;         // blocks that run at the same time and fill it together
  // Blocks that run in step (a GPU's wave): what they read at the same time is fetched once even
  // where a whole grid row does not fit. 1 = none.
  double in_step = 1;
};

// Bytes of each access that miss `cache`, of the whole kernel, in order of Demand::accesses.
//
// A loop reuses what its body touches when one iteration's footprint fits: then the loop costs its
// distinct elements, else every iteration pays again. A second access to the same region in the
// same loop body costs nothing while the body fits.
std::vector<Num> MissBytes(const Demand& demand, const CacheView& cache);

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_TRAFFIC_H_
