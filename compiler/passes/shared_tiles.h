// How the tiles of shared memory lie: as the kernel says, or as the matrix products that read them
// want it.
#ifndef KILN_COMPILER_PASSES_SHARED_TILES_H_
#define KILN_COMPILER_PASSES_SHARED_TILES_H_

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/stmt.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/ownership.h"
#include "compiler/passes/gemm_layouts.h"

namespace kiln::passes {

// A tile that does not lie row by row.
struct SharedTile {
  ir::Buffer buffer;
  layout::Layout layout;  // on m, elements
  std::string why;        // "as it is annotated", "as wgmma at line 12 reads it", "as it is loaded"
};

// The note of a launch on a tile, by its name, from which threads load an operand of a product:
// why. It lies as if wgmma read it.
inline constexpr char kLoadedTile[] = "loaded:";
// What ends the name of the fragment that they load it to; no name of a kernel's has a dot.
inline constexpr char kLoadedName[] = ".loaded";

// What the variables are that `body` binds, each to one value.
ir::Facts NamesIn(const ir::Stmt& body);
// What is left of `e` divided by a positive `divisor`, where that is always the same.
std::optional<int64_t> ResidueOf(const ir::Expr& e, int64_t divisor, const ir::Facts& facts);

// What the table of instructions is asked about a product of `program` on `threads`; nullopt where
// the shape of an operand is not constant.
std::optional<target::GemmQuery> QueryOf(const ir::Program& program, const ir::Gemm& gemm,
                                         layout::ThreadRange threads);

struct ProductsOfLaunch {
  std::unordered_map<const ir::StmtNode*, ProductPlan> plans;
  std::unordered_map<const ir::BufferNode*, ProductPlan> sums;  // in tensor memory
  std::vector<SharedTile> tiles;                                // in order of allocation
};

// The instruction of every product of a launch (of `threads`, or of the part of them that it is
// done by), and the layouts of its tiles: wgmma and tcgen05 read only tiles that lie as their
// descriptors say, and set that layout even where another is annotated; mma.sync sets one where
// none is. A tile of which products read parts lies so that all of them can. InvalidArgument,
// Unimplemented (diagnostics): a product that the architecture has no instruction for, shapes that
// are not known.
absl::StatusOr<ProductsOfLaunch> PlanProducts(const ir::Program& program, const ir::Launch& launch,
                                              layout::ThreadRange threads,
                                              const target::Arch& arch);

// Whether a tile lies in panels as wide as a swizzle, as all products of the launch read it.
bool LiesInPanels(const ir::Program& program, const ir::Launch& launch, const ir::Buffer& tile,
                  const target::Arch& arch);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_SHARED_TILES_H_
