// A program whose blocks compute only a few rows and columns of their tiles. Private to
// compiler/interp.
#ifndef KILN_COMPILER_INTERP_NARROW_H_
#define KILN_COMPILER_INTERP_NARROW_H_

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/ir/analysis.h"
#include "compiler/ir/stmt.h"

namespace kiln::interp {

// Of tensors in global memory: the elements that are wanted, the first and the last index of each
// dimension.
using Wanted = std::unordered_map<const ir::BufferNode*, std::vector<std::pair<int64_t, int64_t>>>;

// The launch for the one block `block` (ids of x, y, z) and only for the elements of `wanted`:
// dimensions of tiles that go with a dimension of a wanted tensor, element by element, and the
// parallel loops over them, shrink to what the boxes need. What is reduced over stays whole, so
// that every element has the value that it has in the whole block, bit for bit. `facts`: what is
// known outside of the launch.
//
// Nothing when no dimension can shrink, or the launch has something that this does not follow.
// Reads of what a narrowed launch no longer computes are reads of unwritten memory: run it with
// detect_uninitialised, and take the whole program when it fails.
std::optional<ir::Stmt> NarrowLaunch(const ir::Launch& launch, const int64_t (&block)[3],
                                     const Wanted& wanted, const ir::Facts& facts);

// The same of a program of a single launch, for one tensor.
std::optional<ir::Program> Narrow(const ir::Program& program, const int64_t (&block)[3],
                                  const ir::Buffer& output,
                                  const std::vector<std::pair<int64_t, int64_t>>& box,
                                  const ir::Facts& facts);

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_NARROW_H_
