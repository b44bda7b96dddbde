#include "compiler/lang/count_loops.h"

#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::lang {
namespace {

using ir::Expr;
using ir::Stmt;
using Stmts = std::vector<Stmt>;
// What variables hold, without loads; those that are not in it hold something unknown.
using Values = std::unordered_map<const ir::BufferNode*, Expr>;

bool IsVariable(const ir::Buffer& b) { return b->scope == ir::Scope::kVar; }

const ir::BufferNode* LoadedVariable(const Expr& e) {
  const auto* load = e.As<ir::Load>();
  return load != nullptr && IsVariable(load->buffer) && !load->predicate.defined()
             ? load->buffer.get()
             : nullptr;
}

// Stores to each variable, wherever they stand.
std::map<const ir::BufferNode*, int> StoresIn(const Stmt& s) {
  std::map<const ir::BufferNode*, int> stores;
  ir::Walk(s, [&](const Stmt& x) {
    if (x.kind() == ir::StmtKind::kSeq) return true;
    const auto* store = x.As<ir::Store>();
    if (store != nullptr) {
      if (IsVariable(store->buffer)) ++stores[store->buffer.get()];
      return false;
    }
    const bool inner = x.kind() == ir::StmtKind::kFor || x.kind() == ir::StmtKind::kWhile ||
                       x.kind() == ir::StmtKind::kIf || x.kind() == ir::StmtKind::kOnThreads;
    if (inner) return true;
    for (const ir::Buffer& b : ir::BuffersWritten(x)) {  // an exchange, an atomic update
      if (IsVariable(b)) stores[b.get()] += 2;
    }
    return true;
  });
  return stores;
}

class Counter {
 public:
  explicit Counter(const std::function<bool(const Stmt&)>& holds) : holds_(holds) {}

  Stmt Visit(const Stmt& s, Values* values) {
    if (const auto* seq = s.As<ir::Seq>()) {
      Stmts out;
      for (const Stmt& x : seq->stmts) out.push_back(Visit(x, values));
      for (const Stmt& x : seq->stmts) {
        const auto* bind = x.As<ir::Bind>();
        if (bind != nullptr && names_.count(bind->var.get()) == 0) ForgetName(bind->var, values);
      }
      return ir::MakeStmt<ir::Seq>(s->loc, std::move(out));
    }
    if (const auto* launch = s.As<ir::Launch>()) {
      return ir::MakeStmt<ir::Launch>(s->loc, launch->grid, launch->threads,
                                      Visit(launch->body, values), launch->annotations);
    }
    if (const auto* part = s.As<ir::OnThreads>()) return Part(s, *part, values);
    if (const auto* branch = s.As<ir::If>()) {
      Values yes = *values, no = *values;
      const Expr condition = Known(branch->condition, *values);
      const Stmt then_case = Visit(branch->then_case, &yes);
      const Stmt else_case = branch->else_case.defined() ? Visit(branch->else_case, &no) : Stmt();
      Forget(s, values);
      return ir::MakeStmt<ir::If>(s->loc, condition, then_case, else_case);
    }
    if (const auto* loop = s.As<ir::While>()) {
      const Stmt counted = holds_(s) ? Counted(*loop, values) : Stmt();
      if (counted.defined()) return counted;
    }
    if (s.kind() == ir::StmtKind::kFor || s.kind() == ir::StmtKind::kWhile) {
      return Loop(s, values);
    }
    return Leaf(s, values);
  }

 private:
  static Expr Known(const Expr& e, const Values& values) {
    class Put : public ir::Mutator {
     public:
      explicit Put(const Values& values) : values_(values) {}

     protected:
      Expr VisitExpr(const Expr& x) override {
        const auto known = values_.find(LoadedVariable(x));
        return known == values_.end() ? RebuildExpr(x) : known->second;
      }

     private:
      const Values& values_;
    };
    return e.defined() ? Put(values).Mutate(e) : e;
  }
  static Stmt Known(const Stmt& s, const Values& values) {
    return ir::RewriteExprs(s, [&](const Expr& e) -> Expr {
      const auto known = values.find(LoadedVariable(e));
      return known == values.end() ? Expr() : known->second;
    });
  }
  void Forget(const Stmt& s, Values* values) {
    for (const auto& [variable, count] : StoresIn(s)) {
      values->erase(variable);
      if (in_parts_ == 0) of_block_.erase(variable);
    }
  }
  // Of values that are a name's, which ends where its list does.
  static void ForgetName(const Expr& name, Values* values) {
    for (auto it = values->begin(); it != values->end();) {
      it = ir::Uses(it->second, name) ? values->erase(it) : std::next(it);
    }
  }
  void Note(const ir::BufferNode* variable, const Expr& value, Values* values) const {
    if (value.defined() && !ReadsMemory(value)) {
      (*values)[variable] = ir::Substitute(value, names_);
    } else {
      values->erase(variable);
    }
  }
  // A store, or what a variable begins with.
  void Stored(const ir::BufferNode* variable, const Expr& value, Values* values) {
    Note(variable, value, values);
    if (in_parts_ > 0) return;
    by_parts_.erase(variable);
    Note(variable, value, &of_block_);
  }
  void Name(const ir::Bind& bind, const Expr& value) {
    if (!ReadsMemory(value)) names_[bind.var.get()] = ir::Substitute(value, names_);
  }

