// What to try next. One strategy a file; the race between what was tried is race.h, shared by all.
#ifndef KILN_COORDINATOR_SEARCH_SEARCHER_H_
#define KILN_COORDINATOR_SEARCH_SEARCHER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::search {

// A point of the space as the searcher sees it. Points are in the recommender's order.
struct Point {
  enum class State {
    kUntried,
    kPending,  // proposed, no result yet
    kMeasured,
    kFailed,  // illegal, did not compile, wrong numbers, crashed
  };
  std::string config;
  double predicted_ns = 0;
  State state = State::kUntried;
  double time_ns = 0;  // of the screen; kMeasured only
};

struct SearchLimits {
  int top_k = 16;          // slate size
  int max_candidates = 0;  // proposals in all; 0 = the space
  uint64_t seed = 0;
};

// A pure function of what it is shown: it keeps nothing between calls, so a coordinator that
// restarts in the middle of a sweep goes on with the same proposals, and a recorded run can be
// replayed against another strategy. Thread-safe.
class Searcher {
 public:
  virtual ~Searcher() = default;

  virtual absl::string_view name() const = 0;

  // Indices of untried points to try now, in order of preference; at most `max`. An empty answer
  // while points are pending means "ask again after a result"; with none pending the search is
  // over.
  virtual std::vector<int> Next(const std::vector<Point>& points, int max) const = 0;

  // Every point that the strategy may still propose, at most; for progress bars.
  virtual int Total(const std::vector<Point>& points) const = 0;
};

// "recommended", "exhaustive", "random", "carver"; empty = "recommended". kInvalidArgument lists
// the names.
absl::StatusOr<std::unique_ptr<Searcher>> NewSearcher(absl::string_view strategy,
                                                      const SearchLimits& limits);

}  // namespace kiln::search

#endif  // KILN_COORDINATOR_SEARCH_SEARCHER_H_
