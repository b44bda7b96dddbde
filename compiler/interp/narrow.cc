#include "compiler/interp/narrow.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "compiler/ir/shape.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"

namespace kiln::interp {
namespace {

// A dimension of a tile, or a parallel loop's variable (dimension -1).
using Axis = std::pair<const void*, int>;

// What goes together element by element: one class of axes has one range.
class Classes {
 public:
  int Of(const Axis& axis) {
    const auto [it, fresh] = numbers_.try_emplace(axis, static_cast<int>(parents_.size()));
    if (fresh) {
      parents_.push_back(it->second);
      ranges_.emplace_back();
    }
    return Root(it->second);
  }
  void Join(const Axis& a, const Axis& b) {
    const int x = Of(a), y = Of(b);
    if (x == y) return;
    parents_[x] = y;
    ranges_[y].pinned |= ranges_[x].pinned;
    if (ranges_[x].low <= ranges_[x].high) Need(b, ranges_[x].low, ranges_[x].high);
  }
  // Stays whole.
  void Pin(const Axis& axis) { ranges_[Of(axis)].pinned = true; }
  void Need(const Axis& axis, int64_t low, int64_t high) {
    Range& range = ranges_[Of(axis)];
    range.low = std::min(range.low, low);
    range.high = std::max(range.high, high);
  }
  // First index and count of an axis of `extent`.
  std::optional<std::pair<int64_t, int64_t>> Slice(const Axis& axis, int64_t extent) {
    const Range& range = ranges_[Of(axis)];
    const int64_t low = std::max<int64_t>(range.low, 0), high = std::min(range.high, extent - 1);
    if (range.pinned || range.low > range.high || low > high) return std::nullopt;
    if (low == 0 && high == extent - 1) return std::nullopt;
    return std::make_pair(low, high - low + 1);
  }

 private:
  struct Range {
    bool pinned = false;
    int64_t low = INT64_MAX, high = INT64_MIN;
  };
  int Root(int i) {
    while (parents_[i] != i) i = parents_[i] = parents_[parents_[i]];
    return i;
  }
  std::map<Axis, int> numbers_;
  std::vector<int> parents_;
  std::vector<Range> ranges_;
};

bool IsTile(const ir::Buffer& buffer) {
  return buffer->scope == ir::Scope::kShared || buffer->scope == ir::Scope::kFragment ||
         buffer->scope == ir::Scope::kLocal;
}

// Finds out which axes go together and which of them the box needs.
class Analysis {
 public:
  explicit Analysis(const Wanted& wanted) : wanted_(wanted) {}

  bool Visit(const ir::Stmt& s, ir::Facts* facts);

  Classes classes;
  std::unordered_map<const ir::ExprNode*, int64_t> loops;  // parallel variables and extents

 private:
  static Axis OfVar(const ir::Expr& var) { return {var.get(), -1}; }
  static Axis OfDim(const ir::Buffer& buffer, size_t d) {
    return {buffer.get(), static_cast<int>(d)};
  }
  bool IsLoop(const ir::Expr& e) const { return loops.count(e.get()) > 0; }

  bool VisitFor(const ir::For& x, const ir::Facts& outer);
  void Loads(const ir::Expr& e);
  void Indices(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices);
  void StoreTo(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices,
               const ir::Facts& facts);
  // Parts of a tile do not shrink.
  void Touch(const ir::Region& region);
  void Match(const ir::Region& a, const ir::Region& b, const ir::Facts& facts);
  void PinAll(const ir::Region& region);
  void NeedOfRegion(const ir::Region& global, size_t dim, const Axis& axis, const ir::Facts& facts);
  bool Gemm(const ir::Gemm& x);
  void Reduce(const ir::Reduce& x);

