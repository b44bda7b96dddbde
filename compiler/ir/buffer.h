// Memory in the tile IR: buffers, and boxes of them. Immutable and shared.
#ifndef KILN_COMPILER_IR_BUFFER_H_
#define KILN_COMPILER_IR_BUFFER_H_

#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/expr.h"

namespace kiln::ir {

enum class Scope : uint8_t {
  kGlobal,    // a kernel parameter, or a workspace (alloc_global) when it is not one
  kShared,    // one copy a block
  kFragment,  // one logical copy a block, distributed over threads (GPU)
  kLocal,     // registers: one copy a thread; on x86 one a block
  kVar,       // a mutable scalar (T.alloc_var): shape (1,)
  kTensor,    // tensor memory: sums of products, one copy a block. At thread level it has no
              // buffers: instructions touch it by address. While a kernel is elaborated: what the
              // kernel calls so itself (lang/tensor_memory.h)
  kRegister,  // dimension 0 is the thread of the block; a thread touches its own row. Outside of
              // loops over threads all rows of the threads that run are equal and may only be
              // read, at a constant row. At tile level: what a kernel that speaks of threads keeps
              // for each of them (threads.h)
  // Thread level only.
  kConstant,  // a table that the compiler made: never stored to
  kBarrier,   // mbarriers in shared memory (int64): only instructions touch them
};

// Identity is the node: names are for people.
struct BufferNode {
  std::string name;
  DType dtype;
  std::vector<Expr> shape;    // elements
  std::vector<Expr> strides;  // elements; empty = row-major contiguous
  Scope scope = Scope::kGlobal;
  std::string layout;  // canonical text of an attached layout; empty = row-major
  int alignment = 64;  // bytes, of the first element
  std::shared_ptr<const std::vector<int64_t>> values;  // kConstant: all elements, row-major
  // A parameter that is a table of addresses: at each index of dimension 0 lie the other dimensions
  // by themselves, at an address that is a multiple of `alignment` and of nothing more.
  // Interpreted, they lie one after the other, as shape and strides say.
  bool table = false;
  // Shared memory and barriers: dimension 0 is the rank in a cluster of so many blocks, each of
  // which has what lies at its own. Others may write there (kSharesMemory in shared_use.h).
  int64_t blocks = 1;
};
Buffer MakeBuffer(std::string name, DType dtype, std::vector<Expr> shape, Scope scope,
                  std::vector<Expr> strides = {}, std::string layout = {});

// [min, min+extent) on one dimension.
struct Range {
  Expr min;
  Expr extent;
};
// A box of a buffer, one Range a dimension. Extents of 1 are dimensions that an index fixed; ops
// that match shapes (Copy, Gemm) drop them from both sides.
struct Region {
  Buffer buffer;
  std::vector<Range> ranges;
};
Region WholeBuffer(const Buffer& buffer);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_BUFFER_H_
