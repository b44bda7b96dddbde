#include "compiler/ir/thread_regions.h"

#include <algorithm>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/thread_values.h"

namespace kiln::ir {
namespace {

std::vector<Expr> Starts(const Region& r) {
  std::vector<Expr> starts;
  for (const Range& range : r.ranges) starts.push_back(range.min);
  return starts;
}

}  // namespace

// From statements of the kernel to those of a thread.
class ThreadRegions::Rewrite : public Mutator {
 public:
  explicit Rewrite(const ThreadRegions& regions) : regions_(regions) {}
  absl::Status status;

 protected:
  Expr VisitExpr(const Expr& e) override {
    if (const auto kept = regions_.kept_.find(e.get()); kept != regions_.kept_.end()) {
      return regions_.OwnElement(kept->second);
    }
    const auto* load = e.As<Load>();
    if (load == nullptr || !IsHeld(load->buffer)) return RebuildExpr(e);
    return MakeLoad(regions_.RegistersOf(load->buffer), OwnRow(load->indices),
                    load->predicate.defined() ? Mutate(load->predicate) : Expr());
  }

  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* store = s.As<Store>()) return VisitStore(s, *store);
    if (const auto* loop = s.As<For>()) return VisitFor(*loop);
    if (const auto* copy = s.As<Copy>()) return Mutate(LoopsOf(*copy));
    if (const auto* fill = s.As<Fill>()) return Mutate(LoopsOf(*fill));
    const auto* atomic = s.As<Atomic>();
    if (atomic != nullptr && !atomic->value.defined()) return Mutate(LoopsOf(*atomic));
    if (atomic != nullptr && IsHeld(atomic->way.previous)) return VisitAtomic(*atomic);
    return RebuildStmt(s);
  }

 private:
  bool IsHeld(const Buffer& b) const { return b && regions_.held_.count(b.get()) > 0; }

  // What it was before goes to a register by way of a variable.
  Stmt VisitAtomic(const Atomic& atomic) {
    const Buffer registers = regions_.RegistersOf(atomic.way.previous);
    const Buffer before = MakeBuffer(registers->name, registers->dtype, {MakeInt(1)}, Scope::kVar);
    const Stmt update = MakeStmt<Atomic>(atomic.loc, atomic.op, MutateRegion(atomic.dst), Region{},
                                         Mutate(atomic.value), AtomicWay{atomic.way.order, before});
    return MakeStmt<Seq>(
        atomic.loc,
        std::vector<Stmt>{
            MakeStmt<Alloc>(atomic.loc, before, MakeConst(0, before->dtype)), update,
            regions_.SetOwnElement(atomic.loc, registers, MakeLoad(before, {MakeInt(0)}))});
  }

  std::vector<Expr> OwnRow(const std::vector<Expr>& indices) {
    std::vector<Expr> at = {regions_.self_};
    for (const Expr& index : indices) at.push_back(Mutate(index));
    return at;
  }

  Stmt VisitStore(const Stmt& s, const Store& store) {
    if (store.buffer->scope == Scope::kFragment && status.ok()) {
      status = ErrorAt(regions_.source_, store.loc,
                       absl::StrCat("a thread by itself stores to the fragment '",
                                    store.buffer->name, "', which belongs to the whole block"),
                       "use T.alloc_local for what each thread has of its own, T.alloc_shared for "
                       "what they share, or a loop over T.Parallel");
    }
    if (!IsHeld(store.buffer)) return RebuildStmt(s);
    return MakeStmt<Store>(store.loc, regions_.RegistersOf(store.buffer), OwnRow(store.indices),
                           Mutate(store.value),
                           store.predicate.defined() ? Mutate(store.predicate) : Expr());
  }

  // Axes of a parallel loop become loops, one inside of the other.
  Stmt VisitFor(const For& loop) {
    Stmt body = Mutate(loop.body);
    const bool keeps = loop.loop == ForKind::kVectorized || loop.loop == ForKind::kUnroll;
    for (size_t d = loop.axes.size(); d-- > 0;) {
      const Axis& axis = loop.axes[d];
      body =
          MakeStmt<For>(loop.loc, keeps ? loop.loop : ForKind::kSerial,
                        std::vector<Axis>{{axis.var, Mutate(axis.min), Mutate(axis.extent)}}, body);
    }
    return body;
  }

  // Loops over the elements of `shape`; `element` gets the offsets along its dimensions.
  template <typename F>
  Stmt Over(const Region& shape, SourceLoc loc, const F& element) {
    std::vector<Expr> offsets;
    std::vector<Axis> axes;
    for (const Range& range : shape.ranges) {
      if (IsConst(range.extent, 1)) {
        offsets.push_back(MakeInt(0));
        continue;
      }
      offsets.push_back(MakeVar(absl::StrCat("i", axes.size())));
      axes.push_back({offsets.back(), MakeInt(0), range.extent});
    }
    Stmt body = element(offsets);
    for (size_t d = axes.size(); d-- > 0;) {
      const bool lanes = d + 1 == axes.size() && ConstInt(axes[d].extent).has_value();
      body = MakeStmt<For>(loc, lanes ? ForKind::kVectorized : ForKind::kSerial,
                           std::vector<Axis>{axes[d]}, body);
    }
    return body;
  }

  static std::vector<Expr> At(const Region& r, const std::vector<Expr>& offsets) {
    std::vector<Expr> at = Starts(r);
    for (size_t d = 0; d < at.size(); ++d) at[d] = at[d] + offsets[d];
    return at;
  }

  // The element of `from` that goes with the element of `to` at these offsets.
  static Expr Partner(const Region& from, const Region& to, const std::vector<Expr>& offsets) {
    const std::vector<int> pairs = *PairDims(from, to);
    std::vector<Expr> at = Starts(from);
    for (size_t d = 0; d < at.size(); ++d) {
      if (pairs[d] >= 0) at[d] = at[d] + offsets[pairs[d]];
    }
    return MakeLoad(from.buffer, at);
  }

  Stmt LoopsOf(const Copy& copy) {
    return Over(copy.dst, copy.loc, [&](const std::vector<Expr>& offsets) {
      return MakeStmt<Store>(
          copy.loc, copy.dst.buffer, At(copy.dst, offsets),
          MakeCast(copy.dst.buffer->dtype, Partner(copy.src, copy.dst, offsets)));
    });
  }

  Stmt LoopsOf(const Fill& fill) {
    return Over(fill.dst, fill.loc, [&](const std::vector<Expr>& offsets) {
      return MakeStmt<Store>(fill.loc, fill.dst.buffer, At(fill.dst, offsets), fill.value);
    });
  }

  Stmt LoopsOf(const Atomic& atomic) {
    return Over(atomic.dst, atomic.loc, [&](const std::vector<Expr>& offsets) {
      Region element{atomic.dst.buffer, {}};
      for (const Expr& index : At(atomic.dst, offsets)) {
        element.ranges.push_back({index, MakeInt(1)});
      }
      return MakeStmt<Atomic>(
          atomic.loc, atomic.op, element, Region{},
          MakeCast(atomic.dst.buffer->dtype, Partner(atomic.src, atomic.dst, offsets)));
    });
  }

  const ThreadRegions& regions_;
};

