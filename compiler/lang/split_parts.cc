#include "compiler/lang/split_parts.h"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/follow_barriers.h"
#include "compiler/lang/rank_parts.h"

namespace kiln::lang {
namespace {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using Stmts = std::vector<Stmt>;
using Span = std::pair<int64_t, int64_t>;  // first thread, count

Span SpanOf(const ir::OnThreads& part) { return {part.first, part.count}; }

Stmts ListOf(const Stmt& s) {
  if (const auto* seq = s.As<ir::Seq>()) return seq->stmts;
  return {s};
}

// ---- variables that several spans use ----

class OwnVariables {
 public:
  explicit OwnVariables(const Stmt& body) {
    Look(body, nullptr);
    for (auto& [variable, uses] : uses_) {
      if (uses.written && !uses.read_by_all && uses.spans.size() > 1) shared_.insert(variable);
    }
  }

  Stmt Of(const Stmt& body) {
    if (shared_.empty()) return body;
    return Rewrite(body);
  }

 private:
  struct Uses {
    std::set<Span> spans;
    bool written = false;      // by a part
    bool read_by_all = false;  // outside of the parts
  };

  static bool IsVariable(const Buffer& b) { return b->scope == ir::Scope::kVar; }

  void Look(const Stmt& s, const ir::OnThreads* part) {
    ir::Walk(
        s,
        [&](const Stmt& x) {
          if (const auto* inner = x.As<ir::OnThreads>(); inner != nullptr && part == nullptr) {
            Look(inner->body, inner);
            return false;
          }
          const auto* store = x.As<ir::Store>();
          if (store != nullptr && IsVariable(store->buffer) && part != nullptr) {
            uses_[store->buffer.get()].written = true;
            uses_[store->buffer.get()].spans.insert(SpanOf(*part));
          }
          return true;
        },
        [&](const Expr& e) {
          const auto* load = e.As<ir::Load>();
          if (load == nullptr || !IsVariable(load->buffer)) return true;
          Uses& uses = uses_[load->buffer.get()];
          part == nullptr ? (void)(uses.read_by_all = true)
                          : (void)uses.spans.insert(SpanOf(*part));
          return true;
        });
  }

  Stmt Rewrite(const Stmt& body) {
    return ir::RewriteStmts(body, [&](const Stmt& s) -> Stmt {
      if (const auto* part = s.As<ir::OnThreads>()) {
        return ir::MakeStmt<ir::OnThreads>(part->loc, part->first, part->count,
                                           ir::Substitute(part->body, {}, own_[SpanOf(*part)]));
      }
      if (const auto* seq = s.As<ir::Seq>()) {
        Stmts out;
        for (const Stmt& x : seq->stmts) RewriteOne(x, &out);
        return ir::MakeSeq(std::move(out), s->loc);
      }
      const auto* store = s.As<ir::Store>();
      if (store == nullptr || shared_.count(store->buffer.get()) == 0) return Stmt();
      Stmts out;
      RewriteOne(s, &out);
      return ir::MakeSeq(std::move(out), s->loc);
    });
  }

  // What the whole block stores to a variable, it stores to all of them.
  void RewriteOne(const Stmt& s, Stmts* out) {
    const auto* alloc = s.As<ir::Alloc>();
    const auto* store = s.As<ir::Store>();
    const ir::BufferNode* variable = alloc != nullptr   ? alloc->buffer.get()
                                     : store != nullptr ? store->buffer.get()
                                                        : nullptr;
    if (shared_.count(variable) == 0) {
      out->push_back(Rewrite(s));
      return;
    }
    out->push_back(s);
    for (const Span& span : uses_[variable].spans) {
      if (alloc != nullptr) {
        const Buffer own = std::make_shared<ir::BufferNode>(*alloc->buffer);
        own_[span][variable] = own;
        out->push_back(ir::MakeStmt<ir::Alloc>(alloc->loc, own, alloc->init));
      } else {
        out->push_back(ir::Substitute(s, {}, own_[span]));
      }
    }
  }

  std::map<const ir::BufferNode*, Uses> uses_;
  std::set<const ir::BufferNode*> shared_;
  std::map<Span, ir::BufferMap> own_;
};

// ---- names and allocations of a part ----

class Loosener {
 public:
  explicit Loosener(Stmts* allocs) : allocs_(*allocs) {}

