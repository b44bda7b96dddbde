// Which config runs at which size: from measurements of several configs at several sizes to steps.
// Pure functions; times in nanoseconds.
#ifndef KILN_COORDINATOR_SEARCH_THRESHOLDS_H_
#define KILN_COORDINATOR_SEARCH_THRESHOLDS_H_

#include <cstdint>
#include <vector>

#include "kiln/v1/common.pb.h"

namespace kiln::search {

inline constexpr int kMaxVariants = 12;     // configs that one range compares
inline constexpr int kDefaultPoints = 9;    // sizes to tune for, at most, unless they are given
inline constexpr int kMaxGivenPoints = 32;  // sizes that a request may name
inline constexpr int kMaxMeasuredPoints = 48;

// Sizes to tune for in low to high: both ends and the powers of two between, evenly thinned to at
// most kDefaultPoints. Ascending.
std::vector<int64_t> DefaultPoints(int64_t low, int64_t high);

// The size in the middle of two, by ratio: low < middle < high. 0 where there is none.
int64_t Between(int64_t low, int64_t high);

// Whether config `a` takes longer than `b` at the point, beyond noise.
bool Slower(const v1::RangePoint& point, int a, int b);

// What choosing `a` costs at the point: the largest lower end of its time over another config's, at
// least 1. 1 = nobody is faster beyond noise.
double Regret(const v1::RangePoint& point, int a);

struct Steps {
  std::vector<int> chosen;              // config at each point
  std::vector<v1::DispatchStep> steps;  // `variant` is the config's index
};

// The assignment of configs (0 to `configs` - 1, at most kMaxVariants) to `points` (ascending, not
// empty, each with times of all configs) with, in this order:
//   - the least regret at every point;
//   - the fewest configs, so that one which wins by no more than noise is left out;
//   - the fewest steps;
//   - the smallest indices, first points first.
// A step ends at a point: sizes above it, up to the next point, run what is best there, since the
// time of tiles grows just above a size and not just below one. Deterministic.
Steps Assign(const std::vector<v1::RangePoint>& points, int configs, int64_t low);

// The config that would run at `size`.
int ChosenAt(const Steps& steps, int64_t size);

// The one config with the least product of times over the points; ties: the smallest index.
int Single(const std::vector<v1::RangePoint>& points, int configs);

}  // namespace kiln::search

#endif  // KILN_COORDINATOR_SEARCH_THRESHOLDS_H_
