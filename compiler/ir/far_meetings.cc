#include "compiler/ir/far_meetings.h"

#include <algorithm>
#include <utility>

#include "compiler/ir/evaluate.h"
#include "compiler/ir/integer_points.h"
#include "compiler/ir/linear.h"

namespace kiln::ir {
namespace {

using Row = IntegerPoints::Row;

constexpr int64_t kBoxes = 300;  // for each way in which two iterations may differ

// One iteration that makes an access: its variables among those of the search.
class Side {
 public:
  Side(const LoopAccesses& loop, const LoopAccess& access, IntegerPoints* points)
      : loop_(loop), access_(access), points_(*points) {
    for (const Turns& t : loop.axes) Add(t);
    for (const Turns& t : access.inner) Add(t);
  }

  // What the loop decides of index d; nullopt: no linear form of variables.
  std::optional<Row> Index(size_t d) {
    LinearForm varying;
    varying.constant = access_.indices[d].constant;
    for (const auto& term : access_.indices[d].terms) {
      if (!loop_.IsSame(term.first)) varying.terms.push_back(term);
    }
    return RowOf(varying, 0);
  }

  LinearForm Same(size_t d) const {
    LinearForm same;
    for (const auto& term : access_.indices[d].terms) {
      if (loop_.IsSame(term.first)) same.terms.push_back(term);
    }
    return same;
  }

  // Conditions that have no linear form are left to Makes().
  void Require() {
    for (const Expr& guard : access_.guards) Require(guard, true);
    for (size_t d = 0; d < access_.indices.size(); ++d) {
      const auto size = ConstInt(access_.buffer->shape[d]);
      if (!Same(d).terms.empty() || !size) continue;
      std::optional<Row> row = Index(d);
      if (!row) continue;
      Row below = Times(*row, -1);
      below.constant += *size - 1;
      points_.AddRow(*std::move(row));
      points_.AddRow(std::move(below));
    }
  }

  size_t Axis(size_t a) const { return variables_[a].second; }

  // ---- at a point that was found ----

  std::vector<int64_t> Iteration(const std::vector<int64_t>& point) const {
    std::vector<int64_t> at;
    for (size_t a = 0; a < loop_.axes.size(); ++a) at.push_back(point[Axis(a)]);
    return at;
  }

  std::optional<int64_t> ValueOf(const Expr& e, const std::vector<int64_t>& point) const {
    std::vector<Expr> names;
    std::vector<int64_t> values;
    for (const auto& [var, variable] : variables_) {
      names.push_back(var);
      values.push_back(point[variable]);
    }
    const absl::StatusOr<IntFunction> function = IntFunction::Of(e, names);
    return function.ok() ? (*function)(values) : std::nullopt;
  }

  bool IsMade(const std::vector<int64_t>& point) const {
    return std::all_of(access_.guards.begin(), access_.guards.end(),
                       [&](const Expr& guard) { return ValueOf(guard, point).value_or(0) != 0; });
  }

  std::optional<int64_t> Place(size_t d, const std::vector<int64_t>& point) const {
    LinearForm varying = access_.indices[d];
    const auto same = [&](const auto& term) { return loop_.IsSame(term.first); };
    varying.terms.erase(std::remove_if(varying.terms.begin(), varying.terms.end(), same),
                        varying.terms.end());
    return ValueOf(FromLinear(varying, kInt64), point);
  }

 private:
  void Add(const Turns& t) {
    variables_.emplace_back(t.var, points_.AddVariable(t.min, t.min + t.extent - 1));
    spans_.push_back({t.min, t.min + t.extent - 1});
  }

  static Row Times(Row row, int64_t factor) {
    for (auto& term : row.terms) term.second *= factor;
    row.constant *= factor;
    return row;
  }

  // The variable that an atom is; quotients and remainders get one of their own.
  std::optional<size_t> VariableOf(const Expr& atom, int depth) {
    for (const auto& [var, variable] : variables_) {
      if (var.same_as(atom)) return variable;
    }
    for (const auto& [known, variable] : made_) {
      if (ir::Same(known, atom)) return variable;
    }
    const auto* binary = atom.As<Binary>();
    const bool quotient = binary != nullptr && binary->op == BinaryOp::kFloorDiv;
    if (!quotient && (binary == nullptr || binary->op != BinaryOp::kFloorMod)) return std::nullopt;
    const auto divisor = ConstInt(binary->b);
    if (!divisor || *divisor < 1 || depth > 8) return std::nullopt;
    std::optional<Row> row = RowOf(Linearize(binary->a), depth + 1);
    if (!row) return std::nullopt;
    const auto [low, high] = Reach(*row);
    if (low <= -kLargest || high >= kLargest) return std::nullopt;
    const size_t q = AddVariable(FloorDivide(low, *divisor), FloorDivide(high, *divisor));
    const size_t r = AddVariable(0, *divisor - 1);
    row->terms.insert(row->terms.end(), {{q, -*divisor}, {r, -1}});
    row->is_zero = true;
    points_.AddRow(*std::move(row));
    made_.emplace_back(atom, quotient ? q : r);
    return quotient ? q : r;
  }

  size_t AddVariable(int64_t low, int64_t high) {
    const size_t variable = points_.AddVariable(low, high);
    others_.push_back({variable, {low, high}});
    return variable;
  }