  Stmt Loosen(const Stmt& s) {
    if (!HoldsBarrier(s) || s.kind() == ir::StmtKind::kWhile) return ir::Substitute(s, names_);
    const SourceLoc loc = s->loc;
    if (const auto* seq = s.As<ir::Seq>()) {
      Stmts out;
      for (const Stmt& x : seq->stmts) LoosenOne(x, &out);
      return ir::MakeSeq(std::move(out), loc);
    }
    if (const auto* loop = s.As<ir::For>()) {
      std::vector<ir::Axis> axes = loop->axes;
      for (ir::Axis& axis : axes) {
        axis = {axis.var, ir::Substitute(axis.min, names_), ir::Substitute(axis.extent, names_)};
      }
      return ir::MakeStmt<ir::For>(loc, loop->loop, std::move(axes), Loosen(loop->body),
                                   loop->num_stages, loop->annotations);
    }
    if (const auto* branch = s.As<ir::If>()) {
      const Stmt no = branch->else_case.defined() ? Loosen(branch->else_case) : Stmt();
      return ir::MakeStmt<ir::If>(loc, ir::Substitute(branch->condition, names_),
                                  Loosen(branch->then_case), no);
    }
    return ir::Substitute(s, names_);
  }

 private:
  void LoosenOne(const Stmt& s, Stmts* out) {
    if (const auto* bind = s.As<ir::Bind>()) {
      if (IsOfBarrier(s)) return;  // a name for a barrier
      const Expr value = ir::Substitute(bind->value, names_);
      if (!ReadsMemory(value)) {
        names_[bind->var.get()] = value;
        return;
      }
      const Buffer variable = ir::MakeBuffer(bind->var.As<ir::Var>()->name, value.dtype(),
                                             {ir::MakeInt(1)}, ir::Scope::kVar);
      allocs_.push_back(ir::MakeStmt<ir::Alloc>(s->loc, variable));
      out->push_back(Set(s->loc, variable, value));
      names_[bind->var.get()] = ir::MakeLoad(variable, {ir::MakeInt(0)});
      return;
    }
    if (const auto* alloc = s.As<ir::Alloc>()) {
      allocs_.push_back(ir::MakeStmt<ir::Alloc>(s->loc, alloc->buffer));
      if (alloc->init.defined()) {
        out->push_back(Set(s->loc, alloc->buffer, ir::Substitute(alloc->init, names_)));
      }
      return;
    }
    out->push_back(Loosen(s));
  }

  static Stmt Set(SourceLoc loc, const Buffer& variable, const Expr& value) {
    return ir::MakeStmt<ir::Store>(loc, variable, std::vector<Expr>{ir::MakeInt(0)}, value);
  }

  Stmts& allocs_;
  ir::VarMap names_;
};

// ---- parts side by side ----

// Whether they have threads in common, and are not the same.
bool Overlap(const Span& a, const Span& b) {
  return a != b && a.first < b.first + b.second && b.first < a.first + a.second;
}

// Parts that follow each other and have no threads in common, with what is allocated and named
// between them.
class Gathering {
 public:
  bool Takes(const Stmt& s) {
    if (const auto* part = s.As<ir::OnThreads>()) {
      for (const Span& other : spans_) {
        if (Overlap(other, SpanOf(*part))) return false;
      }
      size_t p = 0;
      while (p < spans_.size() && spans_[p] != SpanOf(*part)) ++p;
      if (p == spans_.size()) {
        spans_.push_back(SpanOf(*part));
        bodies_.emplace_back();
      }
      bodies_[p].push_back(part->body);
    } else if (s.kind() == ir::StmtKind::kAlloc ||
               (s.kind() == ir::StmtKind::kBind && !ReadsMemory(s.As<ir::Bind>()->value))) {
      before_.push_back(s);
    } else if (!IsOfBarrier(s) || s.kind() != ir::StmtKind::kBind) {
      return false;
    }
    all_.push_back(s);
    return true;
  }

  void Finish(Stmts* out) {
    bool barriers = false;
    for (const Stmt& s : all_) {
      barriers = barriers || (s.kind() == ir::StmtKind::kOnThreads && HoldsBarrier(s));
    }
    if (spans_.size() < 2 || !barriers) {
      out->insert(out->end(), all_.begin(), all_.end());
    } else {
      Stmts parts;
      for (size_t p = 0; p < spans_.size(); ++p) {
        const SourceLoc loc = bodies_[p][0]->loc;
        const Stmt body = Loosener(&before_).Loosen(ir::MakeSeq(bodies_[p], loc));
        parts.push_back(ir::MakeStmt<ir::OnThreads>(loc, spans_[p].first, spans_[p].second, body));
      }
      out->insert(out->end(), before_.begin(), before_.end());
      out->insert(out->end(), parts.begin(), parts.end());
    }
    *this = Gathering();
  }

