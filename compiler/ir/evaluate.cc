#include "compiler/ir/evaluate.h"

#include <algorithm>
#include <initializer_list>
#include <unordered_map>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/scalar.h"

namespace kiln::ir {
namespace {

absl::Status Undetermined(const Expr& e) {
  return absl::FailedPreconditionError(
      absl::StrCat("the value of '", ToString(e), "' is not known when the kernel is compiled"));
}

}  // namespace

class IntFunction::Builder {
 public:
  Builder(const std::vector<Expr>& variables, IntFunction* out)
      : variables_(variables), out_(out) {}

  // The step that computes `e`.
  absl::StatusOr<int> Add(const Expr& e) {
    const auto known = known_.find(e.get());
    if (known != known_.end()) return known->second;
    KILN_ASSIGN_OR_RETURN(Step step, StepOf(e));
    out_->steps_.push_back(step);
    return known_[e.get()] = static_cast<int>(out_->steps_.size()) - 1;
  }

 private:
  absl::StatusOr<Step> StepOf(const Expr& e) {
    if (e.dtype().is_float() || e.dtype().lanes != 1) return Undetermined(e);
    if (const auto* imm = e.As<IntImm>()) return Step{Kind::kConst, 0, e.dtype(), imm->value, {}};
    if (e.kind() == ExprKind::kVar) {
      const auto it = std::find_if(variables_.begin(), variables_.end(),
                                   [&](const Expr& v) { return v.same_as(e); });
      if (it == variables_.end()) return Undetermined(e);
      return Step{Kind::kArgument, 0, e.dtype(), it - variables_.begin(), {}};
    }
    if (const auto* x = e.As<Unary>()) {
      return Operation({Kind::kUnary, static_cast<uint8_t>(x->op), e.dtype(), 0, {}}, {&x->a});
    }
    if (const auto* x = e.As<Binary>()) {
      const auto op = static_cast<uint8_t>(x->op);
      return Operation({Kind::kBinary, op, x->a.dtype(), 0, {}}, {&x->a, &x->b});
    }
    if (const auto* x = e.As<Select>()) {
      return Operation({Kind::kSelect, 0, e.dtype(), 0, {}}, {&x->condition, &x->a, &x->b});
    }
    if (const auto* x = e.As<Cast>()) {
      return Operation({Kind::kCast, 0, e.dtype(), 0, {}}, {&x->a});
    }
    return Undetermined(e);
  }

  absl::StatusOr<Step> Operation(Step step, std::initializer_list<const Expr*> operands) {
    size_t n = 0;
    for (const Expr* operand : operands) {
      KILN_ASSIGN_OR_RETURN(step.operands[n++], Add(*operand));
    }
    return step;
  }

  const std::vector<Expr>& variables_;
  IntFunction* const out_;
  std::unordered_map<const ExprNode*, int> known_;
};

absl::StatusOr<IntFunction> IntFunction::Of(const Expr& e, const std::vector<Expr>& variables) {
  IntFunction function;
  KILN_RETURN_IF_ERROR(Builder(variables, &function).Add(e).status());
  return function;
}

std::optional<int64_t> IntFunction::operator()(absl::Span<const int64_t> values) const {
  if (steps_.size() == 1) {  // a variable or a constant, as most indices are
    return steps_[0].kind == Kind::kConst ? steps_[0].value : values[steps_[0].value];
  }
  absl::InlinedVector<int64_t, 32> results(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const int64_t a = results[step.operands[0]], b = results[step.operands[1]];
    switch (step.kind) {
      case Kind::kConst:
        results[i] = step.value;
        break;
      case Kind::kArgument:
        results[i] = values[step.value];
        break;
      case Kind::kUnary: {
        const auto op = static_cast<UnaryOp>(step.op);
        results[i] =
            op == UnaryOp::kNot ? a == 0 : WrapInt(op == UnaryOp::kNeg ? 0 - a : ~a, step.type);
        break;
      }
      case Kind::kBinary: {
        const auto result = EvalInt(static_cast<BinaryOp>(step.op), a, b, step.type);
        if (!result) return std::nullopt;
        results[i] = *result;
        break;
      }
      case Kind::kSelect:
        results[i] = a != 0 ? b : results[step.operands[2]];
        break;
      case Kind::kCast:
        results[i] = WrapInt(a, step.type);
        break;
    }
  }
  return results.back();
}

}  // namespace kiln::ir