ThreadRegions::ThreadRegions(const std::vector<Expr>& indices, std::vector<int64_t> extents,
                             const SourceFile& source)
    : source_(source), self_(MakeVar("thread")) {
  for (size_t d = 0; d < indices.size(); ++d) {
    const int64_t extent = d < extents.size() ? extents[d] : 1;
    const bool last = d + 1 >= extents.size();
    Expr index = threads_ == 1 ? self_ : FloorDiv(self_, MakeInt(threads_));
    if (!last) index = FloorMod(index, MakeInt(extent));
    Recompute(indices[d], extent == 1 ? MakeInt(0) : index);
    threads_ *= extent;
  }
  span_ = {0, threads_};
}

Buffer ThreadRegions::Hold(const Buffer& own) {
  std::vector<Expr> shape = {MakeInt(threads_)};
  shape.insert(shape.end(), own->shape.begin(), own->shape.end());
  const Buffer registers = MakeBuffer(own->name, own->dtype, std::move(shape), Scope::kRegister);
  held_[own.get()] = registers;
  return registers;
}

Buffer ThreadRegions::NewRegister(const std::string& name, DType type) const {
  return MakeBuffer(name, type, {MakeInt(threads_), MakeInt(1)}, Scope::kRegister);
}

Stmt ThreadRegions::SetOwnElement(SourceLoc loc, const Buffer& registers, const Expr& value) const {
  return MakeStmt<Store>(loc, registers, std::vector<Expr>{self_, MakeInt(0)}, value);
}

// Computes again what `body` uses and does not bind itself. `vars`: under which name.
std::vector<Stmt> ThreadRegions::Needed(const Stmt& body, VarMap* vars) const {
  Rewrite rewrite(*this);
  std::unordered_set<const ExprNode*> used, bound;
  const auto use = [&](const Expr& e) {
    used.insert(e.get());
    return true;
  };
  Walk(
      body,
      [&](const Stmt& s) {
        if (const auto* bind = s.As<Bind>()) bound.insert(bind->var.get());
        return true;
      },
      use);
  std::vector<const Computed*> needed;
  for (auto c = computed_.rbegin(); c != computed_.rend(); ++c) {
    if (used.count(c->var.get()) == 0 || bound.count(c->var.get()) > 0) continue;
    needed.push_back(&*c);
    Walk(c->value, use);
  }
  std::vector<Stmt> binds;
  for (auto c = needed.rbegin(); c != needed.rend(); ++c) {
    const Expr value = Substitute(rewrite.Mutate((*c)->value), *vars);
    if (value.kind() == ExprKind::kVar || value.kind() == ExprKind::kIntImm) {
      (*vars)[(*c)->var.get()] = value;
      continue;
    }
    const Expr var = MakeVar((*c)->var.As<Var>()->name, (*c)->var.dtype());
    (*vars)[(*c)->var.get()] = var;
    binds.push_back(MakeStmt<Bind>(body->loc, var, value));
  }
  return binds;
}

absl::StatusOr<Stmt> ThreadRegions::Loop(SourceLoc loc, std::vector<Stmt> stmts,
                                         const Buffer& active) const {
  Rewrite rewrite(*this);
  Stmt body = rewrite.Mutate(MakeStmt<Seq>(loc, std::move(stmts)));
  KILN_RETURN_IF_ERROR(rewrite.status);
  if (active) {
    const Expr holds = MakeBinary(BinaryOp::kNe, OwnElement(active), MakeInt(0));
    body = MakeStmt<If>(loc, holds, body);
  }
  const Expr thread = MakeVar("thread");
  VarMap vars = {{self_.get(), thread}};
  std::vector<Stmt> all = Needed(body, &vars);
  all.push_back(Substitute(body, vars));
  const Axis axis = {thread, MakeInt(span_.first), MakeInt(span_.count)};
  return MakeStmt<For>(loc, ForKind::kThreads, std::vector<Axis>{axis},
                       MakeSeq(std::move(all), loc), Expr(),
                       std::map<std::string, std::string>{{kOfKernel, ""}});
}

}  // namespace kiln::ir
