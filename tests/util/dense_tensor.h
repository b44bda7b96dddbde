// A tensor of a manifest whose elements lie one behind the other, the last dimension fastest.
#ifndef KILN_TESTS_UTIL_DENSE_TENSOR_H_
#define KILN_TESTS_UTIL_DENSE_TENSOR_H_

#include <string>
#include <utility>
#include <vector>

#include "worker/profile/manifest.h"

namespace kiln::worker {

inline TensorShape DenseTensor(const std::string& name, DType type, std::vector<int64_t> shape,
                               bool output = false) {
  TensorShape tensor;
  tensor.name = name;
  tensor.type = type;
  tensor.output = output;
  tensor.elements = 1;
  tensor.strides.resize(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    tensor.strides[d] = tensor.elements;
    tensor.elements *= shape[d];
  }
  tensor.shape = std::move(shape);
  tensor.span = tensor.elements;
  return tensor;
}

}  // namespace kiln::worker

#endif  // KILN_TESTS_UTIL_DENSE_TENSOR_H_
