#include "compiler/ir/overlap.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/diagnostic.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

// How far apart two expressions are, where that is a number.
std::optional<int64_t> Distance(const Expr& a, const Expr& b) {
  const LinearForm difference = Linearize(a - b);
  if (!difference.terms.empty()) return std::nullopt;
  return difference.constant;
}

// Whether no element is in both, or each lies in its own place of the other.
bool MayOverlap(const Region& a, const Region& b) {
  bool same = true;
  for (size_t d = 0; d < a.ranges.size(); ++d) {
    const std::optional<int64_t> distance = Distance(a.ranges[d].min, b.ranges[d].min);
    const std::optional<int64_t> extent_a = ConstInt(a.ranges[d].extent),
                                 extent_b = ConstInt(b.ranges[d].extent);
    if (distance && *distance >= 0 && extent_b && *distance >= *extent_b) return false;
    if (distance && *distance <= 0 && extent_a && -*distance >= *extent_a) return false;
    same &= distance == 0 && Same(a.ranges[d].extent, b.ranges[d].extent);
  }
  return !same;
}

bool KnownBefore(const Expr& e, const std::vector<Expr>& open) {
  bool known = true;
  Walk(e, [&](const Expr& x) {
    const bool is_open =
        std::any_of(open.begin(), open.end(), [&](const Expr& var) { return var.same_as(x); });
    known &= is_open || (x.As<Var>() == nullptr && x.As<Load>() == nullptr);
    return known;
  });
  return known;
}

}  // namespace

absl::StatusOr<Stmt> StageOverlaps(const Stmt& body, const std::vector<Expr>& open,
                                   const SourceFile& source) {
  absl::Status status;
  Stmt out = RewriteStmts(body, [&](const Stmt& s) -> Stmt {
    const auto* copy = s.As<Copy>();
    if (copy == nullptr || copy->src.buffer != copy->dst.buffer) return {};
    if (!MayOverlap(copy->src, copy->dst)) return {};
    std::vector<Expr> shape;
    for (const Range& range : copy->src.ranges) {
      if (!KnownBefore(range.extent, open)) {
        status.Update(ErrorAt(
            source, s->loc,
            absl::StrCat("a copy between regions of '", copy->src.buffer->name,
                         "' that may overlap, of an extent that is not known before it runs"),
            "copy by way of a tile of your own", absl::StatusCode::kUnimplemented));
        return {};
      }
      shape.push_back(range.extent);
    }
    const Buffer held = MakeBuffer(absl::StrCat(copy->src.buffer->name, ".copy"),
                                   copy->src.buffer->dtype, std::move(shape), Scope::kFragment);
    return MakeSeq({MakeStmt<Alloc>(s->loc, held),
                    MakeStmt<Copy>(s->loc, copy->src, WholeBuffer(held), copy->annotations),
                    MakeStmt<Copy>(s->loc, WholeBuffer(held), copy->dst, copy->annotations)},
                   s->loc);
  });
  KILN_RETURN_IF_ERROR(status);
  return out;
}

}  // namespace kiln::ir
