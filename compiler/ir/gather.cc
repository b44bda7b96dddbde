#include "compiler/ir/gather.h"

#include <algorithm>

#include "compiler/ir/access.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/pipelined.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

// The loop begins at zero and goes as far as the tile does, in each dimension.
bool FillsAll(const Store& store, const std::vector<Axis>& axes) {
  if (store.buffer->scope != Scope::kShared || store.indices.size() != axes.size()) return false;
  for (size_t d = 0; d < axes.size(); ++d) {
    const Axis& axis = axes[d];
    if (!store.indices[d].same_as(axis.var) || !IsConst(axis.min, 0) ||
        !Same(axis.extent, store.buffer->shape[d])) {
      return false;
    }
  }
  return true;
}

bool IsZero(const Expr& e) {
  return IsConst(e, 0) || (e.As<FloatImm>() != nullptr && e.As<FloatImm>()->value == 0);
}

}  // namespace

Stmt GatherOf(const Stmt& s) {
  const auto* loop = s.As<For>();
  if (loop == nullptr || loop->loop != ForKind::kParallel) return {};
  return GatherOf(loop->body, loop->axes);
}

Stmt GatherOf(const Stmt& body, const std::vector<Axis>& axes) {
  const std::vector<Stmt> stmts = RowOf(body);
  VarMap names;
  for (size_t i = 0; i + 1 < stmts.size(); ++i) {
    const auto* bind = stmts[i].As<Bind>();
    if (bind == nullptr) return {};
    const Expr value = Substitute(bind->value, names);
    if (IsLarge(value)) return {};
    names[bind->var.get()] = value;
  }
  const auto* store = stmts.empty() ? nullptr : stmts.back().As<Store>();
  if (store == nullptr || store->predicate.defined() || !FillsAll(*store, axes)) return {};
  const Expr value = Substitute(store->value, names);
  const auto* choice = value.As<Select>();
  const auto* load = (choice != nullptr ? choice->a : value).As<Load>();
  if (load == nullptr || load->buffer->scope != Scope::kGlobal ||
      load->buffer->dtype != store->buffer->dtype || (choice != nullptr && !IsZero(choice->b))) {
    return {};
  }
  const Expr guard =
      choice != nullptr ? AndPredicate(load->predicate, choice->condition) : load->predicate;
  return MakeStmt<Store>(store->loc, store->buffer, store->indices,
                         MakeLoad(load->buffer, load->indices, guard));
}

bool LooksUp(const Stmt& gather) {
  const auto* load = gather.As<Store>()->value.As<Load>();
  return std::any_of(load->indices.begin(), load->indices.end(),
                     [](const Expr& index) { return ReadsMemory(index); }) ||
         (load->predicate.defined() && ReadsMemory(load->predicate));
}

}  // namespace kiln::ir
