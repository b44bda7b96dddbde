#include "compiler/ir/reducers.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/access.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

const char* Written(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMax:
      return "x[i] = T.max(x[i], value)";
    case ReduceOp::kMin:
      return "x[i] = T.min(x[i], value)";
    case ReduceOp::kBitAnd:
      return "x[i] &= value";
    case ReduceOp::kBitOr:
      return "x[i] |= value";
    case ReduceOp::kBitXor:
      return "x[i] ^= value";
    default:
      return "x[i] += value";
  }
}

BinaryOp Combining(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMax:
      return BinaryOp::kMax;
    case ReduceOp::kMin:
      return BinaryOp::kMin;
    case ReduceOp::kBitAnd:
      return BinaryOp::kBitAnd;
    case ReduceOp::kBitOr:
      return BinaryOp::kBitOr;
    case ReduceOp::kBitXor:
      return BinaryOp::kBitXor;
    default:
      return BinaryOp::kAdd;
  }
}

Expr Combine(ReduceOp op, const Expr& a, const Expr& b) {
  const auto [x, y] = MatchTypes(a, b);
  return MakeBinary(Combining(op), x, y);
}

bool LosesNothing(DType from, DType to) {
  if (from.is_float() && to.is_float()) return to.bits > from.bits;
  return from.is_int() && to.is_int() && from.is_uint() == to.is_uint() && to.bits > from.bits;
}

// What an expression adds to `place` by the reducer's operation; nullopt where it is no such
// expression. An undefined Expr: nothing, it is the place itself.
std::optional<Expr> Contribution(const Expr& e, const Store& place, ReduceOp op) {
  if (const auto* load = e.As<Load>()) {
    const bool same = load->buffer == place.buffer &&
                      std::equal(load->indices.begin(), load->indices.end(), place.indices.begin(),
                                 [](const Expr& a, const Expr& b) { return Same(a, b); });
    return same ? std::optional<Expr>(Expr()) : std::nullopt;
  }
  if (const auto* cast = e.As<Cast>()) {
    return LosesNothing(cast->a.dtype(), e.dtype()) ? Contribution(cast->a, place, op)
                                                    : std::nullopt;
  }
  const auto* binary = e.As<Binary>();
  if (binary == nullptr) return std::nullopt;
  const bool minus = binary->op == BinaryOp::kSub && op == ReduceOp::kSum;
  if (binary->op != Combining(op) && !minus) return std::nullopt;
  if (const auto rest = Contribution(binary->a, place, op)) {
    const Expr other = minus ? MakeUnary(UnaryOp::kNeg, binary->b) : binary->b;
    return rest->defined() ? Combine(op, *rest, other) : other;
  }
  if (minus) return std::nullopt;
  const auto rest = Contribution(binary->b, place, op);
  if (!rest) return std::nullopt;
  return rest->defined() ? Combine(op, binary->a, *rest) : binary->a;
}

// What a store adds to its place. The place's own type may be narrower than the arithmetic: sums
// wrap around or round then as they would one by one.
std::optional<Expr> Added(const Store& store, ReduceOp op) {
  const auto* cast = store.value.As<Cast>();
  const bool narrows = cast != nullptr && cast->a.dtype().is_float() == cast->dtype.is_float() &&
                       (op == ReduceOp::kSum || cast->dtype.is_float());
  return Contribution(narrows ? cast->a : store.value, store, op);
}

using Index = std::unordered_map<const BufferNode*, size_t>;

Index IndexOf(const std::vector<Reducer>& reducers) {
  Index index;
  for (size_t r = 0; r < reducers.size(); ++r) index[reducers[r].buffer.get()] = r;
  return index;
}

// Cleared, updated, finalised, read: along every way through the kernel.
class LifeCycle {
 public:
  LifeCycle(const std::vector<Reducer>& reducers, const SourceFile& source)
      : reducers_(reducers), source_(source), index_(IndexOf(reducers)) {
    for (size_t r = 0; r < reducers.size(); ++r) {
      for (const Stmt& s : reducers[r].finals) finals_[s.get()] = r;
    }
    finalised_.resize(reducers.size(), false);
  }

