#include "compiler/passes/memory_access.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/evaluate.h"
#include "compiler/ir/visit.h"

namespace kiln::passes {
namespace {

using ir::Expr;

constexpr int64_t kMaxElements = int64_t{1} << 22;  // of a tile whose places are tabulated
constexpr int64_t kMaxPoints = int64_t{1} << 20;    // of an access that are evaluated

int64_t Product(const std::vector<int64_t>& extents) {
  int64_t n = 1;
  for (const int64_t extent : extents) {
    if (extent < 1 || __builtin_mul_overflow(n, extent, &n)) return kMaxPoints + 1;
  }
  return n;
}

int64_t MostElements(const MemoryAccess& access) {
  const int64_t bytes = access.buffer->table
                            ? std::min<int64_t>(kVectorBytes, access.buffer->alignment)
                            : kVectorBytes;
  return std::max<int64_t>(1, bytes / access.buffer->dtype.bytes());
}

Expr FlatIndex(const ir::Buffer& buffer, const std::vector<Expr>& indices) {
  Expr flat = ir::MakeInt(0), stride = ir::MakeInt(1);
  for (size_t d = indices.size(); d-- > (buffer->table ? 1 : 0);) {  // within a table's tensor
    flat = flat + indices[d] * (buffer->strides.empty() ? stride : buffer->strides[d]);
    stride = stride * buffer->shape[d];
  }
  return flat;
}

// p where e is last // p, a power of two; else 0.
int64_t PackedBy(const Expr& e, const Expr& last) {
  const auto* quotient = e.As<ir::Binary>();
  if (quotient == nullptr || quotient->op != ir::BinaryOp::kFloorDiv ||
      !quotient->a.same_as(last)) {
    return 0;
  }
  const int64_t p = ir::ConstInt(quotient->b).value_or(0);
  return p > 1 && (p & (p - 1)) == 0 ? p : 0;
}

// By the form of the index: the last axis moves by one element, and everything else by multiples.
// Of packed elements, which neighbours read together, that is said of last // p.
int64_t RowMajorWidth(const MemoryAccess& access, const ir::Facts& facts) {
  const Expr& last = access.axes.back();
  if (access.buffer->table && ir::Uses(access.indices[0], last)) return 1;
  ir::LinearForm form = access.flat;
  int64_t step = form.CoefficientOf(last), together = 1;
  ir::LinearTerms rest;
  for (const auto& term : form.terms) {
    if (term.first.same_as(last)) continue;
    if (!ir::Uses(term.first, last)) {
      rest.push_back(term);
      continue;
    }
    const int64_t packed = access.write ? 0 : PackedBy(term.first, last);
    const bool whole = packed > 0 && packed <= kVectorBytes && access.extents.back() % packed == 0;
    if (!whole || step != 0) return 1;
    step = term.second;
    together = packed;
  }
  if (step == 0 && !access.write) return kVectorBytes;  // the same element for all
  if (step != 1) return together;
  form.terms = std::move(rest);
  const Expr others = ir::FromLinear(form, kInt64);
  int64_t width = MostElements(access);
  while (width > 1 &&
         !(access.extents.back() % (width * together) == 0 && facts.Divides(width, others))) {
    width /= 2;
  }
  return width * together;
}

// Rests of what no loop here fixes, named as variables that take all values of a rest: which
// version of a tile, in a loop whose steps are counted at run time.
class Rests : public ir::Mutator {
 public:
  explicit Rests(MemoryAccess access) : access_(std::move(access)) {
    access_.indices = MutateAll(access_.indices);
  }
  MemoryAccess Take() && { return std::move(access_); }

 protected:
  Expr VisitExpr(const Expr& e) override {
    const auto* rest = e.As<ir::Binary>();
    if (rest == nullptr || rest->op != ir::BinaryOp::kFloorMod) return RebuildExpr(e);
    const int64_t divisor = ir::ConstInt(rest->b).value_or(0);
    if (divisor < 1 || divisor > kMostRests || !IsUnknown(rest->a)) return RebuildExpr(e);
    for (const auto& [known, name] : names_) {
      if (ir::Same(known, e)) return name;
    }
    const Expr name = ir::MakeVar("rest", e.dtype());
    names_.push_back({e, name});
    access_.serial.push_back({name, 0, divisor});
    return name;
  }

 private:
  static constexpr int64_t kMostRests = 64;