  // What a part stores, its threads alone know: another finds what the block has stored.
  Stmt Part(const Stmt& s, const ir::OnThreads& part, Values* values) {
    const std::pair<int64_t, int64_t> span = {part.first, part.count};
    Values own = *values;
    for (const auto& [variable, value] : of_block_) {
      const std::set<std::pair<int64_t, int64_t>>& parts = by_parts_[variable];
      if (!parts.empty() && parts.count(span) == 0) own[variable] = value;
    }
    ++in_parts_;
    const Stmt body = Visit(part.body, &own);
    --in_parts_;
    for (const auto& [variable, count] : StoresIn(s)) {
      by_parts_[variable].insert(span);
      values->erase(variable);
    }
    return ir::MakeStmt<ir::OnThreads>(s->loc, part.first, part.count, body);
  }

  Stmt Leaf(const Stmt& s, Values* values) {
    const Stmt out = Known(s, *values);
    const auto* store = out.As<ir::Store>();
    const auto* alloc = out.As<ir::Alloc>();
    if (store != nullptr && IsVariable(store->buffer)) {
      Stored(store->buffer.get(), store->predicate.defined() ? Expr() : store->value, values);
    } else if (alloc != nullptr && IsVariable(alloc->buffer)) {
      Stored(alloc->buffer.get(), alloc->init, values);
    } else {
      if (const auto* bind = out.As<ir::Bind>()) Name(*bind, bind->value);
      Forget(s, values);
    }
    return out;
  }

  Stmt Loop(const Stmt& s, Values* values) {
    const auto* endless = s.As<ir::While>();
    const auto* loop = s.As<ir::For>();
    std::vector<ir::Axis> axes = loop == nullptr ? std::vector<ir::Axis>() : loop->axes;
    for (ir::Axis& axis : axes) {
      axis = {axis.var, Known(axis.min, *values), Known(axis.extent, *values)};
    }
    Forget(s, values);
    Values inside = *values;
    const Stmt body = Visit(endless != nullptr ? endless->body : loop->body, &inside);
    Forget(s, values);
    if (endless != nullptr) {
      return ir::MakeStmt<ir::While>(s->loc, Known(endless->condition, *values), body);
    }
    return ir::MakeStmt<ir::For>(s->loc, loop->loop, std::move(axes), body, loop->num_stages,
                                 loop->annotations);
  }

  // `v = v + step`, at the end of every turn.
  static std::optional<int64_t> StepOf(const Stmt& body, const ir::BufferNode* variable) {
    const auto* seq = body.As<ir::Seq>();
    std::optional<int64_t> step;
    for (size_t i = 0; seq != nullptr && i < seq->stmts.size(); ++i) {
      if (const auto* inner = seq->stmts[i].As<ir::Seq>(); inner != nullptr) {
        const std::optional<int64_t> in = StepOf(seq->stmts[i], variable);
        if (in) step = in;
        continue;
      }
      const auto* store = seq->stmts[i].As<ir::Store>();
      if (store == nullptr || store->buffer.get() != variable) continue;
      if (store->predicate.defined()) return std::nullopt;
      const Expr before = ir::MakeLoad(store->buffer, {ir::MakeInt(0)});
      step = ir::ConstInt(ir::FromLinear(ir::Linearize(store->value - before)));
    }
    return step;
  }

  // The bound that `v` is below while the loop runs; undefined: the condition is another.
  static Expr BoundOf(const Expr& condition, const ir::BufferNode** variable) {
    const auto* less = condition.As<ir::Binary>();
    if (less == nullptr || less->op != ir::BinaryOp::kLt) return {};
    *variable = LoadedVariable(less->a);
    return *variable != nullptr ? less->b : Expr();
  }

