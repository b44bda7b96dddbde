// What a kernel asks of a machine, as expressions over its open tunables.
//
// The analysis walks the user's own tile program once. Every quantity is a node of one tape, so
// that the same demand can be evaluated for ten thousand configs in a few milliseconds. Loop nests
// are kept, because what a cache saves depends on which loop reuses a tensor.
// Counts are of the whole kernel unless a name says otherwise; sizes are elements or bytes as
// named.
#ifndef KILN_COMPILER_ROOFLINE_DEMAND_H_
#define KILN_COMPILER_ROOFLINE_DEMAND_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/stmt.h"
#include "compiler/roofline/tape.h"
#include "compiler/roofline/warps.h"
#include "compiler/target/legality.h"

namespace kiln::roofline {

// One loop around tile operations: a grid axis, a serial or a pipelined loop.
struct LoopLevel {
  std::string name;
  const ir::ExprNode* var = nullptr;
  int parent = -1;  // enclosing loop, -1 = none
  Num trip;         // mean iterations an entry
  Num most;         // iterations of the longest entry
  Num scale;        // one iteration moves `var` by this much (a swizzle splits an axis in two)
  bool grid = false;
  bool pipelined = false;
  Num stages;  // pipelined: stages asked for
};

struct TensorInfo {
  std::string name;
  DType dtype;
  Num elements;
  std::vector<Num> shape;
  bool read = false, written = false;
};

// One operation's use of one global tensor.
struct Access {
  int tensor = 0;
  int op = 0;
  int launch = 0;
  bool write = false;
  bool atomic = false;
  bool exact = true;          // false: the index is not affine and the figures are bounds
  std::vector<int> loops;     // enclosing loops, outermost first
  std::vector<int> dim_loop;  // of each dimension: the loop that moves it, the innermost; -1 = none
  Num elements;               // mean elements inside the tensor, an execution
  // Elements that an execution reaches for, inside or not; of one that no tensor is large enough
  // for, none more than `elements`: it is never whole.
  Num reached;
  Num run_bytes;    // contiguous bytes of one execution's rows
  Num total_bytes;  // requested by the whole kernel
  // footprint[i]: distinct elements that the loops from loops[i] inwards touch, mean over the loops
  // outside; the last entry is one execution.
  std::vector<Num> footprint;
};

enum class OpKind : uint8_t { kCopy, kGemm, kLoop, kFill, kReduce, kAtomic };

// Work of one iteration of an element loop (T.Parallel), in vector operations when `vector`.
struct ElementWork {
  Num alu;            // add, multiply, min, max, compare, select
  Num divide;         // divisions and square roots
  Num special;        // exponentials' worth of special functions
  Num convert;        // between storage and arithmetic types
  Num loads, stores;  // that move with the vector axis
  Num gathers;        // loads or stores whose address moves by other than one element
  bool vector = true;
};

struct OpDemand {
  OpKind kind = OpKind::kCopy;
  std::string label;  // "copy A -> A_shared"
  SourceLoc loc;
  int launch = 0;
  Num count;               // executions in the whole kernel
  std::vector<int> loops;  // enclosing, outermost first
  std::vector<int> accesses;
  Num rows, columns;  // of one execution: columns = extent of the last (vector) axis
  Num onchip_read_bytes, onchip_write_bytes;  // of one execution
  ElementWork work;                           // kLoop, kAtomic: an iteration
  // kGemm: the tile.
  Num m, n, k;
  DType a_type, b_type, c_type;
  bool trans_a = false, trans_b = false;
  bool a_shared = false, b_shared = false;
  bool turns = true;        // operands, where that helps (pass option kiln.turn)
  bool c_turnable = false;  // the result may be held turned (ir/turnable.h)
  bool tf32 = false;        // float32 operands may be rounded to it (pass option kiln.tf32)
  bool c_held = false;  // in tensor memory where there is some: nothing looks at the result between
                        // products (ir/sums.h; pass option kiln.tcgen05)
  bool c_apart = false;  // the same, but the result is wanted in registers after each product
  target::WarpPolicy policy = target::WarpPolicy::kSquare;
  Num useful;            // part of the tile that is inside the tensors, 0..1
  bool fetches = false;  // kLoop: it gathers a tile of shared memory from a tensor
  // kReduce: whether it runs along the vector axis, adds, and begins with what the result holds.
  bool reduce_last = false, adds = false, accumulates = false;
  // kCopy from global: the one reader that could take the tensor's region instead; -1 = none.
  int sole_reader = -1;
  // kGemm: buffers of its operands, for packing and forwarding (indices of Demand::buffers, -1 =
  // global).
  int a_buffer = -1, b_buffer = -1, c_buffer = -1;
  int src_buffer = -1, dst_buffer = -1;  // kCopy, kReduce, kFill
};

// On-chip storage of a block.
struct LocalBuffer {
  std::string name;
  int launch = 0;
  ir::Scope scope = ir::Scope::kShared;
  DType dtype;
  Num elements;
  Num bytes;
  Num columns;               // extent of the last dimension
  bool vector = false;       // has one dimension
  bool by_elements = false;  // filled by a loop, an element at a time
  bool folded_once = false;  // filled from a tensor, or by a loop, for one reduction
  int writer = -1;           // operation that fills it, if it is one: an index of Demand::ops
  bool taken_over = false;   // filled from a fragment that nothing looks at afterwards: its place
  Num stored;                // most elements that a copy puts inside of a tensor; undefined = none
  bool pipelined = false;    // written inside a pipelined loop: has `stages` copies on a GPU
  Num stages;
};

struct Constraint {
  Num holds;  // 0 or 1
  std::string text;
};

struct LaunchDemand {
  std::vector<Num> grid;  // extents, x first
  Num blocks;             // product of the grid
  Num threads;            // of a block
  Num stages;             // most stages of any pipelined loop; 1 = none
  Num panel;  // rows of blocks in a swizzle panel; undefined = the launch has no swizzle
  WarpDemand warps;
  ir::SharedUse shared;             // which tiles of shared memory are in use at the same time
  std::vector<int> shared_buffers;  // Demand::buffers of them
};

struct Demand {
  std::unique_ptr<Tape> tape;
  std::vector<std::string> inputs;  // tunables in order of tape input
  std::vector<LaunchDemand> launches;
  std::vector<LoopLevel> loops;
  std::vector<TensorInfo> tensors;
  std::vector<LocalBuffer> buffers;
  std::vector<Access> accesses;
  std::vector<OpDemand> ops;
  std::vector<Constraint> constraints;
  Num flops;                  // useful floating-point operations
  Num executed_flops;         // with ragged waste
  Num compulsory_read_bytes;  // every input element that is touched, once
  Num compulsory_write_bytes;
  std::vector<std::string> approximations;  // sentences: what the analysis had to guess
};

// Walks `program`. `tunables`: name -> Var of the open tunables; `constraints`: bools over them;
// `runtime`: values of run-time dims and scalars by name. A run-time dimension without a value is
// taken as 1024 and noted. kUnimplemented when the program has no Launch.
absl::StatusOr<Demand> Analyze(const ir::Program& program,
                               const std::map<std::string, ir::Expr>& tunables,
                               const std::vector<ir::Expr>& constraints,
                               const std::map<std::string, double>& runtime);

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_DEMAND_H_
