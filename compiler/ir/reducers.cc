#include "compiler/ir/reducers.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

const char* Written(ReduceOp op) {
  return op == ReduceOp::kSum   ? "x[i] += value"
         : op == ReduceOp::kMax ? "x[i] = T.max(x[i], value)"
                                : "x[i] = T.min(x[i], value)";
}

BinaryOp Combining(ReduceOp op) {
  return op == ReduceOp::kSum   ? BinaryOp::kAdd
         : op == ReduceOp::kMax ? BinaryOp::kMax
                                : BinaryOp::kMin;
}

Expr Identity(ReduceOp op, DType type) {
  if (op == ReduceOp::kSum) return MakeConst(0, type);
  const bool least = op == ReduceOp::kMax;
  if (type.is_float()) {
    const double infinity = std::numeric_limits<double>::infinity();
    return MakeConst(least ? -infinity : infinity, type);
  }
  if (type.is_uint() && least) return MakeInt(0, type);
  const int bits = type.bits - (type.is_uint() ? 0 : 1);
  const uint64_t most = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return MakeInt(static_cast<int64_t>(least ? ~most : most), type);
}

Expr Combine(ReduceOp op, const Expr& a, const Expr& b) {
  const auto [x, y] = MatchTypes(a, b);
  return MakeBinary(Combining(op), x, y);
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
    const DType from = cast->a.dtype(), to = e.dtype();
    const bool alike = (from.is_float() && to.is_float()) || (from.is_int() && to.is_int());
    return alike ? Contribution(cast->a, place, op) : std::nullopt;
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

using Index = std::unordered_map<const BufferNode*, size_t>;

Index IndexOf(const std::vector<Reducer>& reducers) {
  Index index;
  for (size_t r = 0; r < reducers.size(); ++r) index[reducers[r].buffer.get()] = r;
  return index;
}

// Cleared, updated, finalised, read: in the order of the text, loops twice.
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
    if (const auto* loop = s.As<For>()) return Twice(loop->body);
    if (const auto* loop = s.As<While>()) {
      KILN_RETURN_IF_ERROR(Reads(loop->condition, s->loc));
      return Twice(loop->body);
    }
    if (const auto* branch = s.As<If>()) {
      KILN_RETURN_IF_ERROR(Reads(branch->condition, s->loc));
      KILN_RETURN_IF_ERROR(Check(branch->then_case));
      return branch->else_case.defined() ? Check(branch->else_case) : absl::OkStatus();
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

  absl::Status Twice(const Stmt& body) {
    KILN_RETURN_IF_ERROR(Check(body));
    return Check(body);
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
      finalised_[final->second] = true;
      return absl::OkStatus();
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
    const auto value = Contribution(store.value, store, reducer.op);
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

// The places of the iterations of loops that run over equally many elements besides the reducer's.
struct Partial {
  Expr extent;
  Buffer buffer;  // the reducer's shape, then `extent`
};

class Resolver : public Mutator {
 public:
  Resolver(const std::vector<Reducer>& reducers, const SourceFile& source)
      : reducers_(reducers), source_(source), index_(IndexOf(reducers)) {
    partials_.resize(reducers.size());
    filled_.resize(reducers.size(), false);
  }

  absl::StatusOr<Stmt> Resolve(const Stmt& body) {
    Walk(body, [&](const Stmt& s) {
      if (const auto* fill = s.As<Fill>()) {
        const auto found = index_.find(fill->dst.buffer.get());
        if (found != index_.end()) filled_[found->second] = true;
      }
      return true;
    });
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
    const auto* loop = s.As<For>();
    if (loop != nullptr && loop->loop == ForKind::kParallel) {
      const For* outer = std::exchange(loop_, loop);
      const Stmt rebuilt = RebuildStmt(s);
      loop_ = outer;
      return rebuilt;
    }
    const auto* store = s.As<Store>();
    const auto found = store == nullptr ? index_.end() : index_.find(store->buffer.get());
    if (found == index_.end() || loop_ == nullptr) return RebuildStmt(s);
    return Update(found->second, s, *store);
  }

  Stmt Update(size_t r, const Stmt& s, const Store& store) {
    std::vector<const Axis*> rest;  // axes that no index of the reducer is
    for (const Axis& axis : loop_->axes) {
      const auto is = [&](const Expr& index) { return index.same_as(axis.var); };
      const auto named = std::count_if(store.indices.begin(), store.indices.end(), is);
      for (const Expr& index : store.indices) {
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
    if (rest.empty()) return s;
    Expr extent = MakeInt(1), place = MakeInt(0);
    for (const Axis* axis : rest) {
      extent = extent * axis->extent;
      place = place * axis->extent + (axis->var - axis->min);
    }
    const Buffer& partial = PartialOf(r, extent);
    std::vector<Expr> at = store.indices;
    at.push_back(place);
    const ReduceOp op = reducers_[r].op;
    const Expr value = MakeCast(partial->dtype, *Contribution(store.value, store, op));
    return MakeStmt<Store>(store.loc, partial, at, Combine(op, MakeLoad(partial, at), value),
                           store.predicate);
  }

  const Buffer& PartialOf(size_t r, const Expr& extent) {
    for (const Partial& partial : partials_[r]) {
      if (Same(partial.extent, extent)) return partial.buffer;
    }
    const Buffer& whole = reducers_[r].buffer;
    std::vector<Expr> shape = whole->shape;
    shape.push_back(extent);
    std::string name = absl::StrCat(whole->name, "_partial");
    if (!partials_[r].empty()) absl::StrAppend(&name, partials_[r].size());
    partials_[r].push_back({extent, MakeBuffer(name, whole->dtype, shape, whole->scope)});
    return partials_[r].back().buffer;
  }

  // ---- the tiles of partial results ----

  Stmt VisitSeq(const Seq& seq) {
    std::vector<Stmt> stmts;
    for (const Stmt& child : seq.stmts) {
      stmts.push_back(Mutate(child));
      const auto* alloc = child.As<Alloc>();
      const auto found = alloc == nullptr ? index_.end() : index_.find(alloc->buffer.get());
      if (found == index_.end()) continue;
      const size_t r = found->second;
      for (const Partial& partial : partials_[r]) {
        stmts.push_back(MakeStmt<Alloc>(child->loc, partial.buffer));
      }
      if (filled_[r]) continue;
      const Buffer& whole = reducers_[r].buffer;
      const Stmt start =
          MakeStmt<Fill>(child->loc, WholeBuffer(whole), Identity(reducers_[r].op, whole->dtype));
      for (const Stmt& fill : Filled(r, start)) stmts.push_back(fill);
    }
    return MakeStmt<Seq>(seq.loc, std::move(stmts));
  }

  // `fill` of the reducer, and its partial results from nothing.
  std::vector<Stmt> Filled(size_t r, const Stmt& fill) const {
    std::vector<Stmt> stmts = {fill};
    for (const Partial& partial : partials_[r]) {
      stmts.push_back(MakeStmt<Fill>(fill->loc, WholeBuffer(partial.buffer),
                                     Identity(reducers_[r].op, partial.buffer->dtype)));
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
  std::vector<bool> filled_;                    // by reducer: the kernel says what it starts from
  bool updates_ = false;
  const For* loop_ = nullptr;  // the parallel loop around
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Stmt> ResolveReducers(const Stmt& body, const std::vector<Reducer>& reducers,
                                     const SourceFile& source) {
  if (reducers.empty()) return body;
  KILN_RETURN_IF_ERROR(LifeCycle(reducers, source).Check(body));
  return Resolver(reducers, source).Resolve(body);
}

}  // namespace kiln::ir
