// Accesses of global and shared memory by the iterations of a parallel loop: how wide they may be,
// and what they cost.
#ifndef KILN_COMPILER_PASSES_MEMORY_ACCESS_H_
#define KILN_COMPILER_PASSES_MEMORY_ACCESS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/analysis.h"
#include "compiler/ir/stmt.h"
#include "compiler/passes/shared_tiles.h"

namespace kiln::passes {

inline constexpr int64_t kVectorBytes = 16;  // of the widest access

// What all threads see: global or shared.
inline bool IsMemory(const ir::Buffer& buffer) {
  return buffer->scope == ir::Scope::kGlobal || buffer->scope == ir::Scope::kShared;
}

struct SerialVariable {
  ir::Expr var;
  int64_t min = 0, extent = 0;
};

struct MemoryAccess {
  ir::Buffer buffer;
  std::vector<ir::Expr> indices;
  std::vector<ir::Expr> axes;          // of the parallel loop, the last one fastest
  std::vector<int64_t> mins, extents;  // of the axes
  std::vector<SerialVariable> serial;  // other loops that the indices may depend on
  bool write = false;
  ir::LinearForm flat;  // the row-major index
  // Where the elements of a shared tile with a layout of its own lie, by logical flat index.
  std::shared_ptr<const std::vector<int64_t>> places;
};

// Where the elements of shared tiles lie that do not lie row by row.
class SharedLayouts {
 public:
  SharedLayouts() = default;
  explicit SharedLayouts(const std::vector<SharedTile>* tiles) : tiles_(tiles) {}

  // Null for a tile that lies row by row.
  std::shared_ptr<const std::vector<int64_t>> PlacesOf(const ir::Buffer& buffer);

 private:
  const std::vector<SharedTile>* tiles_ = nullptr;
  std::map<const ir::BufferNode*, std::shared_ptr<const std::vector<int64_t>>> places_;
};

// Fills in `flat` and `places` of an access whose other fields are known.
void Complete(const ir::Facts& facts, SharedLayouts* layouts, MemoryAccess* access);

// The widest power of two of at most 16 such that a guard says the same of each aligned run of so
// many iterations along an axis that begins at 0.
int64_t GuardWidth(const ir::Expr& guard, const ir::Expr& axis, const ir::Facts& facts);

// The widest power of two of at most 16 bytes such that each aligned run of so many iterations
// along the last axis touches consecutive elements from a multiple of it (or, for a read, one
// element): in memory, where the tile has a layout of its own. 1 where that is not known.
int64_t WidthOf(const MemoryAccess& access, const ir::Facts& facts);

// Where the iterations of a loop, row-major, touch memory.
struct MemoryTraffic {
  bool shared = false;
  int bytes = 4;                // of an element
  std::vector<int64_t> places;  // elements, from a place that is aligned to a segment
};

// nullopt where the indices depend on more than loop variables and terms that all iterations share.
// Loops beside the parallel one stand at their first iteration.
std::optional<MemoryTraffic> TrafficOf(const MemoryAccess& access);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_MEMORY_ACCESS_H_