  absl::Status Check(const Stmt& s) {
    if (const auto* seq = s.As<Seq>()) {
      for (const Stmt& child : seq->stmts) KILN_RETURN_IF_ERROR(Check(child));
      return absl::OkStatus();
    }
    if (const auto* loop = s.As<For>()) {
      for (const Axis& axis : loop->axes) {
        KILN_RETURN_IF_ERROR(Reads(axis.min, s->loc));
        KILN_RETURN_IF_ERROR(Reads(axis.extent, s->loc));
      }
      const auto trips = ConstInt(loop->axes[0].extent);
      return Again(loop->body, /*always=*/trips && *trips > 0);
    }
    if (const auto* loop = s.As<While>()) {
      KILN_RETURN_IF_ERROR(Reads(loop->condition, s->loc));
      return Again(loop->body, /*always=*/false);
    }
    if (const auto* branch = s.As<If>()) {
      KILN_RETURN_IF_ERROR(Reads(branch->condition, s->loc));
      const std::vector<bool> before = finalised_;
      KILN_RETURN_IF_ERROR(Check(branch->then_case));
      std::vector<bool> taken = std::exchange(finalised_, before);
      if (branch->else_case.defined()) KILN_RETURN_IF_ERROR(Check(branch->else_case));
      KeepWhereAlso(taken);
      return absl::OkStatus();
    }
    if (const auto* launch = s.As<Launch>()) return Check(launch->body);
    if (const auto* part = s.As<OnThreads>()) return Check(part->body);
    return CheckLeaf(s);
  }

 private:
  absl::Status Error(SourceLoc loc, const Reducer& r, absl::string_view what,
                     std::string remedy) const {
    return ErrorAt(source_, loc, absl::StrCat("the reducer '", r.buffer->name, "' ", what),
                   std::move(remedy));
  }

  // What follows holds however often the body runs, but at least once where that is `always` so.
  absl::Status Again(const Stmt& body, bool always) {
    const std::vector<bool> before = finalised_;
    KILN_RETURN_IF_ERROR(Check(body));
    if (finalised_ != before) KILN_RETURN_IF_ERROR(Check(body));
    if (!always) KeepWhereAlso(before);
    return absl::OkStatus();
  }

  // A reducer is finalised only where it is on both of two ways.
  void KeepWhereAlso(const std::vector<bool>& other) {
    for (size_t r = 0; r < other.size(); ++r) finalised_[r] = finalised_[r] && other[r];
  }

  absl::Status Read(const Buffer& b, SourceLoc loc) const {
    const auto found = index_.find(b.get());
    if (found == index_.end() || finalised_[found->second]) return absl::OkStatus();
    return Error(loc, reducers_[found->second], "is read before it is finalised",
                 "call T.finalize_reducer first");
  }

  absl::Status Reads(const Expr& e, SourceLoc loc) const {
    absl::Status status;
    Walk(e, [&](const Expr& x) {
      const auto* load = x.As<Load>();
      if (status.ok() && load != nullptr) status = Read(load->buffer, loc);
      return status.ok();
    });
    return status;
  }

  absl::Status CheckLeaf(const Stmt& s) {
    if (const auto final = finals_.find(s.get()); final != finals_.end()) {
      const size_t r = final->second;
      if (finalised_[r]) {
        return Error(s->loc, reducers_[r], "is finalised twice", "clear it with T.clear between");
      }
      finalised_[r] = true;
      return absl::OkStatus();
    }
    if (const auto* alloc = s.As<Alloc>()) {
      const auto reducer = index_.find(alloc->buffer.get());
      if (reducer != index_.end()) finalised_[reducer->second] = false;
    }
    const auto* store = s.As<Store>();
    const auto* fill = s.As<Fill>();
    const Buffer& written = store != nullptr  ? store->buffer
                            : fill != nullptr ? fill->dst.buffer
                                              : nullptr;
    const auto found = written == nullptr ? index_.end() : index_.find(written.get());
    if (found == index_.end()) {
      for (const Buffer& b : BuffersRead(s)) KILN_RETURN_IF_ERROR(Read(b, s->loc));
      for (const Buffer& b : BuffersWritten(s)) {
        if (s.As<Alloc>() != nullptr || index_.count(b.get()) == 0) continue;
        return Error(s->loc, reducers_[index_.at(b.get())], "is written as a whole",
                     "clear it with T.clear, and update its elements in T.Parallel");
      }
      return absl::OkStatus();
    }
    return store != nullptr ? CheckUpdate(*store, found->second) : CheckFill(*fill, found->second);
  }

