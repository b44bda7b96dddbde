// The question that layout inference answers, for one launch: which fragments there are, which
// operations touch them, and exactly which iteration touches which element.
//
// Needs tile copies and fills lowered to parallel loops (lower-copies). Accesses are not symbolic:
// every index is evaluated for every iteration, and for every value of the serial variables that it
// mentions, so that what follows is decided and never approximated.
#ifndef KILN_COMPILER_PASSES_LAYOUT_PROBLEM_H_
#define KILN_COMPILER_PASSES_LAYOUT_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"
#include "compiler/layout/ownership.h"
#include "compiler/passes/memory_access.h"
#include "compiler/passes/pass.h"

namespace kiln::passes {

inline constexpr int64_t kMaxTileElements = int64_t{1} << 22;  // of a fragment, or of a loop
inline constexpr int64_t kMaxAccesses = int64_t{1} << 26;      // evaluated in one launch

struct Fragment {
  ir::Buffer buffer;
  std::vector<int64_t> shape;
  int64_t size = 0;                            // elements
  bool floating = false;                       // touched outside of any operation: by every thread
  SourceLoc loc;                               // of its allocation
  std::optional<layout::Ownership> annotated;  // T.annotate_layout, T.alloc_reducer
  bool replicated = false;                     // all who write it hold all of it
  // Those who write it: a part of the block, where all that writes it is done by that part.
  layout::ThreadRange threads;
};

// One operation's accesses to one fragment through one index expression.
struct FragmentUse {
  int fragment = 0;  // in LayoutProblem::fragments
  bool reads = false, writes = false;
  bool constant = false;  // no index mentions a variable
  SourceLoc loc;
  std::string text;  // "fragment[row, 0]"
  // elements[s][i]: what iteration i touches under the s-th assignment of the serial variables that
  // the indices mention; -1 where a condition keeps it from touching anything. Equal lists once.
  std::vector<std::vector<int64_t>> elements;
};

// kMove: between a fragment and tensor memory. It is like a kGemm that has C alone.
enum class OperationKind : uint8_t { kLoop, kReduce, kGemm, kMove };

struct Operation {
  OperationKind kind = OperationKind::kLoop;
  ir::Stmt stmt;
  SourceLoc loc;
  std::string name;              // "loop 2 (row, col)"
  std::vector<int64_t> extents;  // of the parallel axes; kReduce: of the source; kGemm: of C
  int64_t iterations = 1;
  layout::ThreadRange threads;         // of the block that it may run on
  std::vector<FragmentUse> uses;       // kReduce: source, then destination
  MatrixUnit unit = MatrixUnit::kMma;  // kGemm
  std::string why_unit;                // kGemm: what keeps a faster one from being used; or empty
  WarpGrid grid;                       // kGemm: of warps or warpgroups over C
  // kGemm: the widest swizzles that it reads A and B in (target::GemmChoice).
  int64_t a_swizzle = 128, b_swizzle = 128;
  // kGemm: by use, the owners that the instruction asks for, in the order of the use's elements.
  std::vector<layout::Ownership> anchors;
  std::optional<layout::Ownership> annotated;  // kLoop: loop_layout
  std::vector<MemoryAccess> accesses;          // kLoop: of memory
  int reduced_dim = 0;                         // kReduce
  // The widest access of memory in one instruction, in elements: every access of global or shared
  // memory is a run of this many neighbours along the last axis, from a multiple of it. A power of
  // two, at most 16 bytes of the widest element.
  int64_t vector_width = 1;
};

// The fragments that an operation touches, each once, in order of first use.
std::vector<int> FragmentsOf(const Operation& op);

struct LayoutProblem {
  layout::ThreadRange threads;
  std::vector<Fragment> fragments;    // in order of allocation
  std::vector<SharedTile> shared;     // those that do not lie row by row
  std::vector<Operation> operations;  // in program order
};

// InvalidArgument (a diagnostic) when the number of threads, a fragment's shape or a parallel
// extent is not known, or an access leaves its fragment; FailedPrecondition when an index depends
// on something that is not known before the kernel runs; ResourceExhausted past the limits above;
// Unimplemented for operations that have no thread-level form yet, and for matrix products that
// `gpu` has no instruction for.
absl::StatusOr<LayoutProblem> CollectLayoutProblem(const ir::Program& program,
                                                   const ir::Launch& launch,
                                                   const target::Arch& gpu = GpuOf({}));

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LAYOUT_PROBLEM_H_
