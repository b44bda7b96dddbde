// How tiles of shared memory are addressed by what copies and multiplies them, computed from
// addresses as the hardware does. Private to compiler/interp.
#ifndef KILN_COMPILER_INTERP_TILE_SHAPE_H_
#define KILN_COMPILER_INTERP_TILE_SHAPE_H_

#include <cstdint>
#include <string>

#include "compiler/interp/node.h"
#include "compiler/ir/instruct.h"

namespace kiln::interp {

// A tile as TMA writes and tensor cores read it: panels of `swizzle` bytes a row, in which 16-byte
// chunks trade places by the row's number in groups of 128 bytes (PTX 5.5.7); panels follow each
// other, or eight rows of all of them do. Without a swizzle, rows of `columns`.
struct TileShape {
  int64_t element = 2, swizzle = 0, height = 0, columns = 0;  // bytes, bytes, rows, elements
  int64_t from_row = 0, from_column = 0;  // of the operand, in the atom that `first` begins
  int64_t bands = 0;                      // panels whose eight rows follow each other; 0: none do

  int64_t At(int64_t first, int64_t row, int64_t column) const {
    if (swizzle == 0) return first + row * columns + column;
    row += from_row;
    column += from_column;
    const int64_t width = swizzle / element;
    const int64_t panel = column / width;
    const int64_t rows_before =
        bands == 0 ? panel * height + row : (row / 8 * bands + panel) * 8 + row % 8;
    const int64_t byte = (first + rows_before * width + column % width) * element;
    return (byte ^ (byte / 128 % (swizzle / 16) * 16)) / element;
  }
};

TileShape TileOf(const ir::Instruct& x, int operand);
int64_t FirstElement(Machine& m, const Box& box);

// Whether a place that an instruction works out is one of the tile's; a failure where it is not.
bool CheckInside(Machine& m, const BufferState& tile, int64_t place, SourceLoc loc);

// Whether TMA has boxes for so many columns of such a tile: sides of at most 256 (PTX 5.5). A
// failure where not.
bool CheckSides(Machine& m, const TileShape& shape, int64_t columns, SourceLoc loc);

// Whether an element that is read asynchronously from here on may be: what a thread stored needs a
// proxy fence first (PTX 8.7, 9.7.13.4). False, and a failure, where it may not.
bool CheckFenced(Machine& m, const BufferState& tile, int64_t place, SourceLoc loc);

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_TILE_SHAPE_H_
