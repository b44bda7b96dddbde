// How tile operations match the dimensions of their regions. Pure functions, shared by the
// verifier, the interpreter, demand analysis and the passes, so that all agree.
#ifndef KILN_COMPILER_IR_SHAPE_H_
#define KILN_COMPILER_IR_SHAPE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// Indices of the dimensions of `region` whose extent is not the constant 1, in order.
std::vector<int> NonUnitDims(const Region& region);

// Whether it is its whole buffer.
bool CoversWhole(const Region& region);

// The row and column dimension of a Gemm operand: a region of rank 2 is taken as it is; of a higher
// rank leading unit dimensions are dropped until two are left. nullopt when that is impossible.
std::optional<std::pair<int, int>> MatrixDims(const Region& region);

// For every dimension of `from`, the dimension of `to` that it pairs with in an element-by-element
// operation (Copy, tile Atomic), or -1 for a unit dimension that pairs with none. Regions of equal
// rank pair in order when no pair has two different constant extents; else unit dimensions are
// dropped from both sides. nullopt when the shapes cannot match: different numbers of non-unit
// dimensions, or two constant extents that differ.
std::optional<std::vector<int>> PairDims(const Region& from, const Region& to);

// For a Reduce: for every dimension of dst the dimension of src it pairs with, or -1 for a unit
// dimension (the reduced one that was kept, say). nullopt when the shapes cannot match or dim is
// not a dimension of src.
std::optional<std::vector<int>> ReduceDims(const Region& src, const Region& dst, int dim);

// Whether an extent is a run-time dimension: itself, or K // 8 * 8, where K is known to be a
// multiple.
bool IsSize(const Expr& extent, const Expr& dim);

// Of all elements; nullopt where an extent is known only at run time.
std::optional<int64_t> BytesOf(const Buffer& buffer);

// Registers of 32 bits that a buffer takes of a thread: its own row of kRegister, all of kLocal and
// kVar, where extents are known; 0 of memory that threads share.
int64_t RegistersOf(const Buffer& buffer);

// How many threads a block has; nullopt where that is no constant, or more than an int64.
std::optional<int64_t> ThreadsOf(const Launch& launch);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_SHAPE_H_
