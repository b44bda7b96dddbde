#include "compiler/ir/thread_parts.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/ir/analysis.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

constexpr int64_t kWarp = 32;

struct Span {
  int64_t first, count;
};

bool IsWait(const Stmt& s) {
  const auto* check = s.As<Assert>();
  const auto* equal = check == nullptr ? nullptr : check->condition.As<Binary>();
  const auto* load = equal == nullptr ? nullptr : equal->a.As<Load>();
  return load != nullptr && load->buffer->scope == Scope::kBarrier;
}

// At a barrier of the kernel's own, by one for all that come by (lang/follow_barriers.h).
bool IsCommonArrival(const Stmt& s) {
  const auto* store = s.As<Store>();
  return store != nullptr && store->buffer->scope == Scope::kBarrier && IsConst(store->value, 0);
}

bool IsOrder(const Stmt& s) { return IsWait(s) || IsCommonArrival(s); }

bool IsMeeting(const Stmt& s) {
  const auto* x = s.As<Instruct>();
  return x != nullptr && x->op == Instruction::kBlockBarrier && x->annotations.count("some") == 0;
}

template <typename F>
bool Holds(const Stmt& s, const F& what) {
  bool holds = false;
  if (s.defined()) {
    Walk(s, [&](const Stmt& x) {
      holds = holds || what(x);
      return !holds;
    });
  }
  return holds;
}

bool DoesNothing(const Stmt& s) {
  const auto* seq = s.As<Seq>();
  return !s.defined() || (seq != nullptr && seq->stmts.empty());
}

// Whether nobody before did what `s` does: each statement is of one part.
bool DoesFirst(const Stmt& s, std::unordered_set<const StmtNode*>* done) {
  bool first = true;
  Walk(s, [&](const Stmt& x) {
    const bool holds_more = x.kind() == StmtKind::kSeq || x.kind() == StmtKind::kIf ||
                            x.kind() == StmtKind::kFor || x.kind() == StmtKind::kWhile ||
                            x.kind() == StmtKind::kOnThreads;
    first = first && (holds_more || done->insert(x.get()).second);
    return first;
  });
  return first;
}

class Parts : public Mutator {
 public:
  Parts(const std::vector<Expr>& indices, const std::vector<int64_t>& extents, int64_t threads)
      : slow_first_(indices.rbegin(), indices.rend()),
        extents_(extents.rbegin(), extents.rend()),
        span_{0, threads} {
    extents_.insert(extents_.begin(), slow_first_.size() - extents_.size(), 1);
  }

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    const auto* part = s.As<OnThreads>();
    const auto* branch = s.As<If>();
    const auto* loop = s.As<For>();
    if (loop != nullptr && loop->loop == ForKind::kParallel) return s;
    if (part != nullptr) {
      return MakeStmt<OnThreads>(s->loc, part->first, part->count,
                                 In({part->first, part->count}, part->body));
    }
    const bool orders = branch != nullptr && Holds(s, IsOrder) && !Holds(s, IsMeeting);
    if (orders || (branch != nullptr && in_parts_ > 0)) {
      const std::optional<Stmt> parts = PartsOf(*branch);
      if (parts) return *parts;
    }
    return RebuildStmt(s);
  }

 private:
  Stmt In(Span span, const Stmt& body) {
    const Span around = std::exchange(span_, span);
    ++in_parts_;
    const Stmt out = Mutate(body);
    --in_parts_;
    span_ = around;
    return out;
  }

  // The threads here for which a condition holds, and those for which it does not, in turn.
  std::optional<std::vector<std::pair<Span, bool>>> SpansOf(const Expr& condition) const {
    const auto function = IntFunction::Of(condition, slow_first_);
    const std::vector<int64_t> zeros(slow_first_.size(), 0);
    const auto by_thread = function.ok() ? function->Over(zeros, extents_) : std::nullopt;
    if (!by_thread) return std::nullopt;
    std::vector<std::pair<Span, bool>> spans;
    for (int64_t t = span_.first; t < span_.first + span_.count; ++t) {
      const bool value = (*by_thread)[static_cast<size_t>(t)] != 0;
      if (spans.empty() || spans.back().second != value) spans.push_back({{t, 0}, value});
      ++spans.back().first.count;
    }
    return spans;
  }

  // What a span does; parts of it as they are, where that is all.
  static void Append(SourceLoc loc, Span span, const Stmt& body, std::vector<Stmt>* out) {
    const auto* seq = body.As<Seq>();
    const std::vector<Stmt> stmts = seq == nullptr ? std::vector<Stmt>{body} : seq->stmts;
    const auto is_part = [](const Stmt& s) { return s.kind() == StmtKind::kOnThreads; };
    if (std::all_of(stmts.begin(), stmts.end(), is_part)) {
      out->insert(out->end(), stmts.begin(), stmts.end());
    } else {
      out->push_back(MakeStmt<OnThreads>(loc, span.first, span.count, body));
    }
  }

  // The branch as parts; nullopt where one side is done by spans that do not follow each other.
  std::optional<Stmt> PartsOf(const If& branch) {
    const auto spans = SpansOf(branch.condition);
    if (!spans) return std::nullopt;
    if (spans->size() == 1) {
      const Stmt& all = (*spans)[0].second ? branch.then_case : branch.else_case;
      return all.defined() ? Mutate(all) : MakeSeq({}, branch.loc);
    }
    std::vector<Stmt> out;
    std::unordered_set<const StmtNode*> done;
    for (const auto& [span, value] : *spans) {
      const Stmt& side = value ? branch.then_case : branch.else_case;
      if (!side.defined()) continue;
      const Stmt body = In(span, side);
      if (DoesNothing(body)) continue;
      if (span.first % kWarp != 0 || span.count % kWarp != 0 || !DoesFirst(body, &done)) {
        return std::nullopt;
      }
      Append(branch.loc, span, body, &out);
    }
    return MakeSeq(std::move(out), branch.loc);
  }

  const std::vector<Expr> slow_first_;
  std::vector<int64_t> extents_;  // slow first, too
  Span span_;
  int in_parts_ = 0;
};

