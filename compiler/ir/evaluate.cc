#include "compiler/ir/evaluate.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <unordered_map>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/buffer.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/scalar.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

// Above so many nodes nobody reads an expression. What names stood for is written out in it, each
// time again, so that its text may be exponential in what the kernel says.
constexpr int kMostNodes = 200;

absl::Status Undetermined(const Expr& e) {
  int nodes = 0;
  Walk(e, [&](const Expr&) { return ++nodes <= kMostNodes; });
  const std::string what =
      nodes > kMostNodes ? "an expression" : absl::StrCat("'", ToString(e), "'");
  return absl::FailedPreconditionError(
      absl::StrCat("the value of ", what, " is not known when the kernel is compiled"));
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
    const auto* x = e.As<Load>();
    const bool looks_up = x != nullptr && x->buffer->values != nullptr && !x->predicate.defined();
    return looks_up ? Entry(*x) : Undetermined(e);
  }

  absl::StatusOr<Step> Entry(const Load& e) {
    Expr flat = e.indices[0];
    for (size_t d = 1; d < e.indices.size(); ++d) {
      const Expr &index = e.indices[d], &extent = e.buffer->shape[d];
      const Expr next = flat * extent + index;
      flat = MakeSelect(index >= Expr(0) && index < extent, next, MakeInt(-1, next.dtype()));
    }
    made_.push_back(flat);
    out_->tables_.push_back(e.buffer->values);
    const auto table = static_cast<int64_t>(out_->tables_.size()) - 1;
    return Operation({Kind::kEntry, 0, e.dtype, table, {}}, {&flat});
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
  std::vector<Expr> made_;  // here, and known by their nodes
};

absl::StatusOr<IntFunction> IntFunction::Of(const Expr& e, const std::vector<Expr>& variables) {
  IntFunction function;
  KILN_RETURN_IF_ERROR(Builder(variables, &function).Add(e).status());
  return function;
}

int64_t IntFunction::Apply(const Step& unary, int64_t a) {
  const auto op = static_cast<UnaryOp>(unary.op);
  return op == UnaryOp::kNot ? a == 0 : WrapInt(op == UnaryOp::kNeg ? 0 - a : ~a, unary.type);
}

std::optional<int64_t> IntFunction::EntryOf(const Step& entry, int64_t index) const {
  const std::vector<int64_t>& table = *tables_[static_cast<size_t>(entry.value)];
  if (index < 0 || index >= static_cast<int64_t>(table.size())) return std::nullopt;
  return table[static_cast<size_t>(index)];
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
      case Kind::kUnary:
        results[i] = Apply(step, a);
        break;
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
      case Kind::kEntry: {
        const auto result = EntryOf(step, a);
        if (!result) return std::nullopt;
        results[i] = *result;
        break;
      }
    }
  }
  return results.back();
}

namespace {

// out[i] = op(a[i], b[i]) wherever every point has a value.
bool EvalColumn(BinaryOp op, const int64_t* a, const int64_t* b, size_t n, DType type,
                int64_t* out) {
  const auto each = [&](auto of) {
    for (size_t i = 0; i < n; ++i) out[i] = of(a[i], b[i]);
    return true;
  };
  const bool index = type.code == TypeCode::kInt && type.bits == 32;
  const auto wrap = [](uint64_t x) { return int64_t{static_cast<int32_t>(x)}; };
  const auto u = [](int64_t x) { return static_cast<uint64_t>(x); };
  // Powers of two, by far the most common divisors; the same at all points where they are constant.
  const int64_t divisor = b[0];
  const bool shifts = type.code == TypeCode::kInt && divisor > 0 &&
                      (divisor & (divisor - 1)) == 0 &&
                      std::all_of(b, b + n, [&](int64_t x) { return x == divisor; });
  if (op == BinaryOp::kAdd && index) return each([&](auto x, auto y) { return wrap(u(x) + u(y)); });
  if (op == BinaryOp::kSub && index) return each([&](auto x, auto y) { return wrap(u(x) - u(y)); });
  if (op == BinaryOp::kMul && index) return each([&](auto x, auto y) { return wrap(u(x) * u(y)); });
  if (op == BinaryOp::kFloorDiv && shifts) {
    const int shift = __builtin_ctzll(u(divisor));
    return each([&](auto x, auto) { return x >> shift; });
  }
  if (op == BinaryOp::kFloorMod && shifts) {
    return each([&](auto x, auto) { return x & (divisor - 1); });
  }
  if (op == BinaryOp::kBitXor) return each([](auto x, auto y) { return x ^ y; });
  for (size_t i = 0; i < n; ++i) {
    const auto result = EvalInt(op, a[i], b[i], type);
    if (!result) return false;
    out[i] = *result;
  }
  return true;
}

}  // namespace