  const Wanted& wanted_;
  std::vector<ir::Expr> around_;  // variables of the parallel loops around
};

void Analysis::Indices(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices) {
  for (size_t d = 0; IsTile(buffer) && d < indices.size(); ++d) {
    if (IsLoop(indices[d])) {
      classes.Join(OfVar(indices[d]), OfDim(buffer, d));
    } else {
      classes.Pin(OfDim(buffer, d));
    }
  }
}

void Analysis::Loads(const ir::Expr& e) {
  if (!e.defined()) return;
  ir::Walk(e, [&](const ir::Expr& x) {
    if (const auto* load = x.As<ir::Load>()) Indices(load->buffer, load->indices);
    return true;
  });
}

// Every loop around a store must choose where it goes, or it counts how often something happens.
void Analysis::StoreTo(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices,
                       const ir::Facts& facts) {
  for (const ir::Expr& index : indices) Loads(index);
  Indices(buffer, indices);
  for (const ir::Expr& var : around_) {
    bool chooses = false;
    for (size_t d = 0; d < indices.size() && !chooses; ++d) {
      if (IsTile(buffer)) {
        chooses = indices[d].same_as(var);
        continue;
      }
      const auto box = wanted_.find(buffer.get());
      if (box == wanted_.end()) continue;
      ir::LinearForm rest = facts.Expand(indices[d]);
      if (rest.CoefficientOf(var) != 1) continue;
      rest.Drop(var);
      const auto base = facts.BoundsOf(rest);
      if (!base || base->min != base->max) continue;
      const auto [low, high] = box->second[d];
      classes.Need(OfVar(var), low - base->min, high - base->min);
      chooses = true;
    }
    if (!chooses) classes.Pin(OfVar(var));
  }
}

void Analysis::Touch(const ir::Region& region) {
  for (const ir::Range& range : region.ranges) Loads(range.min), Loads(range.extent);
  for (size_t d = 0; IsTile(region.buffer) && d < region.ranges.size(); ++d) {
    const auto extent = ir::ConstInt(region.ranges[d].extent);
    const bool whole = extent.has_value() && ir::ConstInt(region.ranges[d].min) == 0 &&
                       extent == ir::ConstInt(region.buffer->shape[d]);
    if (!whole || extent == 1) classes.Pin(OfDim(region.buffer, d));
  }
}

void Analysis::PinAll(const ir::Region& region) {
  for (size_t d = 0; IsTile(region.buffer) && d < region.ranges.size(); ++d) {
    classes.Pin(OfDim(region.buffer, d));
  }
}

// A tile's dimension goes to (or comes from) one of a tensor in global memory.
void Analysis::NeedOfRegion(const ir::Region& global, size_t dim, const Axis& axis,
                            const ir::Facts& facts) {
  const auto box = wanted_.find(global.buffer.get());
  if (box == wanted_.end()) return;
  const auto base = facts.BoundsOf(global.ranges[dim].min);
  if (base && base->min == base->max) {
    const auto [low, high] = box->second[dim];
    classes.Need(axis, low - base->min, high - base->min);
  } else {
    classes.Pin(axis);
  }
}

void Analysis::Match(const ir::Region& a, const ir::Region& b, const ir::Facts& facts) {
  Touch(a);
  Touch(b);
  const auto pairs = ir::PairDims(a, b);
  bool fits = pairs.has_value();
  for (size_t d = 0; fits && d < pairs->size(); ++d) {
    const int other = (*pairs)[d];
    const auto extent = ir::ConstInt(a.ranges[d].extent);
    fits = other < 0 || (extent.has_value() &&
                         extent == ir::ConstInt(b.ranges[static_cast<size_t>(other)].extent));
  }
  if (!fits) {
    PinAll(a);
    PinAll(b);
    return;
  }
  for (size_t d = 0; d < pairs->size(); ++d) {
    if ((*pairs)[d] < 0) continue;
    const auto other = static_cast<size_t>((*pairs)[d]);
    if (IsTile(a.buffer) && IsTile(b.buffer)) {
      classes.Join(OfDim(a.buffer, d), OfDim(b.buffer, other));
    } else if (IsTile(a.buffer)) {
      NeedOfRegion(b, other, OfDim(a.buffer, d), facts);
    }
  }
}

bool Analysis::Gemm(const ir::Gemm& x) {
  if (x.sparse()) return false;
  for (const ir::Region* region : {&x.a, &x.b, &x.c}) {
    if (!IsTile(region->buffer)) return false;
    Touch(*region);
  }
  const auto a = ir::MatrixDims(x.a), b = ir::MatrixDims(x.b), c = ir::MatrixDims(x.c);
  if (!a || !b || !c) return false;
  const auto dim = [](const ir::Region& region, int d) {
    return OfDim(region.buffer, static_cast<size_t>(d));
  };
  classes.Join(dim(x.a, x.trans_a ? a->second : a->first), dim(x.c, c->first));
  classes.Join(dim(x.b, x.trans_b ? b->first : b->second), dim(x.c, c->second));
  classes.Pin(dim(x.a, x.trans_a ? a->first : a->second));
  classes.Pin(dim(x.b, x.trans_b ? b->second : b->first));
  Loads(x.clear_accum);
  return true;
}

void Analysis::Reduce(const ir::Reduce& x) {
  Touch(x.src);
  Touch(x.dst);
  const auto pairs = ir::ReduceDims(x.src, x.dst, x.dim);
  if (!IsTile(x.src.buffer) || !IsTile(x.dst.buffer) || !pairs) {
    PinAll(x.src);
    PinAll(x.dst);
    return;
  }
  classes.Pin(OfDim(x.src.buffer, static_cast<size_t>(x.dim)));
  for (size_t d = 0; d < pairs->size(); ++d) {
    if ((*pairs)[d] < 0) continue;
    classes.Join(OfDim(x.dst.buffer, d), OfDim(x.src.buffer, static_cast<size_t>((*pairs)[d])));
  }
}

bool Analysis::VisitFor(const ir::For& x, const ir::Facts& outer) {
  ir::Facts facts = outer;
  const size_t before = around_.size();
  for (const ir::Axis& axis : x.axes) {
    Loads(axis.min);
    Loads(axis.extent);
    facts.AddAxis(axis);
    const auto extent = ir::ConstInt(axis.extent);
    if (x.loop != ir::ForKind::kParallel || ir::ConstInt(axis.min) != 0 || !extent) continue;
    loops[axis.var.get()] = *extent;
    around_.push_back(axis.var);
  }
  const bool followed = Visit(x.body, &facts);
  around_.resize(before);
  return followed;
}

bool Analysis::Visit(const ir::Stmt& s, ir::Facts* facts) {
  if (const auto* x = s.As<ir::Seq>()) {
    ir::Facts inner = *facts;
    return std::all_of(x->stmts.begin(), x->stmts.end(),
                       [&](const ir::Stmt& child) { return Visit(child, &inner); });
  }
  if (const auto* x = s.As<ir::For>()) return VisitFor(*x, *facts);
  if (const auto* x = s.As<ir::If>()) {
    Loads(x->condition);
    ir::Facts inner = *facts, other = *facts;
    return Visit(x->then_case, &inner) && (!x->else_case.defined() || Visit(x->else_case, &other));
  }
  if (const auto* x = s.As<ir::While>()) {
    Loads(x->condition);
    ir::Facts inner = *facts;
    return Visit(x->body, &inner);
  }
  if (const auto* x = s.As<ir::Bind>()) {
    Loads(x->value);
    facts->SetValue(x->var, x->value);
    return true;
  }
  if (const auto* x = s.As<ir::Alloc>()) return Loads(x->init), true;
  if (const auto* x = s.As<ir::Store>()) {
    Loads(x->value);
    Loads(x->predicate);
    return StoreTo(x->buffer, x->indices, *facts), true;
  }
  if (const auto* x = s.As<ir::Copy>()) return Match(x->src, x->dst, *facts), true;
  if (const auto* x = s.As<ir::Fill>()) return Loads(x->value), Touch(x->dst), true;
  if (const auto* x = s.As<ir::Gemm>()) return Gemm(*x);
  if (const auto* x = s.As<ir::Reduce>()) return Reduce(*x), true;
  if (const auto* x = s.As<ir::Assert>()) return Loads(x->condition), true;
  return s.kind() == ir::StmtKind::kBreak || s.kind() == ir::StmtKind::kContinue;
}

// Shrinks the axes that the analysis found.
class Narrower : public ir::Mutator {
 public:
  explicit Narrower(Analysis* analysis) : analysis_(analysis) {}
  bool changed() const { return changed_; }

