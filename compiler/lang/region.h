// Regions of buffers where Python has slices: what is stored to one with '=', and what is said of
// one that stands for an element. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_REGION_H_
#define KILN_COMPILER_LANG_REGION_H_

#include <string>
#include <vector>

#include "compiler/lang/elaborator.h"

namespace kiln::lang {

// x[i, 0:4] = y[i, 4:8], or one value for all: element by element, where all are read before the
// first is stored, for a short row, a tile operation for anything else.
absl::Status AssignRegion(Elaborator& e, const Value& place, const Value& value, SourceLoc loc);

// x[i, ...] as x[i, :, :]: whole dimensions in the place of the one Ellipsis.
absl::Status ExpandEllipsis(Elaborator& e, const ir::Buffer& buffer, std::vector<Value>* indices,
                            std::vector<SourceLoc>* locs);

// A region whose last dimensions have no index: x[i] of two.
bool LacksIndices(const Value& v);
// "index both dimensions of 'x', as in x[i, j]".
std::string IndexAll(const Value& v);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_REGION_H_
