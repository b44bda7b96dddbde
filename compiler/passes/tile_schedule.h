// Which blocks of a grid a block of a persistent launch does, and in which order. Shared by passes
// that make launches persistent.
#ifndef KILN_COMPILER_PASSES_TILE_SCHEDULE_H_
#define KILN_COMPILER_PASSES_TILE_SCHEDULE_H_

#include <functional>
#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::passes {

// An annotation of loops whose turns touch different elements of tensors, as the blocks of a grid
// do.
inline constexpr char kTilesApart[] = "tiles_apart";

// Annotations of launches: T.use_swizzle.
inline constexpr char kSwizzlePanel[] = "swizzle_panel";
inline constexpr char kSwizzleOrder[] = "swizzle_order";

// The grid of a launch dealt out to clusters of blocks. The blocks of a cluster take neighbours
// along the grid's second axis; clusters take turns over the grid in the launch's rasterisation
// (first axis fastest, or panels of the second one: "swizzle_panel").
class TileSchedule {
 public:
  // `cluster` blocks a cluster: 1, or a divisor of the constant extent of the grid's second axis.
  // Of as many blocks as run at once on `cores`; 0: each cluster has one turn.
  TileSchedule(const ir::Launch& launch, int64_t cores, int64_t cluster);

  // The launch's own axes: one.
  std::vector<ir::Axis> grid() const;
  // The block's turns: body(turn), in which the launch's block variables stand for the tile's. Of
  // `teams` that take turns at it, those of one.
  ir::Stmt ForTurns(const std::function<ir::Stmt(const ir::Expr& turn)>& body, int64_t team = 0,
                    int64_t teams = 1) const;
  // How many they are.
  ir::Expr turns() const;
  // Whether no block has more than one.
  bool once() const;

 private:
  // The tile of cluster turn `q`, by axis of the launch.
  std::vector<ir::Expr> TileOf(const ir::Expr& q) const;

  const ir::Launch& launch_;
  const int64_t cluster_;
  ir::Expr block_;     // variable of the launch
  ir::Expr tiles_;     // of clusters, in all
  ir::Expr clusters_;  // that run
};

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_TILE_SCHEDULE_H_
