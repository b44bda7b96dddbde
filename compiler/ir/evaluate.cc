#include "compiler/ir/evaluate.h"

#include <algorithm>

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

absl::StatusOr<IntFunction> IntFunction::Of(const Expr& e, const std::vector<Expr>& variables) {
  IntFunction function;
  KILN_RETURN_IF_ERROR(function.Add(e, variables, 1));
  return function;
}

absl::Status IntFunction::Add(const Expr& e, const std::vector<Expr>& variables, int depth) {
  stack_ = std::max(stack_, depth);
  if (e.dtype().is_float() || e.dtype().lanes != 1) return Undetermined(e);
  if (const auto* imm = e.As<IntImm>()) {
    steps_.push_back({Kind::kConst, 0, e.dtype(), imm->value});
    return absl::OkStatus();
  }
  if (e.kind() == ExprKind::kVar) {
    const auto it = std::find_if(variables.begin(), variables.end(),
                                 [&](const Expr& v) { return v.same_as(e); });
    if (it == variables.end()) return Undetermined(e);
    steps_.push_back({Kind::kArgument, 0, e.dtype(), it - variables.begin()});
    return absl::OkStatus();
  }
  if (const auto* unary = e.As<Unary>()) {
    KILN_RETURN_IF_ERROR(Add(unary->a, variables, depth));
    steps_.push_back({Kind::kUnary, static_cast<uint8_t>(unary->op), e.dtype()});
    return absl::OkStatus();
  }
  if (const auto* binary = e.As<Binary>()) {
    KILN_RETURN_IF_ERROR(Add(binary->a, variables, depth));
    KILN_RETURN_IF_ERROR(Add(binary->b, variables, depth + 1));
    steps_.push_back({Kind::kBinary, static_cast<uint8_t>(binary->op), binary->a.dtype()});
    return absl::OkStatus();
  }
  if (const auto* select = e.As<Select>()) {
    KILN_RETURN_IF_ERROR(Add(select->condition, variables, depth));
    KILN_RETURN_IF_ERROR(Add(select->a, variables, depth + 1));
    KILN_RETURN_IF_ERROR(Add(select->b, variables, depth + 2));
    steps_.push_back({Kind::kSelect, 0, e.dtype()});
    return absl::OkStatus();
  }
  if (const auto* cast = e.As<Cast>()) {
    KILN_RETURN_IF_ERROR(Add(cast->a, variables, depth));
    steps_.push_back({Kind::kCast, 0, e.dtype()});
    return absl::OkStatus();
  }
  return Undetermined(e);
}

std::optional<int64_t> IntFunction::operator()(absl::Span<const int64_t> values) const {
  if (steps_.size() == 1) {  // a variable or a constant, as most indices are
    return steps_[0].kind == Kind::kConst ? steps_[0].value : values[steps_[0].value];
  }
  absl::InlinedVector<int64_t, 16> stack(stack_);
  size_t top = 0;  // one past the last operand
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Kind::kConst:
        stack[top++] = step.value;
        break;
      case Kind::kArgument:
        stack[top++] = values[step.value];
        break;
      case Kind::kUnary: {
        int64_t& a = stack[top - 1];
        const auto op = static_cast<UnaryOp>(step.op);
        a = op == UnaryOp::kNot ? a == 0 : WrapInt(op == UnaryOp::kNeg ? 0 - a : ~a, step.type);
        break;
      }
      case Kind::kBinary: {
        const auto result =
            EvalInt(static_cast<BinaryOp>(step.op), stack[top - 2], stack[top - 1], step.type);
        if (!result) return std::nullopt;
        stack[--top - 1] = *result;
        break;
      }
      case Kind::kSelect:
        stack[top - 3] = stack[top - 3] != 0 ? stack[top - 2] : stack[top - 1];
        top -= 2;
        break;
      case Kind::kCast:
        stack[top - 1] = WrapInt(stack[top - 1], step.type);
        break;
    }
  }
  return stack[0];
}

}  // namespace kiln::ir
