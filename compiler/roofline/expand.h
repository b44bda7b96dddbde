// From a request to the pieces and rows of its space. Private to this folder.
#ifndef KILN_COMPILER_ROOFLINE_EXPAND_H_
#define KILN_COMPILER_ROOFLINE_EXPAND_H_

#include <string>
#include <vector>

#include "compiler/roofline/piece.h"
#include "compiler/roofline/recommend.h"
#include "compiler/roofline/roles.h"

namespace kiln::roofline {

// One tunable and its values.
struct Axis {
  std::string name;
  std::vector<std::string> texts;  // literal text, in order
  std::vector<double> numbers;     // their values when all are integers, else empty
  Role role = Role::kOther;
  bool derived = false;
  bool open = false;  // a tape input (else each value is its own piece)
};

// A piece with the rows of the space that it prices: either the product of `axes` (indices into
// Expanded::axes, the last one fastest) or, for configs given outright, a list.
struct PieceRows {
  Piece piece;
  std::vector<int> axes;
  std::vector<Config> list;  // full configs; empty for a product
  int64_t rows = 0;
};

struct Expanded {
  std::vector<Axis> axes;
  std::vector<PieceRows> pieces;
  int64_t total = 0;  // configs, those of pieces left out included
  std::string kernel_digest;
  std::vector<std::string> notes;
};

absl::StatusOr<Expanded> ExpandRequest(const Request& request);

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_EXPAND_H_