  std::pair<int64_t, int64_t> Reach(const Row& row) const {
    __int128 low = row.constant, high = row.constant;
    for (const auto& [variable, factor] : row.terms) {
      const auto [first, last] = SpanOf(variable);
      low += static_cast<__int128>(factor) * (factor > 0 ? first : last);
      high += static_cast<__int128>(factor) * (factor > 0 ? last : first);
    }
    const auto clamp = [](__int128 x) {
      return static_cast<int64_t>(std::clamp<__int128>(x, -kLargest, kLargest));
    };
    return {clamp(low), clamp(high)};
  }

  std::pair<int64_t, int64_t> SpanOf(size_t variable) const {
    for (size_t i = 0; i < variables_.size(); ++i) {
      if (variables_[i].second == variable) return spans_[i];
    }
    const auto is = [&](const auto& other) { return other.first == variable; };
    return std::find_if(others_.begin(), others_.end(), is)->second;
  }

  std::optional<Row> RowOf(const LinearForm& form, int depth) {
    Row row;
    row.constant = form.constant;
    if (std::abs(form.constant) > kLargest) return std::nullopt;
    for (const auto& [atom, factor] : form.terms) {
      const std::optional<size_t> variable = VariableOf(atom, depth);
      if (!variable || std::abs(factor) > kLargest) return std::nullopt;
      row.terms.emplace_back(*variable, factor);
    }
    return row;
  }

  void Require(const Expr& condition, bool holds) {
    if (const auto* cast = condition.As<Cast>()) return Require(cast->a, holds);
    if (const auto* unary = condition.As<Unary>(); unary && unary->op == UnaryOp::kNot) {
      return Require(unary->a, !holds);
    }
    const auto* binary = condition.As<Binary>();
    if (binary == nullptr) return;
    if (binary->op == (holds ? BinaryOp::kAnd : BinaryOp::kOr)) {
      Require(binary->a, holds);
      return Require(binary->b, holds);
    }
    const bool equal = binary->op == (holds ? BinaryOp::kEq : BinaryOp::kNe);
    const Expr form = equal && binary->a.dtype().is_int() ? binary->a - binary->b
                      : equal                             ? Expr()
                                                          : PositiveForm(condition);
    if (!form.defined()) return;
    std::optional<Row> row = RowOf(Linearize(form), 0);
    if (!row) return;
    row->is_zero = equal;
    if (!equal && !holds) row = Times(*std::move(row), -1);
    if (!equal && holds) --row->constant;
    points_.AddRow(*std::move(row));
  }

  static constexpr int64_t kLargest = int64_t{1} << 46;

  const LoopAccesses& loop_;
  const LoopAccess& access_;
  IntegerPoints& points_;
  std::vector<std::pair<Expr, size_t>> variables_;  // of the loops
  std::vector<std::pair<int64_t, int64_t>> spans_;
  std::vector<std::pair<Expr, size_t>> made_;
  std::vector<std::pair<size_t, std::pair<int64_t, int64_t>>> others_;
};

bool SameForm(const LinearForm& a, const LinearForm& b) {
  if (a.terms.size() != b.terms.size()) return false;
  return std::all_of(a.terms.begin(), a.terms.end(), [&](const auto& x) {
    return std::any_of(b.terms.begin(), b.terms.end(), [&](const auto& y) {
      return x.second == y.second && Same(x.first, y.first);
    });
  });
}

// Whether the point that was found is one: conditions may not all have been rows.
bool Meet(const Side& one, const Side& two, const LoopAccess& store, const LoopAccess& other,
          bool threads, const std::vector<int64_t>& point) {
  if (!one.IsMade(point) || !two.IsMade(point)) return false;
  for (size_t d = 0; d < store.indices.size(); ++d) {
    const auto x = one.Place(d, point), y = two.Place(d, point);
    if (!x || !y || *x != *y) return false;
    const auto size = ConstInt(store.buffer->shape[d]);
    if (one.Same(d).terms.empty() && size && (*x < 0 || *x >= *size)) return false;
  }
  if (!threads || !other.write) return true;
  const auto x = one.ValueOf(store.value, point), y = two.ValueOf(other.value, point);
  return x && y && *x != *y;
}

}  // namespace

std::optional<FarMeeting> FindFarMeeting(const LoopAccesses& loop, const LoopAccess& store,
                                         const LoopAccess& other, bool threads, int64_t* steps) {
  IntegerPoints points;
  Side one(loop, store, &points), two(loop, other, &points);
  for (size_t d = 0; d < store.indices.size(); ++d) {
    std::optional<Row> x = one.Index(d), y = two.Index(d);
    if (!x || !y || !SameForm(one.Same(d), two.Same(d))) return std::nullopt;
    for (const auto& [variable, factor] : y->terms) x->terms.emplace_back(variable, -factor);
    x->constant -= y->constant;
    x->is_zero = true;
    points.AddRow(*std::move(x));
  }
  one.Require();
  two.Require();
  // Iterations differ in a first axis, one way or the other.
  for (size_t a = 0; a < loop.axes.size(); ++a) {
    for (const int64_t way : {1, -1}) {
      if (way < 0 && &store == &other) continue;  // the same two
      IntegerPoints apart = points;
      apart.AddRow({{{two.Axis(a), way}, {one.Axis(a), -way}}, -1, false});
      int64_t boxes = kBoxes;
      const auto point = apart.FindOne(&boxes);
      *steps -= kBoxes - boxes;
      if (point && Meet(one, two, store, other, threads, *point)) {
        return FarMeeting{one.Iteration(*point), two.Iteration(*point)};
      }
    }
    points.AddRow({{{one.Axis(a), 1}, {two.Axis(a), -1}}, 0, true});
  }
  return std::nullopt;
}

}  // namespace kiln::ir
