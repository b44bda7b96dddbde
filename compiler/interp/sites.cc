#include "compiler/interp/sites.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/visit.h"

namespace kiln::interp {

bool Collector::DependsOnBlock(const ir::Expr& e) {
  bool depends = false;
  ir::Walk(e, [&](const ir::Expr& x) {
    depends |= block_dependent_.count(x.get()) > 0;
    return !depends;
  });
  return depends;
}

Span Collector::MakeSpan(const ir::Expr& min, const ir::Expr& extent, const ir::Facts& facts) {
  Span span;
  span.min = min;
  span.extent = extent;
  if (!min.dtype().is_scalar() || DependsOnBlock(extent)) return span;
  ir::LinearForm form = facts.Expand(min), rest;
  rest.constant = form.constant;
  for (const auto& [atom, k] : form.terms) {
    bool is_block = false;
    for (size_t d = 0; d < current_->launch->grid.size(); ++d) {
      if (!atom.same_as(current_->launch->grid[d].var)) continue;
      span.per_block[d] = k;
      is_block = true;
    }
    if (is_block) continue;
    if (DependsOnBlock(atom)) return span;
    rest.terms.emplace_back(atom, k);
  }
  const auto bounds = facts.BoundsOf(rest), size = facts.BoundsOf(extent);
  if (!bounds || !size) return span;
  span.linear = true;
  span.low = bounds->min;
  span.high = bounds->max + size->max - 1;
  return span;
}

void Collector::Add(Site site, bool write) {
  (write ? current_->writes : current_->reads).push_back(std::move(site));
}

void Collector::AddRegion(const ir::Region& r, const ir::Facts& facts, bool write, bool atomic) {
  if (!r.buffer) return;
  for (const ir::Range& range : r.ranges) {
    AddLoads(range.min, facts);
    AddLoads(range.extent, facts);
  }
  if (r.buffer->scope == ir::Scope::kGlobal && !current_ && !write) host_reads.push_back(r.buffer);
  if (r.buffer->scope != ir::Scope::kGlobal || !current_) return;
  Site site{r.buffer, {}, facts, atomic};
  for (const ir::Range& range : r.ranges) {
    site.spans.push_back(MakeSpan(range.min, range.extent, facts));
  }
  Add(std::move(site), write);
}

void Collector::AddAccess(const ir::Buffer& b, const std::vector<ir::Expr>& indices,
                          const ir::Facts& facts, bool write) {
  if (b->scope == ir::Scope::kGlobal && !current_ && !write) host_reads.push_back(b);
  if (b->scope != ir::Scope::kGlobal || !current_) return;
  Site site{b, {}, facts, false};
  for (const ir::Expr& index : indices)
    site.spans.push_back(MakeSpan(index, ir::MakeInt(1), facts));
  Add(std::move(site), write);
}

void Collector::AddLoads(const ir::Expr& e, const ir::Facts& facts) {
  ir::Walk(e, [&](const ir::Expr& x) {
    if (const auto* load = x.As<ir::Load>()) AddAccess(load->buffer, load->indices, facts, false);
    return true;
  });
}

void Collector::Leaf(const ir::Stmt& s, const ir::Facts& facts) {
  if (const auto* x = s.As<ir::Store>()) {
    for (const ir::Expr& index : x->indices) AddLoads(index, facts);
    AddLoads(x->value, facts);
    AddLoads(x->predicate, facts);
    AddAccess(x->buffer, x->indices, facts, true);
  } else if (const auto* x = s.As<ir::Copy>()) {
    AddRegion(x->src, facts, false);
    AddRegion(x->dst, facts, true);
  } else if (const auto* x = s.As<ir::Gemm>()) {
    AddRegion(x->a, facts, false);
    AddRegion(x->b, facts, false);
    if (x->sparse()) AddRegion(x->e, facts, false);
    AddLoads(x->clear_accum, facts);
    if (!ir::IsConst(x->clear_accum, 1)) AddRegion(x->c, facts, false);
    AddRegion(x->c, facts, true);
  } else if (const auto* x = s.As<ir::PairGemm>()) {
    for (const ir::Region* r : {&x->a, &x->b, &x->c}) AddRegion(*r, facts, false);
    AddRegion(x->c, facts, true);
  } else if (const auto* x = s.As<ir::Fill>()) {
    AddLoads(x->value, facts);
    AddRegion(x->dst, facts, true);
  } else if (const auto* x = s.As<ir::Reduce>()) {
    AddRegion(x->src, facts, false);
    if (!x->clear) AddRegion(x->dst, facts, false);
    AddRegion(x->dst, facts, true);
  } else if (const auto* x = s.As<ir::Scan>()) {
    AddRegion(x->src, facts, false);
    AddRegion(x->dst, facts, true);
  } else if (const auto* x = s.As<ir::Print>()) {
    for (const ir::Expr& e : x->values) AddLoads(e, facts);
  } else if (const auto* x = s.As<ir::Atomic>()) {
    AddRegion(x->src, facts, false);
    AddLoads(x->value, facts);
    AddRegion(x->dst, facts, true, /*atomic=*/true);
  } else if (const auto* x = s.As<ir::Evaluate>()) {
    AddLoads(x->value, facts);
  } else if (const auto* x = s.As<ir::Assert>()) {
    AddLoads(x->condition, facts);
  } else if (const auto* x = s.As<ir::Alloc>()) {
    AddLoads(x->init, facts);
  }
}

void Collector::VisitFor(const ir::For& x, const ir::Facts& outer) {
  ir::Facts facts = outer;
  for (const ir::Axis& axis : x.axes) {
    AddLoads(axis.min, outer);
    AddLoads(axis.extent, outer);
    facts.AddAxis(axis);
    if (DependsOnBlock(axis.min) || DependsOnBlock(axis.extent)) {
      block_dependent_.insert(axis.var.get());
    }
  }
  loops_ += current_ == nullptr;
  Visit(x.body, &facts);
  loops_ -= current_ == nullptr;
}

void Collector::VisitLaunch(const ir::Launch& x, const ir::Facts& outer) {
  ir::Facts facts = outer;
  launches.emplace_back();
  current_ = &launches.back();
  current_->launch = &x;
  current_->outer = outer;
  current_->every_block = loops_ > 0;
  for (const ir::Axis& axis : x.grid) {
    facts.AddAxis(axis);
    block_dependent_.insert(axis.var.get());
    const auto extent = facts.BoundsOf(axis.extent);
    const bool known = extent && extent->min == extent->max;
    current_->every_block |= !known;
    current_->extent.push_back(known ? std::max<int64_t>(extent->min, 0) : 1);
  }
  Visit(x.body, &facts);
  current_ = nullptr;
}

void Collector::Visit(const ir::Stmt& s, ir::Facts* facts) {
  if (const auto* x = s.As<ir::Seq>()) {
    ir::Facts inner = *facts;
    for (const ir::Stmt& child : x->stmts) Visit(child, &inner);
  } else if (const auto* x = s.As<ir::For>()) {
    VisitFor(*x, *facts);
  } else if (const auto* x = s.As<ir::While>()) {
    AddLoads(x->condition, *facts);
    ir::Facts inner = *facts;
    loops_ += current_ == nullptr;
    Visit(x->body, &inner);
    loops_ -= current_ == nullptr;
  } else if (const auto* x = s.As<ir::If>()) {
    AddLoads(x->condition, *facts);
    ir::Facts inner = *facts, other = *facts;
    Visit(x->then_case, &inner);
    if (x->else_case.defined()) Visit(x->else_case, &other);
  } else if (const auto* x = s.As<ir::OnThreads>()) {
    ir::Facts inner = *facts;
    Visit(x->body, &inner);
  } else if (const auto* x = s.As<ir::Launch>()) {
    VisitLaunch(*x, *facts);
  } else if (const auto* x = s.As<ir::Bind>()) {
    AddLoads(x->value, *facts);
    facts->SetValue(x->var, x->value);
    if (DependsOnBlock(x->value)) block_dependent_.insert(x->var.get());
  } else {
    Leaf(s, *facts);
  }
}

ElementBox BoxOf(const Site& site, const LaunchInfo& info, const int64_t (&block)[3]) {
  ElementBox box;
  std::optional<ir::Facts> here;
  for (size_t d = 0; d < site.spans.size(); ++d) {
    const Span& span = site.spans[d];
    if (span.linear) {
      int64_t shift = 0;
      for (int k = 0; k < 3; ++k) shift += span.per_block[k] * block[k];
      box.low[d] = span.low + shift;
      box.high[d] = span.high + shift;
      continue;
    }
    if (!here) {
      here = site.facts;
      for (size_t k = 0; k < info.launch->grid.size(); ++k) {
        here->SetBounds(info.launch->grid[k].var, {block[k], block[k]});
      }
    }
    const auto min = here->BoundsOf(span.min), extent = here->BoundsOf(span.extent);
    box.low[d] = min ? min->min : kMinusInfinity;
    box.high[d] = min && extent ? min->max + extent->max - 1 : kInfinity;
  }
  return box;
}

}  // namespace kiln::interp
