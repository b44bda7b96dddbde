#include "compiler/lang/block_terms.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::lang {
namespace {

using ir::Expr;
using ir::Stmt;

class Finder {
 public:
  explicit Finder(const ir::Launch& launch) {
    for (const ir::Axis& axis : launch.grid) grid_.insert(axis.var.get());
    for (size_t known = SIZE_MAX; known != stored_.size();) {
      known = stored_.size();
      Spread(launch.body);
    }
    Look(launch.body);
  }

  std::optional<std::vector<Expr>> terms() && {
    if (!exact_) return std::nullopt;
    return std::move(terms_);
  }

 private:
  // Whether `e` depends on the block's number, as far as names and variables say.
  bool Depends(const Expr& e) const {
    bool depends = false;
    if (!e.defined()) return false;
    ir::Walk(e, [&](const Expr& x) {
      const auto* load = x.As<ir::Load>();
      depends = depends || grid_.count(x.get()) > 0 || names_.count(x.get()) > 0 ||
                (load != nullptr &&
                 (load->buffer->scope != ir::Scope::kVar || stored_.count(load->buffer.get()) > 0));
      return !depends;
    });
    return depends;
  }

  // Names and variables that hold something of the block's number. How often and under what they
  // are stored is said by conditions and extents, which are looked at.
  void Spread(const Stmt& body) {
    ir::Walk(body, [&](const Stmt& s) {
      const auto* alloc = s.As<ir::Alloc>();
      const auto* store = s.As<ir::Store>();
      if (const auto* bind = s.As<ir::Bind>()) {
        if (Depends(bind->value)) names_.insert(bind->var.get());
      } else if (alloc != nullptr) {
        if (Depends(alloc->init)) stored_.insert(alloc->buffer.get());
      } else if (store != nullptr) {
        if (Depends(store->value)) stored_.insert(store->buffer.get());
      } else if (s.kind() == ir::StmtKind::kInstruct || s.kind() == ir::StmtKind::kAtomic) {
        for (const ir::Buffer& b : ir::BuffersWritten(s)) stored_.insert(b.get());
      }
      return true;
    });
  }

  // What decides about barriers.
  void Look(const Stmt& s) {
    ir::Walk(s, [&](const Stmt& x) {
      if (const auto* bind = x.As<ir::Bind>()) {
        values_[bind->var.get()] = ir::Substitute(bind->value, values_);
      } else if (const auto* loop = x.As<ir::For>()) {
        if (loop->loop == ir::ForKind::kParallel) return false;
        for (const ir::Axis& axis : loop->axes) {
          Note(axis.min);
          Note(axis.extent);
        }
      } else if (const auto* endless = x.As<ir::While>()) {
        Note(endless->condition);
      } else if (const auto* branch = x.As<ir::If>()) {
        Note(branch->condition);
      } else if (const auto* wait = x.As<ir::Assert>()) {
        Note(wait->condition);
      } else if (const auto* store = x.As<ir::Store>()) {
        if (store->buffer->scope == ir::Scope::kBarrier) Note(store->indices[0]);
      }
      return true;
    });
  }

  // The parts of `e` that are of the grid's variables alone.
  void Note(const Expr& e) {
    ir::Walk(ir::Substitute(e, values_), [&](const Expr& x) {
      if (IsOfGrid(x)) {
        const bool known = std::any_of(terms_.begin(), terms_.end(),
                                       [&](const Expr& term) { return ir::Same(term, x); });
        if (!known) terms_.push_back(x);
        return false;
      }
      const auto* load = x.As<ir::Load>();
      const bool is_barrier = load != nullptr && load->buffer->scope == ir::Scope::kBarrier;
      if (load != nullptr && !is_barrier && Depends(x)) exact_ = false;
      return true;
    });
  }

  bool IsOfGrid(const Expr& e) const {
    bool any = false, others = false;
    ir::Walk(e, [&](const Expr& x) {
      any = any || grid_.count(x.get()) > 0;
      others = others || x.kind() == ir::ExprKind::kLoad ||
               (x.kind() == ir::ExprKind::kVar && grid_.count(x.get()) == 0);
      return !others;
    });
    return any && !others;
  }

  std::unordered_set<const ir::ExprNode*> grid_, names_;
  std::unordered_set<const ir::BufferNode*> stored_;
  ir::VarMap values_;  // of names
  std::vector<Expr> terms_;
  bool exact_ = true;
};

}  // namespace

std::optional<std::vector<Expr>> BlockTerms(const ir::Launch& launch) {
  return Finder(launch).terms();
}

}  // namespace kiln::lang
