// Random layouts for the property tests: small enough for a table, odd enough to matter.
#ifndef KILN_TESTS_PROPERTY_LAYOUT_RANDOM_LAYOUT_H_
#define KILN_TESTS_PROPERTY_LAYOUT_RANDOM_LAYOUT_H_

#include <map>
#include <vector>

#include "compiler/base/rng.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

inline constexpr int kCases = 10000;

struct RandomOptions {
  int64_t max_size = 200;
  bool swizzles = true;
  bool replicas = true;
  bool offsets = true;
  bool zero_strides = true;
  bool negative_strides = true;
  std::vector<Axis> axes = {Axis::kM, Axis::kLaneid, Axis::kWarpid};
};

Layout RandomLayout(Rng* rng, const RandomOptions& options = {});

// A layout whose strides tend to be products of smaller extents, so that many are injective.
Layout RandomTidyLayout(Rng* rng, const RandomOptions& options = {});

// A random factorisation of n into 1 to 4 dimensions.
std::vector<int64_t> RandomShape(Rng* rng, int64_t n);

// Every point of an element by the definition, with no code shared with the library's own
// evaluation.
std::vector<std::map<Axis, int64_t>> Defined(const Layout& layout, int64_t flat);

std::map<Axis, int64_t> Plain(const Coord& coord, const Layout& like);

int64_t Between(Rng* rng, int64_t low, int64_t high);

}  // namespace kiln::layout

#endif  // KILN_TESTS_PROPERTY_LAYOUT_RANDOM_LAYOUT_H_
