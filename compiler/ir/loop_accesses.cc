#include "compiler/ir/loop_accesses.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

bool MayMeetIn(const Buffer& b) {
  return b->scope == Scope::kShared || b->scope == Scope::kGlobal || b->scope == Scope::kFragment;
}

std::string TextOf(const Buffer& buffer, const std::vector<Expr>& indices) {
  const auto print = [](std::string* out, const Expr& e) { absl::StrAppend(out, ToString(e)); };
  return absl::StrCat(buffer->name, "[", absl::StrJoin(indices, ", ", print), "]");
}

class Collector {
 public:
  Collector(const For& loop, const VarMap& binds, const Facts& facts)
      : binds_(binds), facts_(facts) {
    for (const Axis& axis : loop.axes) {
      found_.bound.insert(axis.var.get());
      facts_.AddAxis(axis);
      // Of an extent that only the run knows the first two iterations are looked at.
      const auto min = ConstInt(axis.min), extent = ConstInt(axis.extent);
      if (min) found_.axes.push_back({axis.var, *min, extent.value_or(2)});
    }
    Prepare(loop.body);
  }

  LoopAccesses Collect(const Stmt& body) {
    if (!outside_.empty()) Visit(body);
    return std::move(found_);
  }

 private:
  // What the body binds and stores to.
  void Prepare(const Stmt& body) {
    std::unordered_set<const BufferNode*> own;
    Walk(body, [&](const Stmt& s) {
      if (const auto* bind = s.As<Bind>()) found_.bound.insert(bind->var.get());
      if (const auto* alloc = s.As<Alloc>()) own.insert(alloc->buffer.get());
      const auto* store = s.As<Store>();
      if (store != nullptr && MayMeetIn(store->buffer)) outside_.insert(store->buffer.get());
      return true;
    });
    for (const Buffer& b : BuffersWritten(body)) found_.stored.insert(b.get());
    for (const BufferNode* b : own) {
      outside_.erase(b);
      found_.stored.insert(b);
    }
  }

  void Visit(const Stmt& s) {
    switch (s.kind()) {
      case StmtKind::kSeq:
        for (const Stmt& child : s.As<Seq>()->stmts) Visit(child);
        return;
      case StmtKind::kFor:
        return VisitLoop(*s.As<For>());
      case StmtKind::kWhile:
        Reads(s.As<While>()->condition, s->loc);
        return Unknown([&] { Visit(s.As<While>()->body); });
      case StmtKind::kIf: {
        const auto& branch = *s.As<If>();
        Reads(branch.condition, s->loc);
        const Expr closed = Substitute(branch.condition, binds_);
        Under(closed, true, [&] { Visit(branch.then_case); });
        if (branch.else_case.defined()) Under(closed, false, [&] { Visit(branch.else_case); });
        return;
      }
      case StmtKind::kBind:
        Reads(s.As<Bind>()->value, s->loc);
        binds_[s.As<Bind>()->var.get()] = Substitute(s.As<Bind>()->value, binds_);
        return;
      case StmtKind::kStore:
        return VisitStore(*s.As<Store>());
      case StmtKind::kAtomic:
        return VisitAtomic(*s.As<Atomic>());
      default:
        Walk(
            s, [](const Stmt&) { return true; },
            [&](const Expr& e) {
              Reads(e, s->loc);
              return false;
            });
    }
  }

  void VisitLoop(const For& loop) {
    const Facts known = facts_;
    const size_t inner = inner_.size();
    const bool leaves = HasJump(loop.body);
    bool certain = !leaves;
    for (const Axis& axis : loop.axes) {
      facts_.AddAxis(axis);
      const auto min = ConstInt(axis.min), extent = ConstInt(axis.extent);
      certain = certain && min && extent;
      if (min && extent) inner_.push_back({axis.var, *min, *extent});
      // One value of the others serves all iterations where all of them take it.
      const bool alike = found_.IsSame(Substitute(axis.min, binds_)) &&
                         found_.IsSame(Substitute(axis.extent, binds_));
      if ((min && extent) || !alike) found_.bound.insert(axis.var.get());
    }
    const bool around = known_turns_;
    known_turns_ = around && certain;
    if (leaves) {
      Unknown([&] { Visit(loop.body); });
    } else {
      Visit(loop.body);
    }
    known_turns_ = around;
    inner_.resize(inner);
    facts_ = known;
  }

  void VisitStore(const Store& store) {
    for (const Expr& index : store.indices) Reads(index, store.loc);
    const auto happen = [&] {
      Reads(store.value, store.loc);
      Note(store.buffer, store.indices, store.value, store.loc);
    };
    if (!store.predicate.defined()) return happen();
    Reads(store.predicate, store.loc);
    Under(Substitute(store.predicate, binds_), true, happen);
  }

