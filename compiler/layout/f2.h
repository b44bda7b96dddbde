// The view of a layout over bits: when every extent is a power of two and the digits of each axis
// use disjoint bits, a layout is an affine map over F2. An accelerator for planning, never the
// stored form: offsets that carry, padded pitches and extents such as 112 have no such view.
#ifndef KILN_COMPILER_LAYOUT_F2_H_
#define KILN_COMPILER_LAYOUT_F2_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/layout/layout.h"

namespace kiln::layout {

// out = constant ^ XOR of columns[i] over the set bits i of the flat index. The output packs the
// axes side by side, fields[a] = (axis, first bit, bits).
struct F2Map {
  struct Field {
    Axis axis;
    int first_bit;
    int bits;
  };
  int inputs = 0;
  int outputs = 0;
  std::vector<uint64_t> columns;
  uint64_t constant = 0;
  std::vector<Field> fields;

  uint64_t operator()(uint64_t flat) const;
  uint64_t Pack(const Coord& point) const;  // all values must fit their fields
};

// What elimination of the map finds.
struct F2Kernel {
  int rank = 0;  // log2 of the number of distinct places
  std::vector<uint64_t>
      guards;  // p is a place exactly when parity((p ^ constant) & g) == 0 for all
  std::vector<uint64_t> section;  // bit i of an index of p is parity((p ^ constant) & section[i])
};

// nullopt when the layout has no such view: an extent that is no power of two, digits that overlap,
// an offset that is not clear of the digits, copies, negative strides, or more than 64 bits in all.
std::optional<F2Map> ToF2(const Layout& layout);
F2Kernel Eliminate(const F2Map& map);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_F2_H_