  // The loop as a counted one; undefined: it is none.
  Stmt Counted(const ir::While& loop, Values* values) {
    const ir::BufferNode* counter = nullptr;
    const auto stores = StoresIn(loop.body);
    Values still = *values;  // what the loop does not change
    for (const auto& [variable, count] : stores) still.erase(variable);
    const Expr bound = Known(BoundOf(loop.condition, &counter), still);
    if (!bound.defined() || ReadsMemory(bound) || ir::Leaves(loop.body)) return {};
    const ir::VarMap around = names_;
    const DType type = bound.dtype();
    const Expr turn = ir::MakeVar("turn", type), next = ir::MakeVar("next", type);
    // Variables that go up by a constant, at the beginning of a turn and after their step.
    Values begin = still, after;
    std::optional<int64_t> step;
    Expr first;
    for (const auto& [variable, count] : stores) {
      const auto known = values->find(variable);
      const std::optional<int64_t> by = count == 1 ? StepOf(loop.body, variable) : std::nullopt;
      if (known == values->end() || !by) continue;
      const Expr stride = ir::MakeInt(*by, variable->dtype);
      begin[variable] = known->second + ir::MakeCast(variable->dtype, turn) * stride;
      after[variable] = known->second + ir::MakeCast(variable->dtype, next) * stride;
      if (variable != counter) continue;
      step = by;
      first = known->second;
    }
    if (!step || *step < 1) return {};
    WithTheTurn(loop.body, stores, *values, turn, next, after, &begin);
    names_ = around;
    const Expr room = bound - first + ir::MakeInt(*step - 1, type);
    const Expr turns = ir::Max(ir::FloorDiv(room, ir::MakeInt(*step, type)), ir::MakeInt(0, type));
    Values inside = begin;
    const Stmt body = Visit(loop.body, &inside);
    Forget(loop.body, values);
    return ir::MakeStmt<ir::For>(loop.loc, ir::ForKind::kSerial,
                                 std::vector<ir::Axis>{{turn, ir::MakeInt(0, type), turns}}, body);
  }

  // Variables that are stored once a turn, after the steps that they depend on: in turn t they hold
  // what turn t - 1 stored, and in the first what they held before, if that is the same function.
  void WithTheTurn(const Stmt& body, const std::map<const ir::BufferNode*, int>& stores,
                   const Values& before, const Expr& turn, const Expr& next, const Values& after,
                   Values* begin) {
    const auto* seq = body.As<ir::Seq>();
    if (seq == nullptr) return;
    Values now = *begin;
    Values found;
    const auto visit = [&](const auto& self, const ir::Seq& list) -> void {
      for (const Stmt& s : list.stmts) {
        if (const auto* inner = s.As<ir::Seq>()) {
          self(self, *inner);
          continue;
        }
        const auto* store = s.As<ir::Store>();
        if (store == nullptr || !IsVariable(store->buffer)) {
          if (const auto* bind = s.As<ir::Bind>()) Name(*bind, Known(bind->value, now));
          for (const auto& [variable, count] : StoresIn(s)) now.erase(variable);
          continue;
        }
        const ir::BufferNode* variable = store->buffer.get();
        const auto stepped = after.find(variable);
        const Expr value = stepped != after.end() ? stepped->second : Known(store->value, now);
        Note(variable, value, &now);
        if (stepped == after.end() && stores.at(variable) == 1) Note(variable, value, &found);
      }
    };
    visit(visit, *seq);
    for (const auto& [variable, value] : found) {
      const auto held = before.find(variable);
      if (held == before.end() || ir::Uses(value, turn)) continue;
      const Expr zero = ir::MakeInt(0, next.dtype());
      if (!OnlyUses(value, held->second, next) ||
          !ir::Same(ir::Substitute(value, {{next.get(), zero}}), held->second)) {
        continue;
      }
      (*begin)[variable] = ir::Substitute(value, {{next.get(), turn}});
    }
  }

  // Whether all variables in `value` but `next` are in `outer`, too: none is the turn's own.
  static bool OnlyUses(const Expr& value, const Expr& outer, const Expr& next) {
    bool only = true;
    ir::Walk(value, [&](const Expr& x) {
      if (x.kind() == ir::ExprKind::kVar) only = only && (x.same_as(next) || ir::Uses(outer, x));
      return only;
    });
    return only;
  }

  const std::function<bool(const Stmt&)>& holds_;
  ir::VarMap names_;  // that stand for no loads, and for what
  int in_parts_ = 0;
  // What the block has stored, and which parts have stored something else since.
  Values of_block_;
  std::map<const ir::BufferNode*, std::set<std::pair<int64_t, int64_t>>> by_parts_;
};

}  // namespace

Stmt CountLoops(const Stmt& launch, const std::function<bool(const Stmt&)>& holds) {
  bool any = false;
  ir::Walk(launch, [&](const Stmt& s) {
    any = any || (s.kind() == ir::StmtKind::kWhile && holds(s));
    return !any;
  });
  if (!any) return launch;
  Values values;
  return Counter(holds).Visit(launch, &values);
}

}  // namespace kiln::lang