  // Of an element; what it reads is read, where it is stored is no read.
  void VisitAtomic(const Atomic& atomic) {
    std::vector<Expr> indices;
    bool point = true;
    for (const Range& range : atomic.dst.ranges) {
      Reads(range.min, atomic.loc);
      point = point && IsConst(range.extent, 1);
      indices.push_back(range.min);
    }
    if (atomic.value.defined()) Reads(atomic.value, atomic.loc);
    for (const Range& range : atomic.src.ranges) Reads(range.min, atomic.loc);
    if (!point || atomic.op == AtomicOp::kLoad) return;
    Note(atomic.dst.buffer, indices, atomic.value, atomic.loc, /*atomic=*/true);
  }

  void Reads(const Expr& e, SourceLoc loc) {
    std::unordered_set<const ExprNode*> seen;  // names make expressions share much of themselves
    ReadsOnce(e, loc, &seen);
  }

  void ReadsOnce(const Expr& e, SourceLoc loc, std::unordered_set<const ExprNode*>* seen) {
    Walk(e, [&](const Expr& x) {
      if (!seen->insert(x.get()).second) return false;
      if (const auto* select = x.As<Select>()) {
        ReadsOnce(select->condition, loc, seen);
        const Expr closed = Substitute(select->condition, binds_);
        Under(closed, true, [&] { ReadsOnce(select->a, loc, seen); });
        Under(closed, false, [&] { ReadsOnce(select->b, loc, seen); });
        return false;
      }
      const auto* both = x.As<Binary>();
      if (both != nullptr && (both->op == BinaryOp::kAnd || both->op == BinaryOp::kOr)) {
        ReadsOnce(both->a, loc, seen);
        Under(Substitute(both->a, binds_), both->op == BinaryOp::kAnd,
              [&] { ReadsOnce(both->b, loc, seen); });
        return false;
      }
      const auto* load = x.As<Load>();
      if (load == nullptr) return true;
      const auto touch = [&] { Note(load->buffer, load->indices, {}, loc); };
      if (!load->predicate.defined()) {
        touch();
      } else {
        Under(Substitute(load->predicate, binds_), true, touch);
      }
      return true;
    });
  }

  // `condition` is closed.
  template <typename F>
  void Under(const Expr& condition, bool holds, const F& visit) {
    if (found_.IsSame(condition)) {
      same_guards_.push_back({condition.get(), holds});
      kept_.push_back(condition);
      visit();
      same_guards_.pop_back();
      return;
    }
    guards_.push_back(holds ? condition : MakeUnary(UnaryOp::kNot, MakeCast(kBool, condition)));
    visit();
    guards_.pop_back();
  }

  template <typename F>
  void Unknown(const F& visit) {
    const bool around = known_;
    known_ = false;
    visit();
    known_ = around;
  }

  void Note(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& value,
            SourceLoc loc, bool atomic = false) {
    if (outside_.count(buffer.get()) == 0) return;
    LoopAccess access;
    access.buffer = buffer;
    access.write = atomic || value.defined();
    access.atomic = atomic;
    // A loop that turns an unknown number of times is taken to turn where something is stored.
    access.known = known_ && (known_turns_ || access.write);
    for (const Expr& index : indices) {
      access.indices.push_back(facts_.Expand(Substitute(index, binds_)));
    }
    access.guards = guards_;
    access.same_guards = same_guards_;
    access.inner = inner_;
    if (value.defined()) access.value = Substitute(value, binds_);
    access.loc = loc;
    access.text = TextOf(buffer, indices);
    found_.accesses.push_back(std::move(access));
  }

  LoopAccesses found_;
  VarMap binds_;  // closed
  Facts facts_;
  std::unordered_set<const BufferNode*> outside_;  // stored to, and not the iteration's own
  std::vector<Turns> inner_;
  std::vector<Expr> guards_;
  std::vector<std::pair<const ExprNode*, bool>> same_guards_;
  std::vector<Expr> kept_;  // conditions, so that their addresses stay theirs
  bool known_ = true, known_turns_ = true;
};

}  // namespace

bool LoopAccesses::IsSame(const Expr& e) const {
  bool same = true;
  std::unordered_set<const ExprNode*> seen;
  Walk(e, [&](const Expr& x) {
    const auto* load = x.As<Load>();
    same = same && bound.count(x.get()) == 0 &&
           (load == nullptr || stored.count(load->buffer.get()) == 0);
    return same && seen.insert(x.get()).second;
  });
  return same;
}

LoopAccesses AccessesOf(const For& loop, const VarMap& binds, const Facts& facts) {
  return Collector(loop, binds, facts).Collect(loop.body);
}

}  // namespace kiln::ir
