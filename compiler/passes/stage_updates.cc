#include "compiler/passes/stage_updates.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/access.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/memory_access.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

// What one of the threads that run an iteration does for all.
bool Acts(const Stmt& s) {
  const auto* store = s.As<ir::Store>();
  if (store != nullptr) return IsMemory(store->buffer);
  return s.kind() == ir::StmtKind::kAtomic || s.kind() == ir::StmtKind::kPrint;
}

// An element of memory that the loop reads and stores to, by the loop's axes and what stands
// outside.
struct Element {
  ir::Buffer memory;
  std::vector<Expr> indices;
  ir::Buffer tile;  // a fragment, of the loop's extents
};

class Staging : public ir::Mutator {
 public:
  Staging(const ir::Program& program, const Stmt& s)
      : program_(program), stmt_(s), loop_(*s.As<ir::For>()) {
    for (const ir::Axis& axis : loop_.axes) {
      at_.push_back(axis.var - axis.min);
      extents_.push_back(axis.extent);
    }
  }

  absl::StatusOr<Stmt> Run() {
    FindWrites();
    FindReads();
    KILN_RETURN_IF_ERROR(status_);
    if (elements_.empty()) return stmt_;
    const Stmt body = Mutate(loop_.body);
    KILN_RETURN_IF_ERROR(status_);
    std::vector<Stmt> stmts;
    for (const Element& element : elements_) {
      stmts.push_back(ir::MakeStmt<ir::Alloc>(loop_.loc, element.tile));
    }
    for (const Element& element : elements_) stmts.push_back(LoadAhead(element));
    stmts.push_back(ir::MakeStmt<ir::For>(loop_.loc, loop_.loop, loop_.axes, body, loop_.num_stages,
                                          loop_.annotations));
    return ir::MakeStmt<ir::Seq>(loop_.loc, std::move(stmts));
  }

 protected:
  Expr VisitExpr(const Expr& e) override {
    const auto* load = e.As<ir::Load>();
    const Element* element = load == nullptr ? nullptr : Find(load->buffer, load->indices);
    if (element == nullptr) return RebuildExpr(e);
    const Expr value = ir::MakeLoad(element->tile, at_);
    if (!load->predicate.defined()) return value;
    return ir::MakeSelect(Mutate(load->predicate), value,
                          ir::MakeCast(value.dtype(), ir::MakeInt(0)));
  }

  Stmt VisitStmt(const Stmt& s) override {
    const auto* store = s.As<ir::Store>();
    if (store == nullptr || !IsStaged(store->buffer)) return RebuildStmt(s);
    const Element* element = Find(store->buffer, store->indices);
    if (element == nullptr) {
      CheckApart(*store);
      return RebuildStmt(s);
    }
    const Expr value = ir::MakeVar(store->buffer->name, store->value.dtype());
    const Expr predicate = store->predicate.defined() ? Mutate(store->predicate) : Expr();
    std::vector<Stmt> stmts;
    stmts.push_back(ir::MakeStmt<ir::Bind>(s->loc, value, Mutate(store->value)));
    stmts.push_back(ir::MakeStmt<ir::Store>(s->loc, store->buffer, MutateAll(store->indices), value,
                                            predicate, store->way));
    stmts.push_back(ir::MakeStmt<ir::Store>(s->loc, element->tile, at_, value, predicate));
    return ir::MakeStmt<ir::Seq>(s->loc, std::move(stmts));
  }

 private:
  void FindWrites() {
    ir::Walk(loop_.body, [&](const Stmt& s) {
      if (const auto* bind = s.As<ir::Bind>()) {
        binds_[bind->var.get()] = bind->value;
      } else if (const auto* inner = s.As<ir::For>()) {
        for (const ir::Axis& axis : inner->axes) inside_.insert(axis.var.get());
      } else if (const auto* store = s.As<ir::Store>()) {
        written_.insert(store->buffer.get());
      } else if (const auto* atomic = s.As<ir::Atomic>()) {
        written_.insert(atomic->dst.buffer.get());
        atomic_.insert(atomic->dst.buffer.get());
      }
      return true;
    });
  }

  // Of what all who run an iteration evaluate.
  void FindReads() {
    ir::Walk(
        loop_.body, [](const Stmt& s) { return !Acts(s); },
        [&](const Expr& e) {
          if (const auto* load = e.As<ir::Load>()) AddRead(*load);
          return status_.ok();
        });
  }

  void AddRead(const ir::Load& load) {
    if (!IsMemory(load.buffer) || written_.count(load.buffer.get()) == 0) return;
    if (Find(load.buffer, load.indices) != nullptr) return;
    std::vector<Expr> indices;
    for (const Expr& index : load.indices) indices.push_back(Resolve(index));
    for (const Expr& index : indices) {
      if (!KnownBefore(index))
        return Refuse(load.buffer, "at a place that is found in the iteration");
    }
    if (atomic_.count(load.buffer.get()) > 0) {
      return Refuse(load.buffer, "and update it atomically");
    }
    const std::string name = absl::StrCat(load.buffer->name, ".before");
    elements_.push_back({load.buffer, std::move(indices),
                         ir::MakeBuffer(name, load.buffer->dtype, extents_, ir::Scope::kFragment)});
  }

