// Stores of parallel loops to memory: which iterations meet in one location.
#ifndef KILN_COMPILER_PASSES_MEMORY_STORE_H_
#define KILN_COMPILER_PASSES_MEMORY_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/stmt.h"
#include "compiler/passes/memory_access.h"

namespace kiln::passes {

// One store of a parallel loop to shared or global memory, where it is known which iterations meet:
// every index is a part that the loop decides plus a part that is the same for all iterations, and
// every condition is known.
struct MemoryStore {
  SourceLoc loc;
  std::string text;  // "B[i, 0]"
  int place = 0;     // stores to one buffer with the same fixed part share this
  int64_t span = 0;  // numbers below are less
  // cells[s][i]: where iteration i stores under the s-th assignment of the serial variables inside
  // the loop; -1 where it does not. Equal numbers with equal `place` are one location.
  std::vector<std::vector<int64_t>> cells;
};

// "B[i, 0]".
std::string TextOf(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices);

struct LoopStores {
  std::unordered_map<const ir::BufferNode*, int> count;      // of stores to a buffer
  std::unordered_set<const ir::BufferNode*> read_elsewhere;  // memory, by other indices too
};
LoopStores StoresOf(const ir::Stmt& body);

// Whether some index is itself read from somewhere.
bool AreLoaded(const std::vector<ir::Expr>& indices);

// Where a store, or a read of what is stored to, stands.
struct StoreSite {
  const std::vector<ir::Expr>& axes;  // of the parallel loop around it
  const std::vector<int64_t>&mins, &extents;
  std::vector<SerialVariable> serial;   // of the loops between
  const std::vector<ir::Expr>& guards;  // conditions between; undefined: nobody knows which
  const ir::Facts& facts;
  bool alone;  // no other store of the loop goes to its buffer
};

// Numbers for buffers together with the parts of their indices that all iterations share.
using StorePlaces = std::unordered_map<std::string, size_t>;

// nullopt where nothing is known, or where it is plain that no two iterations meet. `left` counts
// down one an iteration that is looked at; ResourceExhausted when it is used up.
absl::StatusOr<std::optional<MemoryStore>> StoreAt(const StoreSite& site, const ir::Buffer& buffer,
                                                   const std::vector<ir::Expr>& indices,
                                                   StorePlaces* places, int64_t* left);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_MEMORY_STORE_H_
