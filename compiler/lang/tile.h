// The rule by which two tiles as operands agree on their extents. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_TILE_H_
#define KILN_COMPILER_LANG_TILE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {

// Fails unless the shapes of the two regions match, unit extents aside.
absl::Status RequireSameShape(Elaborator& e, const Tile& a, const Tile& b, SourceLoc loc,
                              absl::string_view what);
// Gives a tile of which only the start is known the extents of the other.
absl::Status FillBase(Elaborator& e, Tile* base, const Tile& other, SourceLoc loc);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_TILE_H_