  absl::Status CheckUpdate(const Store& store, size_t r) {
    const Reducer& reducer = reducers_[r];
    const auto value = Added(store, reducer.op);
    const auto* cast = store.value.As<Cast>();
    if (!value && cast != nullptr && cast->a.dtype().bits > cast->dtype.bits) {
      return Error(store.loc, reducer,
                   absl::StrCat("of ", cast->dtype.ToString(), " is updated by values of ",
                                cast->a.dtype().ToString()),
                   absl::StrCat("cast the value: T.cast(value, \"", cast->dtype.ToString(), "\")"));
    }
    if (!value || !value->defined()) {
      return Error(store.loc, reducer, "is stored to by another operation than its own",
                   absl::StrCat("write ", Written(reducer.op), ", or use a fragment"));
    }
    if (finalised_[r]) {
      return Error(store.loc, reducer, "is updated after it is finalised",
                   "clear it with T.clear first");
    }
    for (const Expr& index : store.indices) KILN_RETURN_IF_ERROR(Reads(index, store.loc));
    return Reads(*value, store.loc);
  }

  absl::Status CheckFill(const Fill& fill, size_t r) {
    for (size_t d = 0; d < fill.dst.ranges.size(); ++d) {
      const Range& range = fill.dst.ranges[d];
      if (IsConst(range.min, 0) && Same(range.extent, fill.dst.buffer->shape[d])) continue;
      return Error(fill.loc, reducers_[r], "is filled in part", "fill all of it");
    }
    finalised_[r] = false;
    return Reads(fill.value, fill.loc);
  }

  const std::vector<Reducer>& reducers_;
  const SourceFile& source_;
  const Index index_;
  std::unordered_map<const StmtNode*, size_t> finals_;
  std::vector<bool> finalised_;
};

// The places of the iterations of loops that run over equally many elements besides the reducer's,
// in one part of the block.
struct Partial {
  const OnThreads* part;      // null: all of it
  std::vector<int> named_by;  // which axis of the loops each index of the reducer is; -1: none
  Expr extent;
  Buffer buffer;  // the reducer's shape, then `extent`
};

class Resolver : public Mutator {
 public:
  Resolver(const std::vector<Reducer>& reducers, const std::vector<Expr>& open,
           const SourceFile& source)
      : reducers_(reducers), source_(source), index_(IndexOf(reducers)), open_(open) {
    partials_.resize(reducers.size());
  }