  bool IsUnknown(const Expr& e) const {
    bool variables = false, known = false;
    ir::Walk(e, [&](const Expr& x) {
      variables |= x.kind() == ir::ExprKind::kVar;
      known |= x.kind() == ir::ExprKind::kLoad;
      return true;
    });
    for (const Expr& axis : access_.axes) known |= ir::Uses(e, axis);
    for (const SerialVariable& v : access_.serial) known |= ir::Uses(e, v.var);
    return variables && !known;
  }

  MemoryAccess access_;
  std::vector<std::pair<Expr, Expr>> names_;
};

// The flat index of every iteration for every point of the serial loops that it depends on. An
// index is evaluated once for every point of the variables that it depends on itself: often one
// axis, and few of its values over the serial loops differ (a stage of many).
class FlatIndices {
 public:
  static std::optional<FlatIndices> Of(const MemoryAccess& given) {
    FlatIndices out(Rests(given).Take());
    const MemoryAccess& access = out.access_;
    for (const SerialVariable& v : access.serial) {
      const bool used = std::any_of(access.indices.begin(), access.indices.end(),
                                    [&](const Expr& e) { return ir::Uses(e, v.var); });
      if (used) out.serial_.push_back(v);
    }
    std::vector<Expr> variables = access.axes;
    for (const SerialVariable& v : out.serial_) {
      variables.push_back(v.var);
      out.serial_extents_.push_back(v.extent);
    }
    for (size_t d = 0; d < access.indices.size(); ++d) {
      absl::StatusOr<ir::IntFunction> function = ir::IntFunction::Of(access.indices[d], variables);
      if (!function.ok()) return std::nullopt;
      const int64_t extent = ir::ConstInt(access.buffer->shape[d]).value_or(0);
      out.dimensions_.push_back({*std::move(function), extent, {}, {}, {}, {}, {}});
      out.SetSteps(access.indices[d], &out.dimensions_.back());
    }
    return out.IsDear() ? std::nullopt : std::optional(std::move(out));
  }

  int64_t turns() const { return Product(serial_extents_); }
  int64_t iterations() const { return Product(access_.extents); }

  // Turns of one kind have the same flat indices.
  std::vector<int> KindOf(int64_t turn) {
    const std::vector<int64_t> serial = layout::Unflatten(turn, serial_extents_);
    std::vector<int> kind;
    for (Dimension& d : dimensions_) kind.push_back(ValuesAt(serial, &d));
    return kind;
  }

