// The Expander that asks the recommender: parses the sweep's kernel (or the template it names),
// prices its space on the arch record and returns hints. Pure, thread-safe.
#ifndef KILN_COORDINATOR_SEARCH_ROOFLINE_EXPANDER_H_
#define KILN_COORDINATOR_SEARCH_ROOFLINE_EXPANDER_H_

#include <cstdint>

#include "coordinator/search/expander.h"

namespace kiln::search {

class RooflineExpander : public Expander {
 public:
  struct Options {
    int default_top_k = 16;         // SweepSpec.top_k == 0
    int64_t max_listed = 20'000;    // candidates of "exhaustive" and "random"
    int64_t max_configs = 400'000;  // priced
    int max_pieces = 64;            // elaborations
  };
  RooflineExpander() = default;
  explicit RooflineExpander(const Options& options) : options_(options) {}

  // Strategies: "recommended" (or empty): the slate, then a reserve in order of prediction;
  // "carver"; "exhaustive" and "random": every legal config up to max_listed. An objective of
  // COMPILE lists the given configs or values outright, and only the slate of a derived space.
  absl::StatusOr<Expansion> Expand(const v1::SweepSpec& spec, const v1::ArchRecord& arch) override;

 private:
  const Options options_;
};

}  // namespace kiln::search

#endif  // KILN_COORDINATOR_SEARCH_ROOFLINE_EXPANDER_H_
