// Tensor memory of a block, and the products that write it (PTX ISA 9.0, 9.7.16): 128 lanes of 512
// columns of 32 bits. Private to compiler/interp.
//
// Products run in order and end when a barrier is waited for that they were committed to; loads and
// stores end when they are waited for. What is not over, or not ordered by a fence after it is,
// may not be read; a product may not start before what other threads loaded and stored is over,
// fenced, and met by a barrier and the fence after it.
#ifndef KILN_COMPILER_INTERP_TENSOR_MEMORY_H_
#define KILN_COMPILER_INTERP_TENSOR_MEMORY_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/interp/machine.h"

namespace kiln::interp {

using BarrierKey = std::pair<int, int64_t>;  // buffer slot, element

struct TensorMemory {
  static constexpr int64_t kLanes = 128, kColumns = 512;

  struct Cell {
    double value = 0;
    bool written = false;
    int64_t products = 0;  // on their way to it
    int64_t turn = 0;      // of the last of them
  };
  // A product, or the arrival of those before it at a barrier.
  struct Step {
    std::function<void()> product;
    std::optional<BarrierKey> commit;
  };
  // How far what threads move is on its way to being ordered before a product.
  enum class Moves : uint8_t { kNone, kStarted, kOver, kFenced, kMet };

  int64_t first = 0, columns = 0;  // that the block has; 0: none
  std::vector<Cell> cells;         // lane by lane
  std::deque<Step> steps;
  std::vector<std::function<void()>> loads, stores;  // started
  Moves moves = Moves::kNone;
  int64_t ended = 0, fenced = 0;  // products: that are over, and that a fence came after

  Cell& At(int64_t lane, int64_t column) {
    return cells[static_cast<size_t>(lane * kColumns + column)];
  }
  // Whether the block has these columns; else a failure.
  bool Has(Machine& m, int64_t column, int64_t count, SourceLoc loc) const;
  // Whether a product, or giving columns back, may follow what threads moved; else a failure.
  bool IsSettled(Machine& m, SourceLoc loc) const;
  // All threads have met.
  void Meet() {
    if (moves == Moves::kFenced) moves = Moves::kMet;
  }
  // Nothing may be left when the block ends.
  void CheckEnd(Machine& m, SourceLoc loc) const;
};

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_TENSOR_MEMORY_H_