 private:
  Stmts all_, before_;
  std::vector<Span> spans_;
  std::vector<Stmts> bodies_;
};

Stmts Gather(const Stmts& stmts) {
  Stmts out;
  Gathering run;
  for (const Stmt& s : stmts) {
    if (run.Takes(s)) continue;
    run.Finish(&out);
    if (!run.Takes(s)) out.push_back(s);
  }
  run.Finish(&out);
  return out;
}

Stmts Split(const Stmt& s);

Stmts SplitAll(const Stmts& stmts) {
  Stmts out;
  for (const Stmt& s : stmts) {
    for (const Stmt& x : Split(s)) out.push_back(x);
  }
  return Gather(out);
}

// `around(body)` for each part by itself, where there is nothing but parts and allocations.
bool PartByPart(const Stmts& stmts, const std::function<Stmt(const Stmt&)>& around, Stmts* out) {
  size_t parts = 0;
  for (const Stmt& s : stmts) {
    const auto* alloc = s.As<ir::Alloc>();
    if (s.kind() == ir::StmtKind::kOnThreads) ++parts;
    if (s.kind() != ir::StmtKind::kOnThreads && (alloc == nullptr || alloc->init.defined())) {
      return false;
    }
  }
  if (parts == 0) return false;
  for (const Stmt& s : stmts) {
    const auto* part = s.As<ir::OnThreads>();
    out->push_back(part == nullptr ? s
                                   : ir::MakeStmt<ir::OnThreads>(part->loc, part->first,
                                                                 part->count, around(part->body)));
  }
  return true;
}

// What stands in the place of `s`, a statement of the whole block.
Stmts Split(const Stmt& s) {
  if (!HoldsBarrier(s)) return {s};
  if (const auto* seq = s.As<ir::Seq>()) return SplitAll(seq->stmts);
  if (const auto* part = s.As<ir::OnThreads>()) {  // parts of a part, and nothing else
    if (IsRank(*part)) return {s};
    Stmts inner;
    const auto same = [](const Stmt& x) { return x; };
    return PartByPart(SplitAll(ListOf(part->body)), same, &inner) ? inner : Stmts{s};
  }
  if (const auto* loop = s.As<ir::For>()) {
    const ir::Axis axis = loop->axes[0];
    const ir::ForKind kind =
        loop->loop == ir::ForKind::kUnroll ? ir::ForKind::kUnroll : ir::ForKind::kSerial;
    const Stmts body = SplitAll(ListOf(loop->body));
    Stmts out;
    const bool apart =
        loop->loop != ir::ForKind::kThreads && !ReadsMemory(axis.min) &&
        !ReadsMemory(axis.extent) &&
        PartByPart(
            body,
            [&](const Stmt& part) {
              const Expr own = ir::MakeVar(axis.var.As<ir::Var>()->name, axis.var.dtype());
              return ir::MakeStmt<ir::For>(loop->loc, kind,
                                           std::vector<ir::Axis>{{own, axis.min, axis.extent}},
                                           ir::Substitute(part, {{axis.var.get(), own}}));
            },
            &out);
    if (apart) return out;
    return {ir::MakeStmt<ir::For>(loop->loc, loop->loop, loop->axes,
                                  ir::MakeSeq(body, loop->body->loc), loop->num_stages,
                                  loop->annotations)};
  }
  if (const auto* branch = s.As<ir::If>()) {
    Stmts out;
    const auto when = [&](const Expr& condition) {
      return [=](const Stmt& part) { return ir::MakeStmt<ir::If>(part->loc, condition, part); };
    };
    const Stmts yes = SplitAll(ListOf(branch->then_case));
    const Stmts no = branch->else_case.defined() ? SplitAll(ListOf(branch->else_case)) : Stmts();
    const Expr otherwise = ir::MakeUnary(ir::UnaryOp::kNot, branch->condition);
    if (!ReadsMemory(branch->condition) && PartByPart(yes, when(branch->condition), &out) &&
        (no.empty() || PartByPart(no, when(otherwise), &out))) {
      return out;
    }
    return {ir::MakeStmt<ir::If>(s->loc, branch->condition, ir::MakeSeq(yes, s->loc),
                                 no.empty() ? Stmt() : ir::MakeSeq(no, s->loc))};
  }
  if (const auto* loop = s.As<ir::While>()) {
    return {ir::MakeStmt<ir::While>(s->loc, loop->condition,
                                    ir::MakeSeq(SplitAll(ListOf(loop->body)), s->loc))};
  }
  return {s};
}

}  // namespace

Stmt SplitParts(const ir::Launch& launch) {
  const Stmt body = OwnVariables(launch.body).Of(launch.body);
  return ir::MakeStmt<ir::Launch>(launch.loc, launch.grid, launch.threads,
                                  ir::MakeSeq(SplitAll(ListOf(body)), launch.body->loc),
                                  launch.annotations);
}

}  // namespace kiln::lang