// The results of all steps at some points at once.
class IntFunction::Columns {
 public:
  static constexpr size_t kPoints = 256;

  Columns(const IntFunction& function, size_t arguments)
      : function_(function),
        steps_(function.steps_),
        arguments_(arguments * kPoints),
        results_(steps_.size() * kPoints) {
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (steps_[s].kind != Kind::kConst) continue;
      std::fill_n(results_.begin() + static_cast<int64_t>(s * kPoints), kPoints, steps_[s].value);
    }
  }

  int64_t* argument(size_t i) { return &arguments_[i * kPoints]; }
  const int64_t* value() const { return &results_[results_.size() - kPoints]; }

  // Of the first n points; false where one has no value.
  bool Run(size_t n) {
    for (size_t s = 0; s < steps_.size(); ++s) {
      const Step& step = steps_[s];
      int64_t* const out = &results_[s * kPoints];
      const auto operand = [&](size_t i) { return &results_[step.operands[i] * kPoints]; };
      const auto each = [&](auto of) {
        for (size_t i = 0; i < n; ++i) out[i] = of(i);
      };
      switch (step.kind) {
        case Kind::kConst:
          break;  // is there since the beginning
        case Kind::kArgument:
          std::copy(argument(step.value), argument(step.value) + n, out);
          break;
        case Kind::kUnary:
          each([&](size_t i) { return Apply(step, operand(0)[i]); });
          break;
        case Kind::kBinary:
          if (!EvalColumn(static_cast<BinaryOp>(step.op), operand(0), operand(1), n, step.type,
                          out)) {
            return false;
          }
          break;
        case Kind::kSelect:
          each([&](size_t i) { return operand(0)[i] != 0 ? operand(1)[i] : operand(2)[i]; });
          break;
        case Kind::kCast:
          each([&](size_t i) { return WrapInt(operand(0)[i], step.type); });
          break;
        case Kind::kEntry:
          for (size_t i = 0; i < n; ++i) {
            const auto entry = function_.EntryOf(step, operand(0)[i]);
            if (!entry) return false;
            out[i] = *entry;
          }
          break;
      }
    }
    return true;
  }

 private:
  const IntFunction& function_;
  const std::vector<Step>& steps_;
  std::vector<int64_t> arguments_, results_;
};

std::optional<std::vector<int64_t>> IntFunction::Over(absl::Span<const int64_t> mins,
                                                      absl::Span<const int64_t> extents) const {
  size_t points = 1;
  for (const int64_t extent : extents) points *= static_cast<size_t>(extent);
  std::vector<int64_t> values, at(mins.begin(), mins.end());
  values.reserve(points);
  size_t fastest = at.size();  // the innermost that changes, of which runs of points are made
  while (fastest > 0 && extents[fastest - 1] == 1) --fastest;
  Columns columns(*this, mins.size());
  while (values.size() < points) {
    const size_t n = std::min(Columns::kPoints, points - values.size());
    for (size_t i = 0; i < n;) {
      size_t run = n - i;
      if (fastest > 0) {
        const size_t v = fastest - 1;
        run = std::min(run, static_cast<size_t>(mins[v] + extents[v] - at[v]));
        std::iota(columns.argument(v) + i, columns.argument(v) + i + run, at[v]);
      }
      for (size_t v = 0; v < at.size(); ++v) {
        if (v + 1 != fastest) std::fill_n(columns.argument(v) + i, run, at[v]);
      }
      i += run;
      if (fastest == 0) continue;
      at[fastest - 1] += static_cast<int64_t>(run);
      for (size_t v = fastest; v-- > 0 && at[v] == mins[v] + extents[v];) {
        at[v] = mins[v];
        if (v > 0) ++at[v - 1];
      }
    }
    if (!columns.Run(n)) return std::nullopt;
    values.insert(values.end(), columns.value(), columns.value() + n);
  }
  return values;
}

}  // namespace kiln::ir
