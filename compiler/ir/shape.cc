#include "compiler/ir/shape.h"

namespace kiln::ir {
namespace {

bool IsUnit(const Range& range) { return IsConst(range.extent, 1); }

bool Differ(const Expr& a, const Expr& b) {
  const std::optional<int64_t> x = ConstInt(a), y = ConstInt(b);
  return x && y && *x != *y;
}

// Pairs the dimensions of `from` listed in `dims` with the non-unit ones of `to`.
std::optional<std::vector<int>> PairListed(const Region& from, const std::vector<int>& dims,
                                           const Region& to) {
  const std::vector<int> others = NonUnitDims(to);
  if (dims.size() != others.size()) return std::nullopt;
  std::vector<int> result(from.ranges.size(), -1);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (Differ(from.ranges[dims[i]].extent, to.ranges[others[i]].extent)) return std::nullopt;
    result[dims[i]] = others[i];
  }
  return result;
}

}  // namespace

std::vector<int> NonUnitDims(const Region& region) {
  std::vector<int> dims;
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    if (!IsUnit(region.ranges[d])) dims.push_back(static_cast<int>(d));
  }
  return dims;
}

bool CoversWhole(const Region& region) {
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    const Range& range = region.ranges[d];
    if (!IsConst(range.min, 0) || !Same(range.extent, region.buffer->shape[d])) return false;
  }
  return true;
}

std::optional<std::pair<int, int>> MatrixDims(const Region& region) {
  const int rank = static_cast<int>(region.ranges.size());
  if (rank < 2) return std::nullopt;
  for (int d = 0; d < rank - 2; ++d) {
    if (!IsUnit(region.ranges[d])) return std::nullopt;
  }
  return std::make_pair(rank - 2, rank - 1);
}

std::optional<std::vector<int>> PairDims(const Region& from, const Region& to) {
  const size_t rank = from.ranges.size();
  if (rank == to.ranges.size()) {
    bool in_order = true;
    for (size_t d = 0; d < rank && in_order; ++d) {
      in_order = !Differ(from.ranges[d].extent, to.ranges[d].extent);
    }
    if (in_order) {
      std::vector<int> result(rank);
      for (size_t d = 0; d < rank; ++d) result[d] = static_cast<int>(d);
      return result;
    }
  }
  return PairListed(from, NonUnitDims(from), to);
}

std::optional<std::vector<int>> ReduceDims(const Region& src, const Region& dst, int dim) {
  const int rank = static_cast<int>(src.ranges.size());
  if (dim < 0 || dim >= rank) return std::nullopt;
  Region rest{src.buffer, {}};
  std::vector<int> origin;
  for (int d = 0; d < rank; ++d) {
    if (d == dim) continue;
    rest.ranges.push_back(src.ranges[d]);
    origin.push_back(d);
  }
  std::optional<std::vector<int>> pairs = PairDims(dst, rest);
  if (!pairs) return std::nullopt;
  for (int& pair : *pairs) {
    if (pair >= 0) pair = origin[pair];
  }
  return pairs;
}

bool IsSize(const Expr& extent, const Expr& dim) {
  if (extent.same_as(dim)) return true;
  const auto* product = extent.As<Binary>();
  if (product == nullptr || product->op != BinaryOp::kMul) return false;
  const auto* quotient = product->a.As<Binary>();
  return quotient != nullptr && quotient->op == BinaryOp::kFloorDiv && quotient->a.same_as(dim) &&
         ConstInt(quotient->b).has_value() && ConstInt(quotient->b) == ConstInt(product->b);
}

std::optional<int64_t> BytesOf(const Buffer& buffer) {
  int64_t bytes = buffer->dtype.bytes();
  for (const Expr& extent : buffer->shape) {
    const auto n = ConstInt(extent);
    if (!n.has_value()) return std::nullopt;
    bytes *= *n;
  }
  return bytes / buffer->blocks;
}

int64_t RegistersOf(const Buffer& buffer) {
  const bool row = buffer->scope == Scope::kRegister;
  if (!row && buffer->scope != Scope::kLocal && buffer->scope != Scope::kVar) return 0;
  int64_t elements = 1;
  for (size_t d = row ? 1 : 0; d < buffer->shape.size(); ++d) {
    elements *= ConstInt(buffer->shape[d]).value_or(1);
  }
  return (elements * buffer->dtype.bits + 31) / 32;
}

std::optional<int64_t> ThreadsOf(const Launch& launch) {
  int64_t threads = 1;
  for (const Expr& t : launch.threads) {
    const std::optional<int64_t> extent = ConstInt(t);
    if (!extent || __builtin_mul_overflow(threads, *extent, &threads)) return std::nullopt;
  }
  return threads;
}

}  // namespace kiln::ir
