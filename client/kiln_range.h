// Ranges of sizes: what is asked for, and the table of what was measured. Part of kiln_types.h,
// which includes this file.
#ifndef KILN_CLIENT_KILN_RANGE_H_
#define KILN_CLIENT_KILN_RANGE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::client {

// One dimension as a range of sizes, both ends included: what comes out is one object for all.
struct ShapeRange {
  std::string name;  // a run-time dimension, an argument or a T.const size
  int64_t low = 0;
  int64_t high = 0;
  std::vector<int64_t> points;  // sizes to tune for; empty = powers of two and both ends
};

// What was measured for a range at one size.
struct RangePoint {
  int64_t size = 0;
  bool tuned = false;            // else only measured
  std::string winner;            // of its own sweep, if it was tuned for
  std::string failure;           // why there is none
  bool refused = false;          // the kernel does not take the size: left out
  std::string sweep;             // digest of its own sweep
  std::vector<double> times_ns;  // of RangeTable::compared; empty until it is measured
  // The object that dispatches and the best single config, measured beside each other.
  double dispatched_ns = 0, single_ns = 0;
  double ratio_low = 0, ratio_high = 0;  // 95 % interval of the ratio of these times
};
struct RangeStep {
  int64_t first = 0, last = 0;
  int variant = 0;  // index into RangeTable::variants
};
struct RangeTable {
  std::string dimension;  // empty while the steps are not known
  int64_t low = 0, high = 0;
  std::vector<std::string> variants;  // configs in the object
  std::vector<RangeStep> steps;
  std::vector<std::string> compared;  // configs that won somewhere
  std::string single;                 // the one config that is best over all points
  std::vector<std::string> dropped;   // configs that failed at some size, each with why
  std::vector<RangePoint> points;     // ascending by size
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_KILN_RANGE_H_
