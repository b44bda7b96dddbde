// The strategies, one file each. Internal to this folder; NewSearcher is the way in.
#ifndef KILN_COORDINATOR_SEARCH_STRATEGIES_H_
#define KILN_COORDINATOR_SEARCH_STRATEGIES_H_

#include <memory>

#include "coordinator/search/searcher.h"

namespace kiln::search {

// The recommender's slate: the first top_k points, and for each that fails the next one in line, so
// that top_k of them end up measured. At most three slates are proposed in all.
std::unique_ptr<Searcher> NewRecommended(const SearchLimits& limits);

// Every point, in the recommender's order.
std::unique_ptr<Searcher> NewExhaustive(const SearchLimits& limits);

// Points drawn without replacement; the seed alone decides the order.
std::unique_ptr<Searcher> NewRandom(const SearchLimits& limits);

// The baseline: the first top_k points of Carver's own list as they stand, failures included.
std::unique_ptr<Searcher> NewCarver(const SearchLimits& limits);

// Proposals that are left under `max_candidates` when `tried` were made.
inline int Budget(const SearchLimits& limits, int tried, int max) {
  if (limits.max_candidates <= 0) return max;
  const int left = limits.max_candidates - tried;
  return left < max ? left : max;
}

}  // namespace kiln::search

#endif  // KILN_COORDINATOR_SEARCH_STRATEGIES_H_
