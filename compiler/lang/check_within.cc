#include "compiler/lang/check_within.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/evaluate.h"
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

constexpr int64_t kMostPoints = int64_t{1} << 12;  // of a loop, to be looked at one by one

// Values that a loop's axis takes. One that is chosen takes each of them on the way to where the
// checker is; of any other, nobody knows for which of them the branch around is taken.
struct Values {
  ir::Expr var;
  int64_t min = 0, max = 0;
  bool chosen = true;
};

// Whether a condition holds somewhere.
enum class Holds : uint8_t {
  kNowhere,
  kThere,  // for exactly the values that are left to the axes
  kUnknown,
};

__int128 FloorDiv(__int128 a, __int128 b) {
  const __int128 q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

ir::BinaryOp Negated(ir::BinaryOp op) {
  switch (op) {
    case ir::BinaryOp::kLt:
      return ir::BinaryOp::kGe;
    case ir::BinaryOp::kLe:
      return ir::BinaryOp::kGt;
    case ir::BinaryOp::kGt:
      return ir::BinaryOp::kLe;
    case ir::BinaryOp::kGe:
      return ir::BinaryOp::kLt;
    case ir::BinaryOp::kEq:
      return ir::BinaryOp::kNe;
    default:
      return ir::BinaryOp::kEq;
  }
}

bool IsComparison(ir::BinaryOp op) {
  return op == ir::BinaryOp::kLt || op == ir::BinaryOp::kLe || op == ir::BinaryOp::kGt ||
         op == ir::BinaryOp::kGe || op == ir::BinaryOp::kEq || op == ir::BinaryOp::kNe;
}

bool IsIndex(const ir::Expr& e) { return e.dtype() == kInt32 || e.dtype() == kInt64; }

class Checker {
 public:
  explicit Checker(const ir::Program& program) : program_(program) {}

  // Visits what certainly runs, and nothing else.
  absl::Status Visit(const ir::Stmt& s) {
    switch (s.kind()) {
      case ir::StmtKind::kSeq:
        return VisitSeq(*s.As<ir::Seq>());
      case ir::StmtKind::kFor:
        return VisitLoop(*s.As<ir::For>());
      case ir::StmtKind::kLaunch:
        return AddAxes(s.As<ir::Launch>()->grid) ? Visit(s.As<ir::Launch>()->body)
                                                 : absl::OkStatus();
      case ir::StmtKind::kOnThreads:
        return Visit(s.As<ir::OnThreads>()->body);
      case ir::StmtKind::kStore:
        return VisitStore(*s.As<ir::Store>());
      case ir::StmtKind::kAtomic:
        return VisitAtomic(s);
      case ir::StmtKind::kIf: {
        const auto& branch = *s.As<ir::If>();
        KILN_RETURN_IF_ERROR(VisitLoads(branch.condition, s->loc));
        return VisitEither(
            branch.condition, [&] { return Visit(branch.then_case); },
            branch.else_case.defined() ? Visitor([&] { return Visit(branch.else_case); })
                                       : Visitor());
      }
      case ir::StmtKind::kWhile:  // its condition once at least
        return VisitLoads(s.As<ir::While>()->condition, s->loc);
      case ir::StmtKind::kAlloc:
        return s.As<ir::Alloc>()->init.defined() ? VisitLoads(s.As<ir::Alloc>()->init, s->loc)
                                                 : absl::OkStatus();
      case ir::StmtKind::kCopy:
        KILN_RETURN_IF_ERROR(CheckWidths(s.As<ir::Copy>()->src, s->loc));
        KILN_RETURN_IF_ERROR(CheckWidths(s.As<ir::Copy>()->dst, s->loc));
        return VisitOperands(s);
      case ir::StmtKind::kFill:
        KILN_RETURN_IF_ERROR(CheckWidths(s.As<ir::Fill>()->dst, s->loc));
        return VisitOperands(s);
      case ir::StmtKind::kAssert:
      case ir::StmtKind::kPrint:
        return VisitOperands(s);
      default:
        return absl::OkStatus();
    }
  }

 private:
  using Visitor = std::function<absl::Status()>;

  absl::Status VisitSeq(const ir::Seq& seq) {
    for (const ir::Stmt& s : seq.stmts) {
      if (const auto* bind = s.As<ir::Bind>()) {
        KILN_RETURN_IF_ERROR(VisitLoads(bind->value, s->loc));
        facts_.SetValue(bind->var, bind->value);
        binds_[bind->var.get()] = Closed(bind->value);
        continue;
      }
      KILN_RETURN_IF_ERROR(Visit(s));
    }
    return absl::OkStatus();
  }

  absl::Status VisitLoop(const ir::For& loop) {
    if (ir::HasJump(loop.body)) return absl::OkStatus();
    const ir::Facts known = facts_;
    const std::vector<Values> outside = axes_;
    absl::Status status;
    if (AddAxes(loop.axes)) status = Visit(loop.body);
    facts_ = known;
    axes_ = outside;
    return status;
  }

  // False when an axis is not known to have iterations, or how many.
  bool AddAxes(const std::vector<ir::Axis>& axes) {
    for (const ir::Axis& axis : axes) {
      const auto extent = ir::ConstInt(axis.extent), min = ir::ConstInt(axis.min);
      int64_t end = 0;
      if (!extent.has_value() || *extent < 1 || !min.has_value() ||
          __builtin_add_overflow(*min, *extent, &end)) {
        return false;
      }
      facts_.AddAxis(axis);
      axes_.push_back({axis.var, *min, end - 1, true});
    }
    return true;
  }

  // Both ways of a condition: one that is taken for some of the axes' values, or both where each
  // goes wrong whatever takes it there. `otherwise` may be empty.
  absl::Status VisitEither(const ir::Expr& condition, const Visitor& then,
                           const Visitor& otherwise) {
    const std::vector<Values> outside = axes_;
    const auto under = [&](const std::vector<Values>& axes, const Visitor& visit) {
      if (!visit) return absl::OkStatus();
      axes_ = axes;
      absl::Status status = visit();
      axes_ = outside;
      return status;
    };
    const Holds where = Narrow(condition, true);
    const std::vector<Values> inside = axes_;
    axes_ = outside;
    const Holds elsewhere = Narrow(condition, false);
    const std::vector<Values> beside = axes_;
    axes_ = outside;
    if (where == Holds::kNowhere) return under(outside, otherwise);
    if (elsewhere == Holds::kNowhere) return under(outside, then);
    if (where == Holds::kThere) KILN_RETURN_IF_ERROR(under(inside, then));
    if (elsewhere == Holds::kThere) return under(beside, otherwise);
    if (where == Holds::kUnknown && elsewhere == Holds::kUnknown && IsOfAxes(condition)) {
      KILN_RETURN_IF_ERROR(WhereHolds(condition, true, then));
      return otherwise ? WhereHolds(condition, false, otherwise) : absl::OkStatus();
    }
    if (where == Holds::kThere || !otherwise) return absl::OkStatus();
    std::vector<Values> either = outside;
    for (Values& values : either) values.chosen = false;
    absl::Status status = under(either, then);
    return status.ok() || under(either, otherwise).ok() ? absl::OkStatus() : status;
  }

  // What is done for those values of the axes for which a condition of several of them holds.
  absl::Status WhereHolds(const ir::Expr& condition, bool holds, const Visitor& visit) {
    unsolved_.push_back(holds ? condition
                              : ir::MakeUnary(ir::UnaryOp::kNot, ir::MakeCast(kBool, condition)));
    absl::Status status = visit();
    unsolved_.pop_back();
    return status;
  }

  // Leaves to the axes the values for which the condition is `holds`.
  Holds Narrow(const ir::Expr& condition, bool holds) {
    if (const auto constant = ir::ConstInt(condition)) {
      return (*constant != 0) == holds ? Holds::kThere : Holds::kNowhere;
    }
    if (const auto* unary = condition.As<ir::Unary>()) {
      return unary->op == ir::UnaryOp::kNot ? Narrow(unary->a, !holds) : Holds::kUnknown;
    }
    const auto* binary = condition.As<ir::Binary>();
    if (binary == nullptr) return Holds::kUnknown;
    if (binary->op == (holds ? ir::BinaryOp::kAnd : ir::BinaryOp::kOr)) {
      const Holds a = Narrow(binary->a, holds);
      if (a == Holds::kNowhere) return a;
      const Holds b = Narrow(binary->b, holds);
      return b == Holds::kNowhere || a == Holds::kThere ? b : a;
    }
    if (!IsComparison(binary->op) || !IsIndex(binary->a) || !IsIndex(binary->b)) {
      return Holds::kUnknown;
    }
    const ir::LinearForm form = facts_.Expand(binary->a - binary->b);
    return NarrowTo(form, holds ? binary->op : Negated(binary->op));
  }

  // As Narrow, of `form op 0`.
  Holds NarrowTo(const ir::LinearForm& form, ir::BinaryOp op) {
    if (op == ir::BinaryOp::kGt || op == ir::BinaryOp::kGe) {
      ir::LinearForm minus = form;
      if (__builtin_sub_overflow(0, form.constant, &minus.constant)) return Holds::kUnknown;
      for (auto& term : minus.terms) {
        if (__builtin_sub_overflow(0, term.second, &term.second)) return Holds::kUnknown;
      }
      return NarrowTo(minus, op == ir::BinaryOp::kGt ? ir::BinaryOp::kLt : ir::BinaryOp::kLe);
    }
    __int128 least = form.constant, most = form.constant;
    for (const auto& [atom, factor] : form.terms) {
      const Values* values = Find(atom);
      if (values == nullptr) return Holds::kUnknown;
      const __int128 first = static_cast<__int128>(values->min) * factor;
      const __int128 last = static_cast<__int128>(values->max) * factor;
      least += std::min(first, last);
      most += std::max(first, last);
    }
    const bool equal = op == ir::BinaryOp::kEq, unequal = op == ir::BinaryOp::kNe;
    const int below = op == ir::BinaryOp::kLt ? -1 : 0;  // form <= below, of the other two
    if (equal || unequal) {
      if (least > 0 || most < 0) return equal ? Holds::kNowhere : Holds::kThere;
      if (least == 0 && most == 0) return equal ? Holds::kThere : Holds::kNowhere;
    } else if (most <= below || least > below) {
      return most <= below ? Holds::kThere : Holds::kNowhere;
    }
    if (form.terms.size() != 1) return Holds::kUnknown;
    Values& values = *Find(form.terms[0].first);
    const __int128 factor = form.terms[0].second, constant = form.constant;
    if (equal || unequal) {
      if (-constant % factor != 0) return equal ? Holds::kNowhere : Holds::kThere;
      if (!values.chosen) return Holds::kUnknown;
      const auto at = static_cast<int64_t>(-constant / factor);  // between min and max
      if (equal) {
        values.min = values.max = at;
      } else if (at == values.min) {
        ++values.min;
      } else if (at == values.max) {
        --values.max;
      } else {
        return Holds::kUnknown;
      }
      return Holds::kThere;
    }
    if (!values.chosen) return Holds::kUnknown;
    // It holds for some of the values, but not for all: the bound is one of them.
    const __int128 room = below - constant;
    if (factor > 0) {
      values.max = static_cast<int64_t>(FloorDiv(room, factor));
    } else {
      values.min = static_cast<int64_t>(-FloorDiv(room, -factor));
    }
    return Holds::kThere;
  }

  absl::Status VisitStore(const ir::Store& store) {
    KILN_RETURN_IF_ERROR(VisitLoads(store.value, store.loc));
    for (const ir::Expr& index : store.indices) {
      KILN_RETURN_IF_ERROR(VisitLoads(index, store.loc));
    }
    if (store.predicate.defined()) return absl::OkStatus();
    return CheckAccess(*store.buffer, store.indices, store.loc);
  }

  // Of an element; one of a tile updates the elements that are there.
  absl::Status VisitAtomic(const ir::Stmt& s) {
    const auto& atomic = *s.As<ir::Atomic>();
    KILN_RETURN_IF_ERROR(VisitOperands(s));
    if (!atomic.value.defined()) return absl::OkStatus();
    std::vector<ir::Expr> indices;
    for (const ir::Range& range : atomic.dst.ranges) indices.push_back(range.min);
    return CheckAccess(*atomic.dst.buffer, indices, atomic.loc);
  }

  // The expressions of a statement that holds no others.
  absl::Status VisitOperands(const ir::Stmt& s) {
    absl::Status status;
    ir::Walk(
        s, [](const ir::Stmt&) { return true; },
        [&](const ir::Expr& e) {
          if (status.ok()) status = VisitLoads(e, s->loc);
          return false;
        });
    return status;
  }

  // The loads of an expression that are certainly made: those in a branch, or after the first
  // operand of `and` and `or`, may stand behind a test that keeps them inside.
  absl::Status VisitLoads(const ir::Expr& e, SourceLoc loc) {
    if (const auto* select = e.As<ir::Select>()) {
      KILN_RETURN_IF_ERROR(VisitLoads(select->condition, loc));
      return VisitEither(
          select->condition, [&] { return VisitLoads(select->a, loc); },
          [&] { return VisitLoads(select->b, loc); });
    }
    const auto* binary = e.As<ir::Binary>();
    if (binary != nullptr &&
        (binary->op == ir::BinaryOp::kAnd || binary->op == ir::BinaryOp::kOr)) {
      KILN_RETURN_IF_ERROR(VisitLoads(binary->a, loc));
      const Visitor second = [&] { return VisitLoads(binary->b, loc); };
      const bool both = binary->op == ir::BinaryOp::kAnd;
      const Visitor nothing = [] { return absl::OkStatus(); };
      return VisitEither(binary->a, both ? second : nothing, both ? Visitor() : second);
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
    if (!IsTile(buffer)) {
      for (size_t d = 0; d < indices.size(); ++d) {
        KILN_RETURN_IF_ERROR(CheckWidth(buffer, d, indices[d], 1, loc));
      }
      return absl::OkStatus();
    }
    for (size_t d = 0; d < indices.size(); ++d) {
      const auto extent = ir::ConstInt(buffer.shape[d]);
      if (!extent.has_value()) continue;
      std::optional<ir::Bounds> range;
      if (unsolved_.empty()) range = ReachOf(indices[d]);
      if (!range.has_value()) range = FoundIn(indices[d]);
      if (!range.has_value()) continue;
      if (range->min >= 0 && range->max < *extent) continue;
      const int64_t outside = range->min < 0 ? range->min : range->max;
      return ir::ErrorAt(program_, loc,
                         absl::StrCat("access outside '", buffer.name, "': index ", outside,
                                      " of dimension ", d, ", whose extent is ", *extent),
                         "guard the access with an `if`, or make the loop's extent fit the buffer");
    }
    return absl::OkStatus();
  }

  // That 32 bits hold an index, where the tensor has elements beyond. The last blocks would come to
  // the first elements again, or to memory of somebody else.
  absl::Status CheckWidth(const ir::BufferNode& buffer, size_t d, const ir::Expr& first,
                          int64_t count, SourceLoc loc) {
    const int64_t extent = ir::ConstInt(buffer.shape[d]).value_or(0);
    if (extent - 1 <= INT32_MAX || first.dtype() != kInt32 || !unsolved_.empty()) {
      return absl::OkStatus();
    }
    const std::optional<ir::Bounds> range = ReachOf(first);
    const int64_t last = range.has_value() ? range->max + (count - 1) : 0;
    if (last <= INT32_MAX) return absl::OkStatus();
    return ir::ErrorAt(program_, loc,
                       absl::StrCat("an index of '", buffer.name, "' goes up to ", last,
                                    " and is computed in 32 bits, which end at ", INT32_MAX),
                       "let one of its factors have 64 bits: T.cast(bx, \"int64\") * block");
  }

  absl::Status CheckWidths(const ir::Region& region, SourceLoc loc) {
    if (IsTile(*region.buffer)) return absl::OkStatus();
    for (size_t d = 0; d < region.ranges.size(); ++d) {
      const ir::Range& range = region.ranges[d];
      const int64_t count =
          std::clamp<int64_t>(ir::ConstInt(range.extent).value_or(1), 1, INT32_MAX);
      KILN_RETURN_IF_ERROR(CheckWidth(*region.buffer, d, range.min, count, loc));
    }
    return absl::OkStatus();
  }

  // A sum of independent axes: values that it comes down to and up to, whatever those axes are that
  // are not chosen. Both are reached, or gone beyond.
  std::optional<ir::Bounds> ReachOf(const ir::Expr& index) const {
    if (!index.dtype().is_scalar()) return std::nullopt;
    const ir::LinearForm form = facts_.Expand(index);
    __int128 min = form.constant, max = form.constant;
    for (const auto& [atom, factor] : form.terms) {
      const Values* values = Find(atom);
      if (values == nullptr) return std::nullopt;
      __int128 first = static_cast<__int128>(values->min) * factor;
      __int128 last = static_cast<__int128>(values->max) * factor;
      if ((first > last) == values->chosen) std::swap(first, last);
      min += first;
      max += last;
    }
    if (min < INT64_MIN || min > INT64_MAX || max < INT64_MIN || max > INT64_MAX) {
      return std::nullopt;
    }
    return ir::Bounds{static_cast<int64_t>(min), static_cast<int64_t>(max)};
  }

  // The least and the most of an index over all values of the axes that it and the conditions
  // around it are of, one by one; nullopt where they are too many, or not of axes alone.
  std::optional<ir::Bounds> FoundIn(const ir::Expr& index) const {
    std::vector<ir::Expr> closed = {Closed(index)};
    for (const ir::Expr& condition : unsolved_) closed.push_back(Closed(condition));
    std::vector<ir::Expr> variables;
    std::vector<int64_t> mins, extents;
    __int128 points = 1;
    for (const Values& values : axes_) {
      const bool used = std::any_of(closed.begin(), closed.end(),
                                    [&](const ir::Expr& e) { return ir::Uses(e, values.var); });
      if (!used) continue;
      if (!values.chosen || values.max < values.min) return std::nullopt;
      points *= static_cast<__int128>(values.max) - values.min + 1;
      if (points > kMostPoints) return std::nullopt;
      variables.push_back(values.var);
      mins.push_back(values.min);
      extents.push_back(values.max - values.min + 1);
    }
    std::vector<std::vector<int64_t>> found;
    for (const ir::Expr& e : closed) {
      const auto function = ir::IntFunction::Of(e, variables);
      auto all = function.ok() ? function->Over(mins, extents) : std::nullopt;
      if (!all) return std::nullopt;
      found.push_back(*std::move(all));
    }
    std::optional<ir::Bounds> range;
    for (size_t p = 0; p < found[0].size(); ++p) {
      bool made = true;
      for (size_t c = 1; c < found.size(); ++c) made = made && found[c][p] != 0;
      if (!made) continue;
      const int64_t at = found[0][p];
      range = range ? ir::Bounds{std::min(range->min, at), std::max(range->max, at)}
                    : ir::Bounds{at, at};
    }
    return range;
  }

  bool IsOfAxes(const ir::Expr& condition) const {
    std::vector<ir::Expr> variables;
    for (const Values& values : axes_) variables.push_back(values.var);
    return ir::IntFunction::Of(Closed(condition), variables).ok() && FoundIn(condition).has_value();
  }

  ir::Expr Closed(const ir::Expr& e) const { return ir::Substitute(e, binds_); }

  Values* Find(const ir::Expr& axis) {
    for (size_t i = axes_.size(); i-- > 0;) {
      if (axes_[i].var.same_as(axis)) return &axes_[i];
    }
    return nullptr;
  }
  const Values* Find(const ir::Expr& axis) const { return const_cast<Checker*>(this)->Find(axis); }

  const ir::Program& program_;
  ir::Facts facts_;
  ir::VarMap binds_;  // closed
  std::vector<Values> axes_;
  std::vector<ir::Expr> unsolved_;  // conditions of several axes, which hold here
};

}  // namespace

absl::Status CheckWithin(const ir::Program& program) {
  return Checker(program).Visit(program.body);
}

}  // namespace kiln::lang
