#include "compiler/interp/tensor.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"

namespace kiln::interp {
namespace {

constexpr size_t kAlignment = 64;

int64_t Product(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// SplitMix64: a full-period mixer, so that element i of a seed is a function of both alone.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

double RandomValue(DType dtype, uint64_t bits) {
  if (dtype.is_float()) return static_cast<double>(bits >> 11) * 0x1p-52 - 1.0;
  if (dtype.is_bool()) return static_cast<double>(bits >> 63);
  const auto digit = static_cast<double>((bits >> 32) % 9);
  return dtype.is_uint() ? digit : digit - 4;
}

bool Close(double got, double want, Tolerance tolerance) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (std::isinf(got) || std::isinf(want)) return got == want;
  return std::abs(got - want) <= tolerance.absolute + tolerance.relative * std::abs(want);
}

}  // namespace

int64_t TensorView::elements() const { return Product(shape); }

int64_t TensorView::reach() const {
  if (strides.empty() || elements() == 0) return elements();
  int64_t last = 0;
  for (size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * strides[d];
  return last + 1;
}

void* TensorView::At(int64_t flat) const {
  int64_t offset = flat;
  if (!strides.empty()) {
    offset = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      offset += flat % shape[d] * strides[d];
      flat /= shape[d];
    }
  }
  return static_cast<char*>(data) + offset * dtype.bytes();
}

Tensor::Tensor(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides)
    : dtype_(dtype), shape_(std::move(shape)), strides_(std::move(strides)) {
  for (const int64_t extent : shape_) KILN_CHECK(extent >= 0);
  // calloc leaves large blocks to the kernel's zero pages; alignment is by hand.
  base_.reset(std::calloc(static_cast<size_t>(bytes()) + kAlignment, 1));
  KILN_CHECK(base_ != nullptr);
  const auto address = reinterpret_cast<uintptr_t>(base_.get());
  data_ = static_cast<char*>(base_.get()) + (kAlignment - address % kAlignment) % kAlignment;
}

int64_t Tensor::elements() const { return Product(shape_); }

void FillRandom(const TensorView& view, uint64_t seed) {
  const uint64_t stream = Mix(seed);
  const int64_t n = view.elements();
  if (view.dtype == kFloat32 && view.strides.empty()) {
    auto* out = static_cast<float*>(view.data);
    for (int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<float>(RandomValue(view.dtype, Mix(stream + static_cast<uint64_t>(i))));
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    view.Set(i, RandomValue(view.dtype, Mix(stream + static_cast<uint64_t>(i))));
  }
}

Tensor RandomTensor(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  Tensor tensor(dtype, std::move(shape));
  FillRandom(tensor.View(), seed);
  return tensor;
}

Tolerance DefaultTolerance(DType dtype, int64_t terms) {
  if (!dtype.is_float()) return {};
  const double ulp = EpsilonOf(dtype);
  // Rounding errors of a sum walk randomly; the last store costs half a unit of its own. Sums are
  // accumulated in float32 at least.
  const double accumulate = dtype.bits == 64 ? 0x1p-52 : 0x1p-23;
  const double walk = 4 * accumulate * std::sqrt(static_cast<double>(std::max<int64_t>(terms, 1)));
  return {4 * std::max(ulp / 2, walk), 4 * walk};
}

double RootMeanSquare(const TensorView& view) {
  double sum = 0;
  int64_t finite = 0;
  const int64_t elements = view.elements();
  for (int64_t i = 0; i < elements; ++i) {
    const double value = view.Get(i);
    if (!std::isfinite(value)) continue;
    sum += value * value;
    ++finite;
  }
  return finite == 0 ? 0 : std::sqrt(sum / static_cast<double>(finite));
}

std::string Comparison::ToString(const std::vector<int64_t>& shape) const {
  if (ok()) {
    return absl::StrCat("equal; max error ", max_absolute_error, " (relative ", max_relative_error,
                        ")");
  }
  std::vector<int64_t> index(shape.size());
  int64_t rest = first;
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = rest % shape[d];
    rest /= shape[d];
  }
  return absl::StrCat(mismatches, " of ", Product(shape), " elements differ; first at (",
                      absl::StrJoin(index, ", "), "): got ", first_got, ", want ", first_want,
                      "; max error ", max_absolute_error, " (relative ", max_relative_error, ")");
}

Comparison Compare(const TensorView& got, const TensorView& want, Tolerance tolerance) {
  KILN_CHECK(got.shape == want.shape);
  Comparison result;
  const int64_t n = got.elements();
  for (int64_t i = 0; i < n; ++i) {
    const double g = got.Get(i), w = want.Get(i);
    if (std::isfinite(g) && std::isfinite(w)) {
      const double error = std::abs(g - w);
      result.max_absolute_error = std::max(result.max_absolute_error, error);
      if (std::abs(w) >= 1e-30) {
        result.max_relative_error = std::max(result.max_relative_error, error / std::abs(w));
      }
    }
    result.nan_on_both += std::isnan(g) && std::isnan(w);
    if (Close(g, w, tolerance)) continue;
    if (result.mismatches++ == 0) {
      result.first = i;
      result.first_got = g;
      result.first_want = w;
    }
  }
  return result;
}

}  // namespace kiln::interp