  // False when an iteration of these turns leaves the buffer.
  bool At(const std::vector<int>& kind, std::vector<int64_t>* flat) const {
    flat->assign(Product(access_.extents), 0);
    for (size_t d = 0; d < dimensions_.size(); ++d) {
      if (!AddDimension(dimensions_[d], *dimensions_[d].distinct[kind[d]], flat)) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kOutside = -1;
  using Values = std::vector<int64_t>;  // by point of the axes that an index depends on

  struct Dimension {
    ir::IntFunction function;
    int64_t extent;
    std::vector<int64_t> axis_steps;  // of a value's position, by axis; 0: does not depend on it
    std::vector<bool> uses;           // by serial variable
    std::map<Values, int> kinds;      // of values, numbered as they are found
    std::vector<const Values*> distinct;
    std::map<std::vector<int64_t>, int> known;  // by the serial variables that it uses
  };

  explicit FlatIndices(MemoryAccess access) : access_(std::move(access)) {}

  void SetSteps(const Expr& index, Dimension* d) const {
    d->axis_steps.resize(access_.axes.size());
    int64_t step = 1;
    for (size_t a = access_.axes.size(); a-- > 0;) {
      if (!ir::Uses(index, access_.axes[a])) continue;
      d->axis_steps[a] = step;
      step *= access_.extents[a];
    }
    for (const SerialVariable& v : serial_) d->uses.push_back(ir::Uses(index, v.var));
  }

  // What evaluating all indices takes: of each, the points of the variables that it uses.
  bool IsDear() const {
    int64_t points = std::max(turns(), iterations());
    for (const Dimension& d : dimensions_) {
      std::vector<int64_t> used;
      for (size_t a = 0; a < d.axis_steps.size(); ++a) {
        if (d.axis_steps[a] > 0) used.push_back(access_.extents[a]);
      }
      for (size_t v = 0; v < d.uses.size(); ++v) {
        if (d.uses[v]) used.push_back(serial_extents_[v]);
      }
      points = std::max(points, Product(used));
    }
    return points > kMaxPoints;
  }

  int ValuesAt(const std::vector<int64_t>& serial, Dimension* d) const {
    std::vector<int64_t> used;
    for (size_t v = 0; v < serial.size(); ++v) used.push_back(d->uses[v] ? serial[v] : 0);
    const auto [known, is_new] = d->known.try_emplace(std::move(used));
    if (!is_new) return known->second;
    const auto [kind, is_other] =
        d->kinds.try_emplace(Evaluate(*d, serial), static_cast<int>(d->distinct.size()));
    if (is_other) d->distinct.push_back(&kind->first);
    return known->second = kind->second;
  }

  Values Evaluate(const Dimension& d, const std::vector<int64_t>& serial) const {
    std::vector<int64_t> point = access_.mins;
    for (size_t v = 0; v < serial.size(); ++v) point.push_back(serial_[v].min + serial[v]);
    int64_t points = 1;
    for (size_t a = 0; a < d.axis_steps.size(); ++a) {
      if (d.axis_steps[a] > 0) points *= access_.extents[a];
    }
    Values values(points);
    for (int64_t i = 0; i < points; ++i) {
      for (size_t a = 0; a < d.axis_steps.size(); ++a) {
        if (d.axis_steps[a] == 0) continue;
        point[a] = access_.mins[a] + i / d.axis_steps[a] % access_.extents[a];
      }
      const std::optional<int64_t> index = d.function(point);
      values[i] = index && *index >= 0 && *index < d.extent ? *index : kOutside;
    }
    return values;
  }

  // Row-major: by each further dimension, what is there counts for as many elements.
  bool AddDimension(const Dimension& d, const Values& values, std::vector<int64_t>* flat) const {
    const std::vector<int64_t>& extents = access_.extents;
    std::vector<int64_t> at(extents.size(), 0);
    int64_t position = 0;
    for (int64_t& element : *flat) {
      if (values[position] == kOutside) return false;
      element = element * d.extent + values[position];
      for (size_t a = at.size(); a-- > 0;) {
        position += d.axis_steps[a];
        if (++at[a] < extents[a]) break;
        position -= d.axis_steps[a] * extents[a];
        at[a] = 0;
      }
    }
    return true;
  }

  MemoryAccess access_;
  std::vector<Dimension> dimensions_;
  std::vector<SerialVariable> serial_;  // that some index depends on
  std::vector<int64_t> serial_extents_;
};

// Terms that all iterations share move every place alike and are left out.
bool RowMajorPlaces(const MemoryAccess& access, std::vector<int64_t>* places) {
  std::vector<Expr> variables = access.axes;
  std::vector<int64_t> values = access.mins;
  for (const SerialVariable& v : access.serial) {
    variables.push_back(v.var);
    values.push_back(v.min);
  }
  ir::LinearForm bent;  // what is no multiple of one variable
  std::vector<int64_t> steps(variables.size(), 0);
  int64_t straight = access.flat.constant;
  for (const auto& term : access.flat.terms) {
    const auto varies = [&](const Expr& v) { return ir::Uses(term.first, v); };
    const auto v = std::find_if(variables.begin(), variables.end(), varies);
    if (v == variables.end()) continue;
    if (term.first.same_as(*v)) {
      steps[v - variables.begin()] += term.second;
    } else {
      bent.terms.push_back(term);
    }
  }
  const auto function = ir::IntFunction::Of(ir::FromLinear(bent, kInt64), variables);
  const int64_t iterations = Product(access.extents);
  if (!function.ok() || iterations > kMaxPoints) return false;
  for (size_t v = 0; v < variables.size(); ++v) straight += steps[v] * values[v];
  std::vector<int64_t> at(access.axes.size(), 0);
  for (int64_t i = 0; i < iterations; ++i) {
    int64_t place = straight;
    for (size_t a = 0; a < at.size(); ++a) place += steps[a] * at[a];
    if (!bent.terms.empty()) {
      for (size_t a = 0; a < at.size(); ++a) values[a] = access.mins[a] + at[a];
      const std::optional<int64_t> more = (*function)(values);
      if (!more) return false;
      place += *more;
    }
    places->push_back(place);
    for (size_t d = at.size(); d-- > 0 && ++at[d] == access.extents[d];) at[d] = 0;
  }
  return true;
}

// Whether iterations `at`, `at + 1`, ... are one instruction of `width` elements.
bool OneAccess(const std::vector<int64_t>& places, size_t at, int64_t width, bool write) {
  bool consecutive = places[at] % width == 0, same = !write;
  for (int64_t k = 1; k < width; ++k) {
    consecutive &= places[at + k] == places[at] + k;
    same &= places[at + k] == places[at];
  }
  return consecutive || same;
}

int64_t RemappedWidth(const MemoryAccess& access, const std::vector<int64_t>& by_index) {
  auto indices = FlatIndices::Of(access);
  if (!indices) return 1;
  int64_t width = MostElements(access);
  while (width > 1 && access.extents.back() % width != 0) width /= 2;
  std::vector<int64_t> places;
  std::set<std::vector<int>> seen;
  for (int64_t turn = 0; turn < indices->turns() && width > 1; ++turn) {
    const auto [kind, is_new] = seen.insert(indices->KindOf(turn));
    if (!is_new) continue;
    if (static_cast<int64_t>(seen.size()) * indices->iterations() > kMaxPoints) return 1;
    if (!indices->At(*kind, &places)) return 1;
    for (int64_t& place : places) place = by_index[place];
    for (size_t i = 0; i < places.size() && width > 1; i += width) {
      while (width > 1 && !OneAccess(places, i, width, access.write)) width /= 2;
    }
  }
  return width;
}

}  // namespace

std::shared_ptr<const std::vector<int64_t>> SharedLayouts::PlacesOf(const ir::Buffer& buffer) {
  if (tiles_ == nullptr || buffer->scope != ir::Scope::kShared) return nullptr;
  const auto [found, is_new] = places_.try_emplace(buffer.get());
  if (!is_new) return found->second;
  const auto tile = std::find_if(tiles_->begin(), tiles_->end(),
                                 [&](const SharedTile& t) { return t.buffer == buffer; });
  if (tile == tiles_->end() || tile->layout.size() > kMaxElements) return nullptr;
  return found->second =
             std::make_shared<std::vector<int64_t>>(tile->layout.Column(layout::Axis::kM));
}

void Complete(const ir::Facts& facts, SharedLayouts* layouts, MemoryAccess* access) {
  access->flat = facts.Expand(FlatIndex(access->buffer, access->indices));
  access->places = layouts->PlacesOf(access->buffer);
}

int64_t GuardWidth(const Expr& guard, const Expr& axis, const ir::Facts& facts) {
  if (!ir::Uses(guard, axis)) return kVectorBytes;
  const auto* b = guard.As<ir::Binary>();
  if (b != nullptr && b->op == ir::BinaryOp::kAnd) {
    return std::min(GuardWidth(b->a, axis, facts), GuardWidth(b->b, axis, facts));
  }
  const Expr positive = ir::PositiveForm(guard);
  if (!positive.defined()) return 1;
  // axis < rest, or axis >= first: either is where a group of neighbours begins.
  ir::LinearForm form = facts.Expand(positive);
  const int64_t step = form.CoefficientOf(axis);
  ir::LinearTerms others;
  for (const auto& term : form.terms) {
    if (term.first.same_as(axis)) continue;
    if (ir::Uses(term.first, axis)) return 1;
    others.push_back(term);
  }
  if (step != 1 && step != -1) return 1;
  form.terms = std::move(others);
  const Expr rest = ir::FromLinear(form, kInt64);
  const Expr turn = step < 0 ? rest : ir::MakeInt(1, kInt64) - rest;
  int64_t width = kVectorBytes;
  while (width > 1 && !facts.Divides(width, turn)) width /= 2;
  return width;
}

int64_t WidthOf(const MemoryAccess& access, const ir::Facts& facts) {
  return access.places == nullptr ? RowMajorWidth(access, facts)
                                  : RemappedWidth(access, *access.places);
}

std::optional<MemoryTraffic> TrafficOf(const MemoryAccess& access) {
  MemoryTraffic traffic;
  traffic.shared = access.buffer->scope == ir::Scope::kShared;
  traffic.bytes = static_cast<int>(access.buffer->dtype.bytes());
  if (access.places == nullptr) {
    if (!RowMajorPlaces(access, &traffic.places)) return std::nullopt;
    return traffic;
  }
  auto indices = FlatIndices::Of(access);
  if (!indices || !indices->At(indices->KindOf(0), &traffic.places)) return std::nullopt;
  for (int64_t& place : traffic.places) place = (*access.places)[place];
  return traffic;
}

}  // namespace kiln::passes