 protected:
  ir::Buffer VisitBuffer(const ir::Buffer& b) override {
    if (!IsTile(b)) return b;
    const auto known = buffers_.find(b.get());
    if (known != buffers_.end()) return known->second;
    std::vector<ir::Expr> shape = b->shape;
    bool shrinks = false;
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto slice = SliceOf(b, d);
      if (!slice) continue;
      shape[d] = ir::MakeInt(slice->second);
      shrinks = true;
    }
    changed_ |= shrinks;
    return buffers_[b.get()] =
               shrinks ? ir::MakeBuffer(b->name, b->dtype, std::move(shape), b->scope) : b;
  }

  ir::Expr VisitExpr(const ir::Expr& e) override {
    if (const auto* load = e.As<ir::Load>()) {
      return ir::MakeLoad(VisitBuffer(load->buffer), Shifted(load->buffer, load->indices),
                          load->predicate.defined() ? Mutate(load->predicate) : load->predicate);
    }
    return Mutator::VisitExpr(e);
  }

  ir::Stmt VisitStmt(const ir::Stmt& s) override {
    if (const auto* x = s.As<ir::Store>()) {
      return ir::MakeStmt<ir::Store>(s->loc, VisitBuffer(x->buffer), Shifted(x->buffer, x->indices),
                                     Mutate(x->value),
                                     x->predicate.defined() ? Mutate(x->predicate) : x->predicate);
    }
    if (const auto* x = s.As<ir::Copy>()) {
      const auto [src, dst] = Pair(x->src, x->dst);
      return ir::MakeStmt<ir::Copy>(s->loc, src, dst);
    }
    if (const auto* x = s.As<ir::Fill>()) {
      return ir::MakeStmt<ir::Fill>(s->loc, Cut(x->dst), Mutate(x->value));
    }
    if (const auto* x = s.As<ir::Gemm>()) {
      return ir::MakeStmt<ir::Gemm>(s->loc, Cut(x->a), Cut(x->b), Cut(x->c), x->trans_a, x->trans_b,
                                    x->policy, Mutate(x->clear_accum));
    }
    if (const auto* x = s.As<ir::Reduce>()) {
      return ir::MakeStmt<ir::Reduce>(s->loc, x->op, Cut(x->src), Cut(x->dst), x->dim, x->clear);
    }
    if (const auto* x = s.As<ir::For>()) {
      std::vector<ir::Axis> axes = x->axes;
      for (ir::Axis& axis : axes) {
        const auto loop = analysis_->loops.find(axis.var.get());
        if (loop == analysis_->loops.end()) continue;
        const auto slice = analysis_->classes.Slice({axis.var.get(), -1}, loop->second);
        if (!slice) continue;
        axis.min = ir::MakeInt(slice->first);
        axis.extent = ir::MakeInt(slice->second);
        changed_ = true;
      }
      for (ir::Axis& axis : axes) axis.min = Mutate(axis.min), axis.extent = Mutate(axis.extent);
      return ir::MakeStmt<ir::For>(s->loc, x->loop, std::move(axes), Mutate(x->body), x->num_stages,
                                   x->annotations);
    }
    return Mutator::VisitStmt(s);
  }

