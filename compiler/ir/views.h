// Views: second names for a buffer's memory, of another shape or element type (T.view, T.reshape,
// a T.decl_buffer over another buffer's data). Elements keep their row-major place, in bits.
//
// Views exist only while a kernel is elaborated. ResolveViews gives every group of names one
// memory, and what was said through a name is said of that memory: everything that works on
// programs knows buffers that share nothing.
#ifndef KILN_COMPILER_IR_VIEWS_H_
#define KILN_COMPILER_IR_VIEWS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"

namespace kiln::ir {

struct View {
  Buffer view;
  Buffer base;    // allocated, or a parameter; never a view; row-major; of as many bits as `view`
  SourceLoc loc;  // of the view
};

// The memory has the narrowest element type among its names, so that a store through one never
// touches a neighbour: unsigned integers where the types differ, but for what matrix products and
// reductions use. It has the shape that those use (the base's where they differ), else the one that
// other tile operations use, else it is flat. An element of a wider name is so many elements of the
// memory. Tile operations through names that the memory does not look like become loops (Copy,
// Fill, Atomic) or work on a copy (Gemm, Reduce). Global memory keeps its shape: an access through
// a view of it stays within the view's own bounds.
//
// Diagnostics. InvalidArgument: an atomic update, or an annotated layout, of memory whose names
// differ in their element types; two layouts for one memory. ResourceExhausted: reads through wider
// names nested in each other's indices.
absl::StatusOr<Stmt> ResolveViews(const Stmt& body, const std::vector<View>& views,
                                  const SourceFile& source);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_VIEWS_H_
