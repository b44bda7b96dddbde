// The launch manifest of an artifact, as the code generator wrote it, and its shapes for one set of
// run-time values.
#ifndef KILN_WORKER_PROFILE_MANIFEST_H_
#define KILN_WORKER_PROFILE_MANIFEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/base/dtype.h"

namespace kiln::worker {

// An extent that is a number, a run-time dimension, or an expression of some (extent.h).
struct ManifestExtent {
  int64_t value = 0;
  std::string name;  // or the expression; empty: `value` counts
};

// Sums behind an output that are kept in a type coarser than float32.
struct ManifestSums {
  std::optional<DType> type;  // unset: there are none
  int64_t roundings = 0;      // behind one element; 0 = not known
};

struct ManifestParameter {
  std::string name;
  bool is_tensor = true;
  DType type;
  std::vector<ManifestExtent> shape;
  std::vector<ManifestExtent> strides;  // elements; empty = row-major and dense
  bool output = false;
  bool accumulates = false;  // the kernel adds to what is there
  bool table = false;        // passed as addresses of what lies at each index of dimension 0
  ManifestSums sums;
};

struct Manifest {
  std::string name;  // the C symbol
  std::string target;
  std::vector<ManifestParameter> parameters;
  std::vector<std::string> dimensions;  // run-time dimensions, in ABI order
  double flops = 0;                     // of the whole kernel; 0 = unknown
  int64_t reduction_length = 0;         // 0 = unknown
};

// kInvalidArgument names the field that is missing, of a wrong type, or out of range.
absl::StatusOr<Manifest> ParseManifest(const std::string& json);

// One tensor with numbers for extents.
struct TensorShape {
  std::string name;
  DType type;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // elements
  bool output = false;
  bool accumulates = false;
  int64_t elements = 0;  // product of the shape
  int64_t span = 0;      // elements from the first to behind the last in memory
  bool dense = true;     // row-major without holes
  bool table = false;    // the kernel is given a table of addresses, one an index of dimension 0
  ManifestSums sums;

  int64_t bytes() const { return span * type.bytes(); }
  // Memory offset, in elements, of the logical flat index (row-major over `shape`).
  int64_t OffsetOf(int64_t flat) const;
};

// A kernel's arguments but for the addresses.
struct BoundManifest {
  std::string name;
  std::string target;
  std::vector<TensorShape> tensors;  // in ABI order
  // The scalars (a float as its bits, in the low part), then the run-time dimensions.
  std::vector<int64_t> values;
  // Additions that end in one output element: stated, or guessed from the operation count or the
  // longest extent of an input.
  int64_t reduction_length = 1;
};

// kInvalidArgument: a run-time value is missing, not an integer or out of range, or a tensor is
// beyond 2^40 elements. The message says which and how to give it.
absl::StatusOr<BoundManifest> BindManifest(const Manifest& manifest,
                                           const std::map<std::string, std::string>& values);

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_MANIFEST_H_