 private:
  std::optional<std::pair<int64_t, int64_t>> SliceOf(const ir::Buffer& b, size_t d) {
    const auto extent = ir::ConstInt(b->shape[d]);
    if (!IsTile(b) || !extent) return std::nullopt;
    return analysis_->classes.Slice({b.get(), static_cast<int>(d)}, *extent);
  }

  std::vector<ir::Expr> Shifted(const ir::Buffer& b, const std::vector<ir::Expr>& indices) {
    std::vector<ir::Expr> shifted = MutateAll(indices);
    for (size_t d = 0; d < shifted.size(); ++d) {
      const auto slice = IsTile(b) ? SliceOf(b, d) : std::nullopt;
      if (slice) shifted[d] = shifted[d] - ir::MakeInt(slice->first);
    }
    return shifted;
  }

  // A tile's region with its shrunk dimensions, which were whole.
  ir::Region Cut(const ir::Region& region) {
    ir::Region cut = MutateRegion(region);
    for (size_t d = 0; d < cut.ranges.size(); ++d) {
      if (const auto slice = SliceOf(region.buffer, d)) {
        cut.ranges[d] = {ir::MakeInt(0), ir::MakeInt(slice->second)};
      }
    }
    return cut;
  }

  // Both sides of a copy: a tensor's dimension shrinks with the tile's that it goes with.
  std::pair<ir::Region, ir::Region> Pair(const ir::Region& a, const ir::Region& b) {
    std::pair<ir::Region, ir::Region> cut = {Cut(a), Cut(b)};
    const auto pairs = ir::PairDims(a, b);
    if (!pairs) return cut;  // then nothing here shrinks
    const auto follow = [&](const ir::Region& tile, size_t d, ir::Region* other, size_t o) {
      const auto slice = SliceOf(tile.buffer, d);
      if (!slice || IsTile(other->buffer)) return;
      other->ranges[o].min = other->ranges[o].min + ir::MakeInt(slice->first);
      other->ranges[o].extent = ir::MakeInt(slice->second);
    };
    for (size_t d = 0; d < pairs->size(); ++d) {
      if ((*pairs)[d] < 0) continue;
      const auto other = static_cast<size_t>((*pairs)[d]);
      follow(a, d, &cut.second, other);
      follow(b, other, &cut.first, d);
    }
    return cut;
  }

