#include "compiler/ir/thread_values.h"

#include <algorithm>

#include "compiler/ir/instruct.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

bool IsLocal(const Buffer& b) {
  return b && (b->scope == Scope::kLocal || b->scope == Scope::kVar);
}

}  // namespace

bool IsExchange(const Stmt& s) {
  const auto* x = s.As<Instruct>();
  return x != nullptr && (x->op == Instruction::kShuffle || x->op == Instruction::kBallot ||
                          x->op == Instruction::kMatch);
}

std::vector<const Region*> RegionsOf(const Stmt& s) {
  std::vector<const Region*> regions;
  if (const auto* copy = s.As<Copy>()) regions = {&copy->dst, &copy->src};
  if (const auto* gemm = s.As<Gemm>()) {
    regions = {&gemm->c, &gemm->a, &gemm->b};
    if (gemm->sparse()) regions.push_back(&gemm->e);
  }
  if (const auto* fill = s.As<Fill>()) regions = {&fill->dst};
  if (const auto* reduce = s.As<Reduce>()) regions = {&reduce->dst, &reduce->src};
  if (const auto* scan = s.As<Scan>()) regions = {&scan->dst, &scan->src};
  if (const auto* atomic = s.As<Atomic>()) {
    regions = {&atomic->dst};
    if (!atomic->value.defined()) regions.push_back(&atomic->src);
  }
  if (const auto* x = s.As<Instruct>()) {
    for (const Region& r : x->regions) regions.push_back(&r);
  }
  return regions;
}

ThreadValues::ThreadValues(const Stmt& body, const std::vector<Expr>& indices) {
  for (const Expr& index : indices) vars_.insert(index.get());
  do {
    changed_ = false;
    Visit(body, false);
  } while (changed_);
}

bool ThreadValues::Differs(const Expr& e) const {
  if (!e.defined()) return false;
  bool differs = false;
  Walk(e, [&](const Expr& x) {
    const auto* load = x.As<Load>();
    differs |= vars_.count(x.get()) > 0 || (load != nullptr && IsOwn(load->buffer));
    return !differs;
  });
  return differs;
}

bool ThreadValues::Differs(const Region& region) const {
  return std::any_of(region.ranges.begin(), region.ranges.end(),
                     [&](const Range& r) { return Differs(r.min) || Differs(r.extent); });
}

bool ThreadValues::Differs(const std::vector<Axis>& axes) const {
  return std::any_of(axes.begin(), axes.end(),
                     [&](const Axis& a) { return Differs(a.min) || Differs(a.extent); });
}

bool ThreadValues::Diverges(const Stmt& s) const {
  if (const auto* loop = s.As<For>()) return Differs(loop->axes) || loops_.count(s.get()) > 0;
  if (const auto* loop = s.As<While>())
    return Differs(loop->condition) || loops_.count(s.get()) > 0;
  const auto* branch = s.As<If>();
  return branch != nullptr && Differs(branch->condition);
}

bool ThreadValues::IsOwn(const Buffer& buffer) const {
  return buffer && own_.count(buffer.get()) > 0;
}

bool ThreadValues::Concerns(const Stmt& s) const {
  bool concerns = false;
  const auto check = [&](const Buffer& b) { concerns |= IsOwn(b); };
  Walk(
      s,
      [&](const Stmt& x) {
        concerns |= IsExchange(x) || Diverges(x);
        for (const Region* r : RegionsOf(x)) check(r->buffer);
        if (const auto* store = x.As<Store>()) check(store->buffer);
        if (const auto* alloc = x.As<Alloc>()) check(alloc->buffer);
        if (const auto* atomic = x.As<Atomic>()) check(atomic->way.previous);
        return !concerns;
      },
      [&](const Expr& e) {
        const auto* load = e.As<Load>();
        concerns |= vars_.count(e.get()) > 0 || (load != nullptr && IsOwn(load->buffer));
        return !concerns;
      });
  return concerns;
}

void ThreadValues::Own(const Buffer& buffer) {
  if (IsLocal(buffer)) changed_ |= own_.insert(buffer.get()).second;
}

void ThreadValues::Var(const Expr& var) { changed_ |= vars_.insert(var.get()).second; }

// Threads that leave a loop, or a turn of it, while others go on.
void ThreadValues::Jump(bool diverged) {
  if (around_.empty() || !diverged || around_.back().diverged) return;
  changed_ |= loops_.insert(around_.back().stmt).second;
}

void ThreadValues::Visit(const Stmt& s, bool diverged) {
  if (const auto* seq = s.As<Seq>()) {
    for (const Stmt& child : seq->stmts) Visit(child, diverged);
  } else if (const auto* loop = s.As<For>()) {
    for (const Axis& axis : loop->axes) {
      if (Differs(axis.min) || Differs(axis.extent)) Var(axis.var);
    }
    around_.push_back({s.get(), diverged});
    Visit(loop->body, diverged || Diverges(s));
    around_.pop_back();
  } else if (const auto* loop = s.As<While>()) {
    around_.push_back({s.get(), diverged});
    Visit(loop->body, diverged || Diverges(s));
    around_.pop_back();
  } else if (const auto* branch = s.As<If>()) {
    Visit(branch->then_case, diverged || Diverges(s));
    if (branch->else_case.defined()) Visit(branch->else_case, diverged || Diverges(s));
  } else if (const auto* part = s.As<OnThreads>()) {
    Visit(part->body, diverged);
  } else {
    VisitLeaf(s, diverged);
  }
}

void ThreadValues::VisitLeaf(const Stmt& s, bool diverged) {
  if (IsJump(s)) return Jump(diverged);
  if (const auto* bind = s.As<Bind>()) {
    if (Differs(bind->value)) Var(bind->var);
    return;
  }
  if (const auto* alloc = s.As<Alloc>()) {
    if (Differs(alloc->init)) Own(alloc->buffer);
    return;
  }
  if (const auto* store = s.As<Store>()) {
    bool differs = diverged || Differs(store->value) || Differs(store->predicate);
    for (const Expr& index : store->indices) differs |= Differs(index);
    if (differs) Own(store->buffer);
    return;
  }
  const std::vector<const Region*> regions = RegionsOf(s);
  if (regions.empty()) return;
  bool differs = diverged;
  for (const Region* r : regions) differs |= Differs(*r) || IsOwn(r->buffer);
  if (const auto* fill = s.As<Fill>()) differs |= Differs(fill->value);
  if (const auto* atomic = s.As<Atomic>()) {
    differs |= Differs(atomic->value);
    if (atomic->way.previous) Own(atomic->way.previous);  // each thread hears something else
  }
  if (differs) Own(regions[0]->buffer);
  if (!IsExchange(s)) return;
  for (const Region* r : regions) Own(r->buffer);
}

}  // namespace kiln::ir
