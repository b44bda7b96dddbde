#include "compiler/lang/check_within.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::lang {
namespace {

bool IsTile(const ir::BufferNode& buffer) {
  switch (buffer.scope) {
    case ir::Scope::kShared:
    case ir::Scope::kFragment:
    case ir::Scope::kLocal:
    case ir::Scope::kRegister:
      return true;
    default:
      return false;
  }
}

// Whether iterations of `body` may be left out by the body itself.
bool Leaves(const ir::Stmt& body) {
  bool found = false;
  ir::Walk(body, [&](const ir::Stmt& s) {
    found |= s.As<ir::Break>() != nullptr || s.As<ir::Continue>() != nullptr;
    return !found;
  });
  return found;
}

class Checker {
 public:
  explicit Checker(const ir::Program& program) : program_(program) {}

  // Visits what certainly runs, and nothing else.
  absl::Status Visit(const ir::Stmt& s) {
    if (const auto* seq = s.As<ir::Seq>()) return VisitSeq(*seq);
    if (const auto* loop = s.As<ir::For>()) return VisitLoop(*loop);
    if (const auto* launch = s.As<ir::Launch>()) {
      return AddAxes(launch->grid) ? Visit(launch->body) : absl::OkStatus();
    }
    if (const auto* store = s.As<ir::Store>()) return VisitStore(*store);
    if (const auto* branch = s.As<ir::If>()) return VisitLoads(branch->condition, s->loc);
    return absl::OkStatus();
  }

 private:
  absl::Status VisitSeq(const ir::Seq& seq) {
    for (const ir::Stmt& s : seq.stmts) {
      if (const auto* bind = s.As<ir::Bind>()) {
        KILN_RETURN_IF_ERROR(VisitLoads(bind->value, s->loc));
        facts_.SetValue(bind->var, bind->value);
        continue;
      }
      KILN_RETURN_IF_ERROR(Visit(s));
    }
    return absl::OkStatus();
  }

  absl::Status VisitLoop(const ir::For& loop) {
    const ir::Facts outside = facts_;
    const size_t axes = axes_.size();
    absl::Status status;
    if (loop.loop != ir::ForKind::kThreads && !Leaves(loop.body) && AddAxes(loop.axes)) {
      status = Visit(loop.body);
    }
    axes_.resize(axes);
    facts_ = outside;
    return status;
  }

  // False when an axis is not known to have iterations, or how many.
  bool AddAxes(const std::vector<ir::Axis>& axes) {
    for (const ir::Axis& axis : axes) {
      const auto extent = ir::ConstInt(axis.extent);
      if (!extent.has_value() || *extent < 1 || !ir::ConstInt(axis.min).has_value()) return false;
      facts_.AddAxis(axis);
      axes_.push_back(axis.var.get());
    }
    return true;
  }

  absl::Status VisitStore(const ir::Store& store) {
    KILN_RETURN_IF_ERROR(VisitLoads(store.value, store.loc));
    for (const ir::Expr& index : store.indices) {
      KILN_RETURN_IF_ERROR(VisitLoads(index, store.loc));
    }
    if (store.predicate.defined()) return absl::OkStatus();
    return CheckAccess(*store.buffer, store.indices, store.loc);
  }

  // The loads of an expression that are certainly made: those in a branch, or after the first
  // operand of `and` and `or`, may stand behind a test that keeps them inside.
  absl::Status VisitLoads(const ir::Expr& e, SourceLoc loc) {
    if (const auto* select = e.As<ir::Select>()) return VisitLoads(select->condition, loc);
    const auto* binary = e.As<ir::Binary>();
    if (binary != nullptr &&
        (binary->op == ir::BinaryOp::kAnd || binary->op == ir::BinaryOp::kOr)) {
      return VisitLoads(binary->a, loc);
    }
    absl::Status status;
    if (const auto* load = e.As<ir::Load>(); load != nullptr && !load->predicate.defined()) {
      status = CheckAccess(*load->buffer, load->indices, loc);
    }
    ir::Walk(e, [&](const ir::Expr& part) {
      if (part.same_as(e)) return true;
      if (status.ok()) status = VisitLoads(part, loc);
      return false;
    });
    return status;
  }

  absl::Status CheckAccess(const ir::BufferNode& buffer, const std::vector<ir::Expr>& indices,
                           SourceLoc loc) {
    if (!IsTile(buffer)) return absl::OkStatus();
    for (size_t d = 0; d < indices.size(); ++d) {
      const auto extent = ir::ConstInt(buffer.shape[d]);
      const std::optional<ir::Bounds> range = RangeOf(indices[d]);
      if (!extent.has_value() || !range.has_value()) continue;
      if (range->min >= 0 && range->max < *extent) continue;
      const int64_t outside = range->min < 0 ? range->min : range->max;
      return ir::ErrorAt(program_, loc,
                         absl::StrCat("access outside '", buffer.name, "': index ", outside,
                                      " of dimension ", d, ", whose extent is ", *extent),
                         "guard the access with an `if`, or make the loop's extent fit the buffer");
    }
    return absl::OkStatus();
  }

  // All values from min to max are reached at the ends: a sum of independent axes.
  std::optional<ir::Bounds> RangeOf(const ir::Expr& index) const {
    if (!index.dtype().is_scalar()) return std::nullopt;
    const ir::LinearForm form = facts_.Expand(index);
    for (const auto& [atom, coefficient] : form.terms) {
      if (std::find(axes_.begin(), axes_.end(), atom.get()) == axes_.end()) return std::nullopt;
    }
    return facts_.BoundsOf(form);
  }

  const ir::Program& program_;
  ir::Facts facts_;
  std::vector<const ir::ExprNode*> axes_;
};

}  // namespace

absl::Status CheckWithin(const ir::Program& program) {
  return Checker(program).Visit(program.body);
}

}  // namespace kiln::lang
