#include "compiler/passes/neighbours.h"

#include <numeric>

#include "compiler/ir/linear.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;

Expr CoarsePositive(const Expr& positive, const Expr& otherwise, int64_t lanes,
                    const ir::Facts& facts) {
  ir::LinearForm form = facts.Expand(positive);
  int64_t group = lanes;
  for (const auto& term : form.terms) group = std::gcd(group, term.second);
  if (group == 1) return otherwise;
  const int64_t least = form.constant - 1;
  form.constant = least - (least % group + group) % group + group;
  return ir::FromLinear(form, positive.dtype()) > MakeInt(0, positive.dtype());
}

}  // namespace

bool Follows(const std::vector<Expr>& first, const std::vector<Expr>& other, int64_t distance,
             const ir::Facts& facts) {
  for (size_t d = 0; d < first.size(); ++d) {
    const Expr gap = facts.Simplify(other[d] - first[d]);
    if (!ir::IsConst(gap, d + 1 == first.size() ? distance : 0)) return false;
  }
  return true;
}

bool LiesAt(const ir::Buffer& buffer, const std::vector<Expr>& indices, int64_t elements,
            const ir::Facts& facts) {
  if (buffer->table && elements * buffer->dtype.bytes() > buffer->alignment) return elements == 1;
  for (size_t d = buffer->table ? 1 : 0; d < indices.size(); ++d) {
    Expr place = indices[d];
    for (size_t i = d + 1; i < indices.size() && buffer->strides.empty(); ++i) {
      place = place * buffer->shape[i];
    }
    if (!buffer->strides.empty()) place = place * buffer->strides[d];
    if (!facts.Divides(elements, place)) return false;
  }
  return buffer->strides.empty() || ir::IsConst(buffer->strides.back(), 1);
}

ir::Region RunFrom(const ir::Buffer& buffer, const std::vector<Expr>& indices, size_t width) {
  ir::Region region{buffer, {}};
  for (const Expr& index : indices) region.ranges.push_back({index, MakeInt(1)});
  region.ranges.back().extent = MakeInt(static_cast<int64_t>(width));
  return region;
}

Expr CoarseGuard(const Expr& guard, int64_t lanes, const ir::Facts& facts) {
  const auto* b = guard.As<ir::Binary>();
  if (b != nullptr && b->op == ir::BinaryOp::kAnd) {
    return ir::MakeBinary(ir::BinaryOp::kAnd, CoarseGuard(b->a, lanes, facts),
                          CoarseGuard(b->b, lanes, facts));
  }
  const Expr positive = ir::PositiveForm(guard);
  return positive.defined() ? CoarsePositive(positive, guard, lanes, facts) : guard;
}

}  // namespace kiln::passes
