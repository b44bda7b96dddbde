// What TMA moves: boxes of tensors and tiles of shared memory. Shared by passes that let it.
#ifndef KILN_COMPILER_PASSES_TENSOR_BOX_H_
#define KILN_COMPILER_PASSES_TENSOR_BOX_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/stmt.h"
#include "compiler/target/warps.h"

namespace kiln::passes {

// Why TMA cannot move `box` of a tensor in global memory: `rows` by `columns` elements, any other
// dimension at a single index; sides, strides and bases as tensor maps have them (PTX 5.5; CUDA
// driver API, cuTensorMapEncodeTiled). Empty where it can. Sizes known at run time alone must be
// known to give strides that are multiples of 16 bytes (divide_sizes.h). `panels`: of the box each
// panel is moved by itself (LiesInPanels of shared_tiles.h).
std::string WhyNoTensorBox(const ir::Region& box, const ir::Expr& rows, const ir::Expr& columns,
                           bool panels = false);

// Why a tile is not fetched that target::IsFetched does not hold for.
inline constexpr char kNoShape[] = "TMA fetches no tile of this shape";
// A tile, the last two dimensions of a buffer, as target::IsFetched is asked about it.
target::TileFetch AsFetch(const ir::Buffer& tile, bool multiplied, bool panels = false);

// A copy of registers to a tensor by way of shared memory: panels as wide as a swizzle, each
// written by the threads that hold it and then fetched by TMA, while the next one is written to the
// other tile.
struct StagedStore {
  std::vector<ir::Buffer> tiles;               // one or two
  std::map<std::string, std::string> layouts;  // annotations of the launch
  ir::Stmt body;                               // instead of the copy
  ir::Stmt end;                                // once, after the last one
};

// `bytes` of shared memory are free, and a thread's warp holds `span` columns of the result.
// Nothing where the copy is no such one, does not fit, or panels and warps would cut each other.
std::optional<StagedStore> StageStore(const ir::Copy& copy, int64_t bytes, int64_t span);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_TENSOR_BOX_H_
