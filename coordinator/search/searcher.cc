#include "coordinator/search/searcher.h"

#include "absl/strings/str_cat.h"
#include "coordinator/search/strategies.h"

namespace kiln::search {

absl::StatusOr<std::unique_ptr<Searcher>> NewSearcher(absl::string_view strategy,
                                                      const SearchLimits& limits) {
  if (strategy.empty() || strategy == "recommended") return NewRecommended(limits);
  if (strategy == "exhaustive") return NewExhaustive(limits);
  if (strategy == "random") return NewRandom(limits);
  if (strategy == "carver") return NewCarver(limits);
  return absl::InvalidArgumentError(absl::StrCat("strategy '", strategy,
                                                 "' is unknown; use one of recommended, "
                                                 "exhaustive, random, carver"));
}

}  // namespace kiln::search
