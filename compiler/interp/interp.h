// The interpreter: runs a Program on the CPU, tile level and lowered alike. It is the oracle for
// passes and code generation, and the reference that numbers are checked against.
//
// Floating-point values are computed in double. In Mode::kExactTypes every operation of an
// expression, every cast and every store rounds to its dtype; a tile operation (Gemm, Reduce, tile
// Atomic) computes an element in double and rounds once, when it is stored. In Mode::kDouble
// nothing rounds: all floats are float64, and what comes out is the high-precision reference.
//
// What a program must not do is an error with the source position (a Diagnostic, see
// compiler/base/diagnostic.h), by status code:
//   kOutOfRange          an access outside a buffer (Copy and tile Atomic clip, and so may global
//                        element accesses: Options::clip_global)
//   kFailedPrecondition  a read of shared, fragment, local or workspace memory, or of an output,
//                        that nothing wrote; a race; a failed T.assert; a division by zero; a shift
//                        by the type's width or more
//   kResourceExhausted   Options::max_steps or Options::max_bytes
//   kInvalidArgument     views that do not fit the program's parameters, a missing dimension
//   kUnimplemented       a construct that the interpreter does not have
//
// Pure with respect to its arguments but for the views' data. Thread-compatible: concurrent calls
// are fine on views that do not overlap.
#ifndef KILN_COMPILER_INTERP_INTERP_H_
#define KILN_COMPILER_INTERP_INTERP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/interp/tensor.h"
#include "compiler/ir/stmt.h"

namespace kiln::interp {

enum class Mode : uint8_t { kExactTypes, kDouble };

// Blocks of a launch and iterations of a parallel loop are unordered: the result must not depend on
// which of these is chosen.
enum class Order : uint8_t { kForward, kReverse };

struct Options {
  Mode mode = Mode::kExactTypes;
  // Run-time dimensions by name. One that is a parameter's extent may be left out: it is read from
  // the view's shape.
  std::map<std::string, int64_t> dims;
  // Values of scalar parameters by name.
  std::map<std::string, double> scalars;

  bool detect_races = true;
  bool detect_uninitialised = true;
  // The rule of the kernel language for element accesses (loads, stores, fills, element atomics) of
  // global memory: outside the buffer they read zero and write nothing. A pass makes that explicit
  // with guards; set this for programs from before it (the elaborator's), and leave it off for
  // programs from after it, where such an access is a bug.
  bool clip_global = false;
  // Loops over threads do not end with all threads: only barriers make them meet, as in programs
  // after plant-barriers. Two threads that touch an element with none between them are a race.
  bool meet_at_barriers = false;
  Order order = Order::kForward;
  // Loop iterations, plus elements of tile operations (of a Gemm: one per 64 multiplications).
  int64_t max_steps = INT64_MAX;
  // Memory of the interpreter's own buffers.
  int64_t max_bytes = int64_t{16} << 30;
  // Runs a block only if this returns true; empty = all. Arguments: number of the Launch statement
  // in program order, block ids (x, y, z; absent axes are 0).
  std::function<bool(int launch, const int64_t (&block)[3])> block_filter;
  // Gets each line of T.print, in the order in which they are written; empty: standard output.
  std::function<void(const std::string& line)> print;
  // Of SampleReference: blocks may compute only the rows and columns of their tiles that the
  // elements need. Same values; errors in other parts of a block may go unnoticed.
  bool narrow = false;
  // Of SampleReference: blocks that have nothing to do with each other run on so many threads.
  int threads = 1;
  // Of SampleReference: called before the blocks run, for each part of a tensor parameter that they
  // may read (first and last index of each dimension), so that nothing else of a large input need
  // be there. Tensors that the program also writes must be there as a whole.
  std::function<void(int tensor, const std::vector<int64_t>& low, const std::vector<int64_t>& high)>
      prepare;
};

struct Stats {
  int64_t blocks = 0;  // that ran
  int64_t steps = 0;
};

// Runs `program` on `params`, one view per tensor parameter in order (scalar parameters take no
// view). A view's shape must be the parameter's. Its dtype must be the parameter's in kExactTypes;
// in kDouble it may be any float type for a float parameter: give float64 outputs to keep the
// precision. On an error the contents of written views are unspecified.
absl::StatusOr<Stats> Run(const ir::Program& program, const std::vector<TensorView>& params,
                          const Options& options);

// The float64 values of some elements of parameter tensor `output` (counted among tensor
// parameters), computed by running only the blocks that can contribute to them: every block that
// may write or atomically update one of the elements and, of earlier launches, every block that may
// write what those blocks read. Equal to the same elements of a full run in Mode::kDouble.
//
// `params` is as for Run and is only read; a view of a tensor that the program only writes may have
// null data. `elements` are row-major flat indices of the logical shape. `options.mode` and
// `options.block_filter` are ignored.
// Errors: those of Run; kFailedPrecondition when an element is not written at all.
absl::StatusOr<std::vector<double>> SampleReference(const ir::Program& program,
                                                    const std::vector<TensorView>& params,
                                                    int output,
                                                    const std::vector<int64_t>& elements,
                                                    const Options& options, Stats* stats = nullptr);

// The same for several outputs with one run: elements[i] belong to outputs[i].
absl::StatusOr<std::vector<std::vector<double>>> SampleReferences(
    const ir::Program& program, const std::vector<TensorView>& params,
    const std::vector<int>& outputs, const std::vector<std::vector<int64_t>>& elements,
    const Options& options, Stats* stats = nullptr);

// The shapes of the tensor parameters, in order, for given run-time dimensions.
absl::StatusOr<std::vector<std::vector<int64_t>>> ParamShapes(const ir::Program& program,
                                                              const Options& options);

// One tensor per tensor parameter: inputs random (RandomTensor, seed + position), outputs filled
// with a pattern that is no plausible result.
absl::StatusOr<std::vector<Tensor>> RandomArguments(const ir::Program& program,
                                                    const Options& options, uint64_t seed);

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_INTERP_H_