  Analysis* analysis_;
  std::unordered_map<const ir::BufferNode*, ir::Buffer> buffers_;
  bool changed_ = false;
};

}  // namespace

std::optional<ir::Stmt> NarrowLaunch(const ir::Launch& launch, const int64_t (&block)[3],
                                     const Wanted& wanted, const ir::Facts& facts) {
  if (launch.annotations.count(ir::kSharesMemory) > 0) return std::nullopt;  // others read the rest
  ir::Facts known = facts;
  for (size_t d = 0; d < launch.grid.size(); ++d) {
    known.SetBounds(launch.grid[d].var, {block[d], block[d]});
  }
  Analysis analysis(wanted);
  if (!analysis.Visit(launch.body, &known)) return std::nullopt;
  Narrower narrower(&analysis);
  const ir::Stmt body = narrower.Mutate(launch.body);
  if (!narrower.changed()) return std::nullopt;
  return ir::MakeStmt<ir::Launch>(launch.loc, launch.grid, launch.threads, body,
                                  launch.annotations);
}

std::optional<ir::Program> Narrow(const ir::Program& program, const int64_t (&block)[3],
                                  const ir::Buffer& output,
                                  const std::vector<std::pair<int64_t, int64_t>>& box,
                                  const ir::Facts& facts) {
  ir::Stmt launch;
  int launches = 0;
  ir::Walk(program.body, [&](const ir::Stmt& s) {
    if (s.kind() != ir::StmtKind::kLaunch) return true;
    launch = s;
    ++launches;
    return false;
  });
  if (launches != 1) return std::nullopt;
  const auto narrowed = NarrowLaunch(*launch.As<ir::Launch>(), block, {{output.get(), box}}, facts);
  if (!narrowed) return std::nullopt;
  ir::Program narrow = program;
  narrow.body = ir::RewriteStmts(
      program.body, [&](const ir::Stmt& s) { return s.same_as(launch) ? *narrowed : ir::Stmt(); });
  return narrow;
}

}  // namespace kiln::interp
