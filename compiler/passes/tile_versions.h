// Tiles that a loop fills again and again, in several versions, so that one can be filled while
// another is read. Shared by the passes that pipeline loops.
#ifndef KILN_COMPILER_PASSES_TILE_VERSIONS_H_
#define KILN_COMPILER_PASSES_TILE_VERSIONS_H_

#include <unordered_map>
#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::passes {

// A tile -> the buffer of its versions, which has one more dimension, the first.
using TileVersions = std::unordered_map<const ir::BufferNode*, ir::Buffer>;

// The buffer of so many versions of a tile.
ir::Buffer VersionsOf(const ir::Buffer& tile, int64_t versions);

// `s` with version `version` of each tile in its place; T.fill, stores and copies may write it,
// atomics must not touch it.
ir::Stmt ReadVersion(const ir::Stmt& s, const TileVersions& tiles, const ir::Expr& version);

// Whether a statement (one of them) touches the buffer at all; writes it, or uses it in a way that
// has no version (T.fill, an atomic).
bool Uses(const std::vector<ir::Stmt>& stmts, const ir::Buffer& buffer);
bool Writes(const std::vector<ir::Stmt>& stmts, const ir::Buffer& buffer);

// Whether one of the statements binds a name that says where a region begins.
bool PlacedBy(const std::vector<ir::Stmt>& stmts, const ir::Region& region);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_TILE_VERSIONS_H_
