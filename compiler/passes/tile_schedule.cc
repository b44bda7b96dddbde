#include "compiler/passes/tile_schedule.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "compiler/base/status.h"
#include "compiler/ir/visit.h"

namespace kiln::passes {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

TileSchedule::TileSchedule(const ir::Launch& launch, int64_t cores, int64_t cluster)
    : launch_(launch), cluster_(cluster), block_(ir::MakeVar("block")) {
  KILN_CHECK(cluster == 1 || launch.grid.size() > 1);
  tiles_ = MakeInt(1);
  for (const ir::Axis& axis : launch.grid) tiles_ = tiles_ * axis.extent;
  tiles_ = FloorDiv(tiles_, MakeInt(cluster));
  clusters_ = cores > 0 ? Min(tiles_, MakeInt(std::max<int64_t>(1, cores / cluster))) : tiles_;
}

std::vector<ir::Axis> TileSchedule::grid() const {
  return {{block_, MakeInt(0), clusters_ * MakeInt(cluster_)}};
}

std::vector<Expr> TileSchedule::TileOf(const Expr& q) const {
  const std::vector<ir::Axis>& grid = launch_.grid;
  if (grid.size() == 1) return {q};
  const Expr& width = grid[0].extent;
  const Expr height = FloorDiv(grid[1].extent, MakeInt(cluster_));
  const Expr plane = width * height;
  const Expr in_plane = grid.size() > 2 ? FloorMod(q, plane) : q;
  int64_t panel = 0;
  const auto note = launch_.annotations.find(kSwizzlePanel);
  if (note != launch_.annotations.end()) (void)absl::SimpleAtoi(note->second, &panel);
  panel /= cluster_;
  Expr x = FloorMod(in_plane, width), y = FloorDiv(in_plane, width);
  if (panel > 1) {
    const Expr in_group = width * MakeInt(panel);
    const Expr first = FloorDiv(in_plane, in_group) * MakeInt(panel);
    const Expr rows = Min(height - first, MakeInt(panel));
    const Expr rest = FloorMod(in_plane, in_group);
    x = FloorDiv(rest, rows);
    y = first + FloorMod(rest, rows);
  }
  y = y * MakeInt(cluster_) + FloorMod(block_, MakeInt(cluster_));
  if (grid.size() == 2) return {x, y};
  return {x, y, FloorDiv(q, plane)};
}

bool TileSchedule::once() const { return ir::Same(tiles_, clusters_); }

Expr TileSchedule::turns() const {
  if (once()) return MakeInt(1);
  return CeilDiv(tiles_ - FloorDiv(block_, MakeInt(cluster_)), clusters_);
}

Stmt TileSchedule::ForTurns(const std::function<Stmt(const Expr& turn)>& body, int64_t team,
                            int64_t teams) const {
  const SourceLoc loc = launch_.loc;
  const Expr cluster = FloorDiv(block_, MakeInt(cluster_));
  const Expr round = ir::MakeVar("turn");
  const Expr turn = once() ? MakeInt(0) : round * MakeInt(teams) + MakeInt(team);
  const Expr q = once() ? cluster : cluster + turn * clusters_;
  const std::vector<Expr> tile = TileOf(q);
  std::vector<Stmt> stmts;
  ir::VarMap fresh;
  for (size_t d = 0; d < tile.size(); ++d) {
    const Expr& var = launch_.grid[d].var;
    const Expr own = ir::MakeVar(var.As<ir::Var>()->name, var.dtype());
    // Says what later passes cannot see in the arithmetic: the tile is one of the grid.
    const Expr inside = Max(MakeInt(0), Min(tile[d], launch_.grid[d].extent - MakeInt(1)));
    stmts.push_back(ir::MakeStmt<ir::Bind>(loc, own, ir::MakeCast(own.dtype(), inside)));
    fresh[var.get()] = own;
  }
  stmts.push_back(ir::Substitute(body(turn), fresh));
  const Stmt one = ir::MakeStmt<ir::Seq>(loc, std::move(stmts));
  if (once()) return one;
  const Expr rounds = teams > 1 ? CeilDiv(turns() - MakeInt(team), MakeInt(teams)) : turns();
  return ir::MakeStmt<ir::For>(loc, ir::ForKind::kSerial,
                               std::vector<ir::Axis>{{round, MakeInt(0), rounds}}, one, Expr(),
                               std::map<std::string, std::string>{{kTilesApart, "1"}});
}

}  // namespace kiln::passes