  absl::StatusOr<Stmt> Resolve(const Stmt& body) {
    updates_ = true;
    const Stmt updated = Mutate(body);
    KILN_RETURN_IF_ERROR(status_);
    updates_ = false;  // now it is known which tiles there are
    return Mutate(updated);
  }

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    if (updates_) return VisitUpdates(s);
    if (const auto* seq = s.As<Seq>()) return VisitSeq(*seq);
    if (const auto* fill = s.As<Fill>()) {
      const auto found = index_.find(fill->dst.buffer.get());
      return found == index_.end() ? s : MakeSeq(Filled(found->second, s), s->loc);
    }
    for (size_t r = 0; r < reducers_.size(); ++r) {
      for (const Stmt& final : reducers_[r].finals) {
        if (final.same_as(s)) return Folded(r, s->loc);
      }
    }
    return RebuildStmt(s);
  }

 private:
  // ---- updates ----

  Stmt VisitUpdates(const Stmt& s) {
    if (const auto* part = s.As<OnThreads>()) {
      part_ = part;
      const Stmt rebuilt = RebuildStmt(s);
      part_ = nullptr;
      return rebuilt;
    }
    const auto* loop = s.As<For>();
    if (loop != nullptr && loop->loop == ForKind::kParallel) {
      const size_t outer = axes_.size();
      if (outer == 0) direct_.clear();
      axes_.insert(axes_.end(), loop->axes.begin(), loop->axes.end());
      const Stmt rebuilt = RebuildStmt(s);
      axes_.resize(outer);
      return rebuilt;
    }
    const auto* store = s.As<Store>();
    const auto found = store == nullptr ? index_.end() : index_.find(store->buffer.get());
    if (found == index_.end() || axes_.empty()) return RebuildStmt(s);
    return Update(found->second, s, *store);
  }

  Stmt Update(size_t r, const Stmt& s, const Store& store) {
    std::vector<const Axis*> rest;  // axes that no index of the reducer is
    std::vector<int> named_by(store.indices.size(), -1);
    for (const Axis& axis : axes_) {
      const auto is = [&](const Expr& index) { return index.same_as(axis.var); };
      const auto named = std::count_if(store.indices.begin(), store.indices.end(), is);
      for (size_t d = 0; d < store.indices.size(); ++d) {
        const Expr& index = store.indices[d];
        if (is(index)) named_by[d] = static_cast<int>(&axis - axes_.data());
        if (!is(index) && Uses(index, axis.var) && status_.ok()) {
          status_ =
              ErrorAt(source_, store.loc,
                      absl::StrCat("the reducer '", store.buffer->name,
                                   "' is updated at a place that is computed from an axis "
                                   "of the loop"),
                      "index it by the axes themselves, or use T.atomic_add on a shared tile");
        }
      }
      if (named == 0 && !IsConst(axis.extent, 1)) rest.push_back(&axis);
    }
    // Iterations have places of their own as it is, but for those that another update gives.
    if (rest.empty() && direct_.try_emplace(r, named_by).first->second == named_by) return s;
    for (const Axis* axis : rest) {
      bool known = true;
      Walk(axis->extent, [&](const Expr& x) {
        known &= x.kind() != ExprKind::kLoad &&
                 (x.kind() != ExprKind::kVar ||
                  std::count_if(open_.begin(), open_.end(),
                                [&](const Expr& tunable) { return tunable.same_as(x); }) > 0);
        return known;
      });
      if (known || !status_.ok()) continue;
      status_ = ErrorAt(source_, store.loc,
                        absl::StrCat("the reducer '", store.buffer->name,
                                     "' is updated in a loop whose extent is not known when the "
                                     "kernel is compiled"),
                        "loop over a constant extent and guard the rest with an if");
    }
    Expr extent = MakeInt(1), place = MakeInt(0);
    for (const Axis* axis : rest) {
      extent = extent * axis->extent;
      place = place * axis->extent + (axis->var - axis->min);
    }
    const Buffer& partial = PartialOf(r, extent, named_by);
    std::vector<Expr> at = store.indices;
    at.push_back(place);
    const ReduceOp op = reducers_[r].op;
    const Expr value = MakeCast(partial->dtype, *Added(store, op));
    return MakeStmt<Store>(store.loc, partial, at, Combine(op, MakeLoad(partial, at), value),
                           store.predicate);
  }

  const Buffer& PartialOf(size_t r, const Expr& extent, const std::vector<int>& named_by) {
    for (const Partial& partial : partials_[r]) {
      if (partial.part == part_ && partial.named_by == named_by && Same(partial.extent, extent)) {
        return partial.buffer;
      }
    }
    const Buffer& whole = reducers_[r].buffer;
    std::vector<Expr> shape = whole->shape;
    shape.push_back(extent);
    std::string name = absl::StrCat(whole->name, ".partial");
    if (!partials_[r].empty()) absl::StrAppend(&name, partials_[r].size());
    partials_[r].push_back(
        {part_, named_by, extent, MakeBuffer(name, whole->dtype, shape, whole->scope)});
    return partials_[r].back().buffer;
  }

  // ---- the tiles of partial results ----

  Stmt VisitSeq(const Seq& seq) {
    std::vector<Stmt> stmts;
    for (size_t i = 0; i < seq.stmts.size(); ++i) {
      const Stmt& child = seq.stmts[i];
      stmts.push_back(Mutate(child));
      const auto* alloc = child.As<Alloc>();
      const auto found = alloc == nullptr ? index_.end() : index_.find(alloc->buffer.get());
      if (found == index_.end()) continue;
      const size_t r = found->second;
      for (const Partial& partial : partials_[r]) {
        stmts.push_back(MakeStmt<Alloc>(child->loc, partial.buffer));
      }
      if (IsFilledNext(seq, i, alloc->buffer)) continue;
      const Stmt start = MakeStmt<Fill>(child->loc, WholeBuffer(alloc->buffer),
                                        ReducerIdentity(reducers_[r].op, alloc->buffer->dtype));
      for (const Stmt& fill : Filled(r, start)) stmts.push_back(fill);
    }
    return MakeStmt<Seq>(seq.loc, std::move(stmts));
  }

  // Whether the first statement after an allocation that touches the reducer fills it.
  static bool IsFilledNext(const Seq& seq, size_t allocation, const Buffer& reducer) {
    for (size_t i = allocation + 1; i < seq.stmts.size(); ++i) {
      if (Touches(seq.stmts[i], reducer)) return BeginsWithFill(seq.stmts[i], reducer);
    }
    return false;
  }

  static bool BeginsWithFill(const Stmt& s, const Buffer& reducer) {
    if (const auto* part = s.As<OnThreads>()) return BeginsWithFill(part->body, reducer);
    if (const auto* seq = s.As<Seq>()) {
      const auto first = std::find_if(seq->stmts.begin(), seq->stmts.end(),
                                      [&](const Stmt& x) { return Touches(x, reducer); });
      return first != seq->stmts.end() && BeginsWithFill(*first, reducer);
    }
    const auto* fill = s.As<Fill>();
    return fill != nullptr && fill->dst.buffer == reducer;
  }

  static bool Touches(const Stmt& s, const Buffer& reducer) {
    const std::vector<Buffer> read = BuffersRead(s), written = BuffersWritten(s);
    return std::find(read.begin(), read.end(), reducer) != read.end() ||
           std::find(written.begin(), written.end(), reducer) != written.end();
  }

  // `fill` of the reducer, and its partial results from nothing.
  std::vector<Stmt> Filled(size_t r, const Stmt& fill) const {
    std::vector<Stmt> stmts = {fill};
    for (const Partial& partial : partials_[r]) {
      stmts.push_back(MakeStmt<Fill>(fill->loc, WholeBuffer(partial.buffer),
                                     ReducerIdentity(reducers_[r].op, partial.buffer->dtype)));
    }
    return stmts;
  }

  Stmt Folded(size_t r, SourceLoc loc) const {
    std::vector<Stmt> stmts;
    const Buffer& whole = reducers_[r].buffer;
    for (const Partial& partial : partials_[r]) {
      stmts.push_back(MakeStmt<Reduce>(loc, reducers_[r].op, WholeBuffer(partial.buffer),
                                       WholeBuffer(whole), static_cast<int>(whole->shape.size()),
                                       /*clear=*/false));
    }
    return MakeSeq(std::move(stmts), loc);
  }

  const std::vector<Reducer>& reducers_;
  const SourceFile& source_;
  const Index index_;
  std::vector<std::vector<Partial>> partials_;  // by reducer
  bool updates_ = false;
  std::vector<Axis> axes_;                               // of the parallel loops around
  std::unordered_map<size_t, std::vector<int>> direct_;  // of the loop: named_by of plain updates
  const OnThreads* part_ = nullptr;                      // the part of the block around
  const std::vector<Expr>& open_;                        // variables that have a value in the end
  absl::Status status_;
};

}  // namespace

Expr ReducerIdentity(ReduceOp op, DType type) {
  switch (op) {
    case ReduceOp::kMax:
      return Extreme(type, false);
    case ReduceOp::kMin:
      return Extreme(type, true);
    case ReduceOp::kBitAnd:
      return MakeConst(-1, type);
    default:
      return MakeConst(0, type);
  }
}

Expr ReducerUpdate(ReduceOp op, const Expr& old, const Expr& value) {
  return Combine(op, old, value);
}

absl::StatusOr<Stmt> ResolveReducers(const Stmt& body, const std::vector<Reducer>& reducers,
                                     const std::vector<Expr>& open, const SourceFile& source) {
  if (reducers.empty()) return body;
  KILN_RETURN_IF_ERROR(LifeCycle(reducers, source).Check(body));
  KILN_ASSIGN_OR_RETURN(const Stmt resolved, Resolver(reducers, open, source).Resolve(body));
  for (const Reducer& reducer : reducers) {
    if (!reducer.finals.empty()) continue;
    return ErrorAt(source, reducer.loc,
                   absl::StrCat("the reducer '", reducer.buffer->name, "' is never finalised"),
                   "call T.finalize_reducer before its result is read");
  }
  return resolved;
}

}  // namespace kiln::ir