  // With the values of what the iteration binds put in.
  Expr Resolve(const Expr& e) const {
    Expr now = e;
    for (bool again = true; again;) {
      const Expr next = ir::Substitute(now, binds_);
      again = !next.same_as(now);
      now = next;
    }
    return now;
  }

  bool KnownBefore(const Expr& e) const {
    bool known = true;
    ir::Walk(e, [&](const Expr& x) {
      const auto* load = x.As<ir::Load>();
      known &= inside_.count(x.get()) == 0;
      known &=
          load == nullptr || (IsMemory(load->buffer) && written_.count(load->buffer.get()) == 0);
      return known;
    });
    return known;
  }

  bool IsStaged(const ir::Buffer& buffer) const {
    for (const Element& element : elements_) {
      if (element.memory == buffer) return true;
    }
    return false;
  }

  const Element* Find(const ir::Buffer& buffer, const std::vector<Expr>& indices) const {
    for (const Element& element : elements_) {
      if (element.memory != buffer) continue;
      bool same = true;
      for (size_t d = 0; same && d < indices.size(); ++d) {
        same = ir::Same(Resolve(indices[d]), element.indices[d]);
      }
      if (same) return &element;
    }
    return nullptr;
  }

  // A store elsewhere must not change what was loaded ahead.
  void CheckApart(const ir::Store& store) {
    for (const Element& element : elements_) {
      if (element.memory != store.buffer) continue;
      bool apart = false;
      for (size_t d = 0; d < store.indices.size(); ++d) {
        const ir::LinearForm difference =
            ir::Linearize(Resolve(store.indices[d]) - element.indices[d]);
        apart |= difference.terms.empty() && difference.constant != 0;
      }
      if (!apart) return Refuse(store.buffer, "at places that may be the same");
    }
  }

  // The loop that fills the element's tile. It reads what lies inside: conditions of the loop
  // itself are not looked at.
  Stmt LoadAhead(const Element& element) const {
    std::vector<ir::Axis> axes;
    ir::VarMap vars;
    for (const ir::Axis& axis : loop_.axes) {
      const Expr var = ir::MakeVar(axis.var.As<ir::Var>()->name, axis.var.dtype());
      vars[axis.var.get()] = var;
      axes.push_back({var, axis.min, axis.extent});
    }
    std::vector<Expr> indices, at;
    for (const Expr& x : at_) at.push_back(ir::Substitute(x, vars));
    Expr inside;
    for (size_t d = 0; d < element.indices.size(); ++d) {
      indices.push_back(ir::Substitute(element.indices[d], vars));
      const Expr zero = ir::MakeInt(0, indices[d].dtype());
      inside = ir::AndPredicate(
          inside, ir::AndPredicate(zero <= indices[d], indices[d] < element.memory->shape[d]));
    }
    const Expr value = ir::MakeLoad(element.memory, std::move(indices), inside);
    return ir::MakeStmt<ir::For>(
        loop_.loc, ir::ForKind::kParallel, std::move(axes),
        ir::MakeStmt<ir::Store>(loop_.loc, element.tile, std::move(at), value));
  }

  void Refuse(const ir::Buffer& buffer, const std::string& how) {
    if (!status_.ok()) return;
    status_ = ir::ErrorAt(
        program_, loop_.loc,
        absl::StrCat(
            "several threads run each iteration of this loop, for each holds what it writes "
            "of a fragment; they read '",
            buffer->name, "' and store to it, ", how),
        absl::StrCat("read '", buffer->name,
                     "' into a fragment in a loop before, or store to it in a loop after"),
        absl::StatusCode::kUnimplemented);
  }

  const ir::Program& program_;
  const Stmt stmt_;
  const ir::For& loop_;
  std::vector<Expr> at_, extents_;  // of the tiles
  ir::VarMap binds_;
  std::set<const ir::ExprNode*> inside_;  // variables of loops in the iteration
  std::set<const ir::BufferNode*> written_, atomic_;
  std::vector<Element> elements_;
  absl::Status status_;
};

}  // namespace

bool RunsTwice(const layout::Ownership& loop) {
  if (loop.Copies() < 2) return false;  // the common case, without a look at every element
  for (int64_t i = 0; i < loop.size(); ++i) {
    if (loop.Owners(i).count() > 1) return true;
  }
  return false;
}

absl::StatusOr<Stmt> StageUpdates(const ir::Program& program, const Stmt& loop) {
  return Staging(program, loop).Run();
}

}  // namespace kiln::passes
