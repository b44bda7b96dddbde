// Tensor memory of a block, and the products that write it (PTX ISA 9.0, 9.7.16): 128 lanes of 512
// columns of 32 bits. Private to compiler/interp.
//
// Products run in order and end when a barrier is waited for that they were committed to (of a
// cluster: by any of its blocks); loads and
// stores end when they are waited for. What is not over, or not ordered by a fence after it is,
// may not be read; a product may not start before what other threads loaded from its columns and
// stored there is over, fenced, told by a barrier, and met by the fence after it.
#ifndef KILN_COMPILER_INTERP_TENSOR_MEMORY_H_
#define KILN_COMPILER_INTERP_TENSOR_MEMORY_H_

#include <algorithm>
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
  // A product, or the arrival of those before it at a barrier, maybe of another block.
  struct Step {
    std::function<void()> product;
    std::optional<BarrierKey> commit;
    bool elsewhere = false;
  };
  // Threads of a block that do what is done.
  struct Threads {
    int64_t first, count;
    bool Has(int64_t thread) const { return thread >= first && thread < first + count; }
  };
  // A load or a store, or taking columns: how far it is on its way to being ordered before what
  // others do, and for whom it is.
  struct Move {
    enum class Stage : uint8_t { kStarted, kOver, kFenced };
    int64_t first, columns;
    bool stores;
    std::function<void()> perform;
    Stage stage = Stage::kStarted;
    std::vector<BarrierKey> told;  // arrived at since
    std::vector<Threads> met;      // who has met since, or waited for one of those
    std::vector<Threads> settled;  // and fenced after that
  };

  int64_t first = 0, columns = 0;  // that the block has; 0: none
  std::vector<Cell> cells;         // lane by lane
  std::deque<Step> steps;
  std::deque<Step> arrivals;      // on their way, of products that are over
  std::vector<Move> moves;        // the last one of each column
  int64_t ended = 0, fenced = 0;  // products: that are over, and that a fence came after

  Cell& At(int64_t lane, int64_t column) {
    return cells[static_cast<size_t>(lane * kColumns + column)];
  }
  // Whether the block has these columns; else a failure.
  bool Has(Machine& m, int64_t column, int64_t count, SourceLoc loc) const;
  // Whether `thread` may start a product on these columns, or give them back, after what was moved
  // of them; else a failure.
  bool IsSettled(Machine& m, int64_t column, int64_t count, int64_t thread, SourceLoc loc) const;
  void Start(Move move);
  void Wait(bool stores);
  void FenceBefore();
  void FenceAfter(const Threads& who);
  void Meet(const Threads& who);         // at a barrier
  void Tell(const BarrierKey& barrier);  // by arriving there
  void Hear(const BarrierKey& barrier, const Threads& who);
  // Nothing may be left when the block ends.
  void CheckEnd(Machine& m, SourceLoc loc) const;
};

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_TENSOR_MEMORY_H_
