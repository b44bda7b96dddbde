// Tensors in host memory: views on memory that others own, an owning tensor, random contents and
// comparison with a tolerance. For tools, tests and checks.
#ifndef KILN_COMPILER_INTERP_TENSOR_H_
#define KILN_COMPILER_INTERP_TENSOR_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "compiler/base/dtype.h"

namespace kiln::interp {

// Does not own `data`. Strides are in elements and not negative; empty = row-major contiguous.
struct TensorView {
  void* data = nullptr;
  DType dtype = kFloat32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;

  int64_t elements() const;
  // Elements from the first to behind the last, gaps included; 0 of an empty one.
  int64_t reach() const;
  // Address of the element with row-major logical index `flat`.
  void* At(int64_t flat) const;
  double Get(int64_t flat) const { return LoadElement(At(flat), dtype); }
  void Set(int64_t flat, double value) const { StoreElement(At(flat), dtype, value); }
};

// Owns zeroed, 64-byte aligned memory. Large tensors take pages only when touched.
class Tensor {
 public:
  Tensor() = default;
  // Row-major without `strides` (of elements, at least 0). Aborts when memory is short
  // (KILN_CHECK): check sizes that users give before.
  Tensor(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {});

  TensorView View() const { return {data_, dtype_, shape_, strides_}; }
  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<int64_t>& strides() const { return strides_; }  // empty: row-major
  int64_t elements() const;
  // From the first element to behind the last, gaps included.
  int64_t bytes() const { return View().reach() * dtype_.bytes(); }
  void* data() const { return data_; }
  // T must have the size of the dtype.
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  DType dtype_;
  std::vector<int64_t> shape_, strides_;
  std::unique_ptr<void, Free> base_;
  void* data_ = nullptr;  // inside base_
};

// Floats uniform in [-1, 1], integers uniform in [-4, 4] (unsigned: [0, 8]), bools even odds. The
// same seed gives the same contents on every machine.
void FillRandom(const TensorView& view, uint64_t seed);
Tensor RandomTensor(DType dtype, std::vector<int64_t> shape, uint64_t seed);

// |got - want| <= absolute + relative * |want|, element by element. Two NaNs are equal, two
// infinities of one sign too.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};
// A sensible bound for results that were accumulated over `terms` products in `dtype` or better and
// stored in `dtype`.
Tolerance DefaultTolerance(DType dtype, int64_t terms = 1);

// Of the finite elements; 0 of none.
double RootMeanSquare(const TensorView& view);

struct Comparison {
  int64_t mismatches = 0;
  int64_t nan_on_both = 0;  // elements; they count as equal
  int64_t first = -1;       // row-major flat index of the first mismatch
  double first_got = 0, first_want = 0;
  double max_absolute_error = 0;  // over elements that are finite on both sides
  double max_relative_error = 0;  // of |want| >= 1e-30
  bool ok() const { return mismatches == 0; }
  // "3 of 100 elements differ; first at (0, 7): got 1.5, want 2; max error 0.5 (relative 0.25)".
  std::string ToString(const std::vector<int64_t>& shape) const;
};
// Shapes must be equal (KILN_CHECK).
Comparison Compare(const TensorView& got, const TensorView& want, Tolerance tolerance);

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_TENSOR_H_