// Whether the block looks at a variable that a part may have written before, or a part writes a
// tile of single threads.
class SharedVariables {
 public:
  bool In(const Stmt& launch) {
    Look(launch, false);
    return shared_;
  }

 private:
  static bool HasParts(const Stmt& s) {
    return Holds(s, [](const Stmt& x) { return x.kind() == StmtKind::kOnThreads; });
  }

  void Look(const Stmt& s, bool in_part) {
    Walk(
        s,
        [&](const Stmt& x) {
          const bool loop = x.kind() == StmtKind::kFor || x.kind() == StmtKind::kWhile;
          if (!in_part && x.kind() == StmtKind::kOnThreads) {
            Look(x.As<OnThreads>()->body, true);
            return false;
          }
          if (!in_part && loop && !x.same_as(s) && HasParts(x)) {
            Look(x, false);  // what a turn writes, the next one reads
            Look(x, false);
            return false;
          }
          return Write(x, in_part);
        },
        [&](const Expr& e) {
          const auto* load = e.As<Load>();
          shared_ |= load != nullptr && !in_part && of_parts_.count(load->buffer.get()) > 0;
          return true;
        });
  }

  bool Write(const Stmt& x, bool in_part) {
    const bool holds_more = x.kind() == StmtKind::kSeq || x.kind() == StmtKind::kFor ||
                            x.kind() == StmtKind::kIf || x.kind() == StmtKind::kWhile ||
                            x.kind() == StmtKind::kLaunch;
    const auto* alloc = x.As<Alloc>();
    if (alloc != nullptr && in_part) own_.insert(alloc->buffer.get());
    if (holds_more || alloc != nullptr || !in_part) return true;
    for (const Buffer& b : BuffersWritten(x)) {
      if (b->scope == Scope::kVar) of_parts_.insert(b.get());
      shared_ |= b->scope == Scope::kLocal && own_.count(b.get()) == 0;
    }
    return true;
  }

  std::unordered_set<const BufferNode*> of_parts_, own_;
  bool shared_ = false;
};

}  // namespace

Stmt PartsOfThreads(const Stmt& launch, const std::vector<Expr>& indices,
                    const std::vector<int64_t>& extents) {
  if (!Holds(launch, IsOrder)) return launch;
  int64_t threads = 1;
  for (const int64_t extent : extents) threads *= extent;
  const Stmt parts = Parts(indices, extents, threads).Mutate(launch);
  return SharedVariables().In(parts) ? launch : parts;
}

}  // namespace kiln::ir
