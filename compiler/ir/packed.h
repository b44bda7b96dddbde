// Elements of four bits: int4, uint4 and float4_e2m1fn.
//
// They exist only while a kernel is elaborated. In memory (tensors, workspaces, shared tiles) two
// neighbours along the last dimension lie in a byte, the first in its low half: there such a buffer
// becomes one of uint8 with half as many elements in its last dimension, and what was said of
// elements is said of halves of bytes. In registers an element has a byte of its own: an int8 or
// uint8 that holds its value, a float4_e2m1 of 8 bits.
//
// A byte is stored whole, by one iteration that has both values. So a loop that stores x[.., e + v]
// for even e and its axis v walks over pairs: each of its iterations does what two did. What is not
// stored in such pairs is refused, but for shared memory outside of parallel loops, where the block
// does one thing after the other: there the other half is put back as it was.
#ifndef KILN_COMPILER_IR_PACKED_H_
#define KILN_COMPILER_IR_PACKED_H_

#include <vector>

#include "absl/status/status.h"
#include "compiler/ir/stmt.h"
#include "compiler/ir/views.h"

namespace kiln::ir {

// What ResolvePacked works on.
struct PackedInput {
  std::vector<Expr> open;     // variables of the configuration that are not known yet
  std::vector<Expr> threads;  // a thread's indices: who uses them says what each thread does
  const SourceFile* source = nullptr;
};

// Rewrites the body, the tensors among the parameters and the views. `even`: the variables among
// `open` that were taken to be even.
//
// Diagnostics. InvalidArgument: a last dimension that is odd or may be; strides; a layout of packed
// memory; a start of a packed region that may be odd. Unimplemented: a store that may leave the two
// halves of a byte to two iterations, threads or blocks; reductions, scans and atomics of packed
// memory; views of registers as elements of another width.
absl::Status ResolvePacked(const PackedInput& input, Stmt* body, std::vector<Param*> params,
                           std::vector<View>* views, std::vector<Expr>* even);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_PACKED_H_
