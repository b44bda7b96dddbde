#include "compiler/lang/follow_barriers.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/barrier_state.h"
#include "compiler/lang/block_terms.h"
#include "compiler/lang/turn_cycle.h"

namespace kiln::lang {
namespace {

using ir::Expr;
using ir::Stmt;

constexpr int64_t kMaxSteps = 1'000'000;  // statements run, over all blocks
// Of a loop whose turns are counted at run time: those in which it must have come back to where it
// was, and what parts are run with to see what they need.
constexpr int64_t kProbe = 128;
constexpr int64_t kTrials = 24;

bool IsBarrier(const ir::Buffer& buffer) { return buffer->scope == ir::Scope::kBarrier; }

bool IsBarrier(const Expr& e) {
  const auto* load = e.As<ir::Load>();
  return load != nullptr && IsBarrier(load->buffer);
}

// Runs the control flow around the barriers of one launch, and nothing else.
class Follower {
 public:
  Follower(const ir::Program& program, const ir::Launch& launch, BarrierListener* listener)
      : program_(program), launch_(launch), listener_(*listener) {}

  absl::Status Run() {
    if (!Of(launch_.body).barriers) return absl::OkStatus();
    // All blocks alike, unless what the barriers do depends on which one it is.
    const absl::Status alike = RunBlock({});
    if (!unknown_) return alike;
    std::vector<int64_t> extents, block(launch_.grid.size(), 0);
    for (const ir::Axis& axis : launch_.grid) {
      const std::optional<int64_t> extent = ir::ConstInt(axis.extent);
      if (!extent) return RunAnyCount(alike);
      extents.push_back(*extent);
    }
    const std::optional<std::vector<Expr>> terms = BlockTerms(launch_);
    std::set<std::vector<int64_t>> done;  // what the blocks look at of their numbers
    do {
      if (terms && !done.insert(ValuesOf(*terms, block)).second && ++steps_ <= kMaxSteps) continue;
      unknown_ = false;
      const absl::Status one = RunBlock(block);
      if (unknown_) return RunAnyCount(one);
      KILN_RETURN_IF_ERROR(one);
    } while (Advance(extents, &block));
    return absl::OkStatus();
  }

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  struct Facts {  // of a statement and all in it
    bool barriers = false;
    bool leaves = false;                         // a loop around it: break, continue
    std::vector<const ir::BufferNode*> scalars;  // that it writes
  };

  class Fold : public ir::Mutator {
   public:
    // `counted`: with a number for the turns of the loop that is counted at run time.
    explicit Fold(const Follower& runner, bool counted = true)
        : runner_(runner), counts_(counted && runner.counted_.has_value()) {}

   protected:
    Expr VisitExpr(const Expr& e) override {
      const auto* load = e.As<ir::Load>();
      const void* key = load != nullptr ? static_cast<const void*>(load->buffer.get()) : e.get();
      const auto known = runner_.values_.find(key);
      if (known != runner_.values_.end()) return ir::MakeInt(known->second, e.dtype());
      if (counts_ && runner_.counted_->atom.defined() && ir::Same(e, runner_.counted_->atom)) {
        return ir::MakeInt(runner_.counted_->count, e.dtype());
      }
      return ir::Mutator::VisitExpr(e);
    }

   private:
    const Follower& runner_;
    const bool counts_;
  };

  static bool Advance(const std::vector<int64_t>& extents, std::vector<int64_t>* block) {
    for (size_t d = 0; d < extents.size(); ++d) {
      if (++(*block)[d] < extents[d]) return true;
      (*block)[d] = 0;
    }
    return false;
  }

  // Of terms of the grid's variables, in a block; its number, where one has no value.
  std::vector<int64_t> ValuesOf(const std::vector<Expr>& terms,
                                const std::vector<int64_t>& block) const {
    ir::VarMap numbers;
    for (size_t d = 0; d < block.size(); ++d) {
      const Expr& var = launch_.grid[d].var;
      numbers[var.get()] = ir::MakeInt(block[d], var.dtype());
    }
    std::vector<int64_t> values;
    for (const Expr& term : terms) {
      const std::optional<int64_t> value = ir::ConstInt(ir::Substitute(term, numbers));
      if (!value) return block;
      values.push_back(*value);
    }
    return values;
  }

  absl::Status RunBlock(const std::vector<int64_t>& block) {
    values_.clear();
    names_.clear();
    variables_.clear();
    arrived_ = BarrierState();
    turns_.clear();
    in_parts_ = 0;
    listener_.BeginBlock();
    threads_ = 1;
    for (const Expr& extent : launch_.threads) threads_ *= ir::ConstInt(extent).value_or(1);
    for (size_t d = 0; d < block.size(); ++d) values_[launch_.grid[d].var.get()] = block[d];
    return Exec(launch_.body).status();
  }

  // A loop of the launch is counted by a value of run time. Its turns come back to a state in which
  // they have been before: the same turn of the period of everything that they look at, the same
  // arrivals, the same variables. Then what any number of turns do is what one of the first numbers
  // of turns do, and those are run.
  absl::Status RunAnyCount(const absl::Status& unknown) {
    counted_ = Counted();
    const auto run = [&](int64_t count) {
      counted_->count = count;
      counted_->loop = nullptr;
      counted_->states.clear();
      unknown_ = false;
      return RunBlock({});
    };
    if (listener_.KeepsParts()) {
      for (int64_t n = 0; n <= kTrials; ++n) KILN_RETURN_IF_ERROR(run(n));
      return absl::OkStatus();
    }
    // What some counts alone look at, a probe of those finds, or one of the first counts.
    for (int64_t tried = 0;;) {
      const auto known = counted_->Looked();
      int64_t enough = 0;
      for (int64_t r = 0; r < counted_->count_period; ++r) {
        KILN_RETURN_IF_ERROR(run(kProbe + r));
        if (counted_->loop == nullptr && r == 0) return unknown;
        if (counted_->loop == nullptr) continue;
        const std::optional<int64_t> last = counted_->Enough();
        if (!last) return NoRepeat(counted_->loop->loc);
        enough = std::max(enough, *last);
      }
      for (; tried <= enough; ++tried) KILN_RETURN_IF_ERROR(run(tried));
      if (counted_->Looked() == known) return absl::OkStatus();
    }
  }

  absl::Status NoRepeat(SourceLoc loc) const {
    return ir::ErrorAt(
        program_, loc, "what the barriers in this loop do does not repeat from turn to turn",
        "count turns by % and //, so that barriers and parities come back; the loop has as many "
        "turns as a value of run time says",
        absl::StatusCode::kUnimplemented);
  }

  // A loop that is counted at run time, and what is known of its turns.
  struct Counted {
    Expr atom;           // what its extent is, but for a constant
    int64_t offset = 0;  // at most, of turns from the values of `turn` and `atom`
    int64_t count = 0;   // that is tried
    const ir::For* loop = nullptr;
    Expr turn;  // its variable
    int64_t period = 1, count_period = 1, margin = 0;
    bool repeats = true;                                      // as far as it has been looked at
    std::vector<std::vector<std::optional<int64_t>>> states;  // at the beginning of each turn

    // What the values that were looked at ask for.
    std::tuple<bool, int64_t, int64_t, int64_t> Looked() const {
      return {repeats, period, count_period, margin};
    }

    // Turns that show all that any number of them do; nullopt: no such number is known.
    std::optional<int64_t> Enough() const {
      if (!repeats) return std::nullopt;
      const int64_t near = margin + offset + 1;
      for (int64_t last = near; last + near < static_cast<int64_t>(states.size()); ++last) {
        for (int64_t first = last - period; first >= near; first -= period) {
          if (states[static_cast<size_t>(first)] != states[static_cast<size_t>(last)]) continue;
          const std::optional<int64_t> common = CommonPeriod(last - first, count_period);
          if (!common) return std::nullopt;
          return last + *common + 2 * near;
        }
      }
      return std::nullopt;
    }
  };

  // A value that what the barriers do depends on, in or after the counted loop.
  void Look(const Expr& e) const {
    if (!counted_.has_value() || counted_->loop == nullptr || listener_.KeepsParts()) return;
    Counted& c = *counted_;
    const Expr whole = ir::Substitute(e, names_);
    CycleFinder of_turn(c.turn, c.atom), of_count(c.atom, c.turn);
    const std::optional<Cycle> turn = of_turn.Of(whole), count = of_count.Of(whole);
    c.repeats = c.repeats && turn && count && turn->change == 0 && count->change == 0;
    if (!c.repeats) return;
    const std::optional<int64_t> period = CommonPeriod(c.period, turn->period);
    const std::optional<int64_t> count_period = CommonPeriod(c.count_period, count->period);
    c.repeats = period && count_period;
    if (!c.repeats) return;
    c.period = *period;
    c.count_period = *count_period;
    c.margin = std::max({c.margin, of_turn.margin(), of_count.margin()});
  }

  // The turns of a loop that is counted at run time; nullopt: the loop is none.
  absl::StatusOr<std::optional<int64_t>> CountOf(const ir::For& loop) {
    const Expr& extent = loop.axes[0].extent;
    const Expr folded = Fold(*this, false).Mutate(ir::Substitute(extent, names_));
    if (!counted_.has_value() || ir::ConstInt(folded).has_value()) return std::nullopt;
    Counted& c = *counted_;
    ir::LinearForm form = ir::Linearize(folded);
    const int64_t offset = std::exchange(form.constant, 0);
    const Expr atom = ir::FromLinear(form, extent.dtype());
    if (!c.atom.defined() && IsConstant(atom)) c.atom = atom;
    if (!c.atom.defined() || !ir::Same(c.atom, atom)) return Unknown(loop.loc);
    if (!listener_.KeepsParts()) {  // one loop, once, in no other
      if (c.loop != nullptr || !turns_.empty()) return Unknown(loop.loc);
      KILN_ASSIGN_OR_RETURN(const int64_t first, Need(loop.axes[0].min, loop.loc));
      c.loop = &loop;
      c.turn = loop.axes[0].var;
      c.offset = std::abs(offset) + std::abs(first);
    }
    return std::max<int64_t>(c.count + offset, 0);
  }

  // Whether `e` is the same all through the launch: what it loads is stored once at most.
  bool IsConstant(const Expr& e) const {
    bool constant = true;
    ir::Walk(e, [&](const Expr& x) {
      const auto* load = x.As<ir::Load>();
      if (load == nullptr) return constant;
      int64_t stores = 0;
      ir::Walk(launch_.body, [&](const Stmt& s) {
        const bool loop = s.kind() == ir::StmtKind::kFor || s.kind() == ir::StmtKind::kWhile;
        if (s.kind() == ir::StmtKind::kSeq) return true;
        for (const ir::Buffer& b : ir::BuffersWritten(s)) {
          if (b == load->buffer) stores += loop || s.kind() == ir::StmtKind::kOnThreads ? 2 : 1;
        }
        return s.kind() == ir::StmtKind::kLaunch;
      });
      constant = constant && stores <= 1;
      return constant;
    });
    return constant;
  }

  // What the rest of a turn depends on, but for the turn's number.
  std::vector<std::optional<int64_t>> State() const {
    std::vector<std::optional<int64_t>> state;
    for (const ir::BufferNode* variable : variables_) {
      const auto known = values_.find(variable);
      state.push_back(known == values_.end() ? std::nullopt
                                             : std::optional<int64_t>(known->second));
    }
    for (const int64_t place : arrived_.InPhases()) state.push_back(place);
    return state;
  }

  const Facts& Of(const Stmt& s) {
    const auto known = facts_.find(s.get());
    if (known != facts_.end()) return known->second;
    Facts facts;
    ir::Walk(s, [&](const Stmt& x) {
      const bool loop = x.kind() == ir::StmtKind::kFor || x.kind() == ir::StmtKind::kWhile;
      facts.barriers = facts.barriers || IsOfBarrier(x);
      if (const auto* store = x.As<ir::Store>()) facts.scalars.push_back(store->buffer.get());
      if (!loop || x.same_as(s)) {
        facts.leaves = facts.leaves || ir::IsJump(x);
        return true;
      }
      const Facts& inner = Of(x);
      facts.barriers = facts.barriers || inner.barriers;
      facts.scalars.insert(facts.scalars.end(), inner.scalars.begin(), inner.scalars.end());
      return false;
    });
    return facts_[s.get()] = std::move(facts);
  }

  std::optional<int64_t> Known(const Expr& e) const {
    return ir::ConstInt(Fold(*this).Mutate(ir::Substitute(e, names_)));
  }
  // Binds or forgets.
  void Note(const void* key, const Expr& value) {
    const std::optional<int64_t> known = value.defined() ? Known(value) : std::nullopt;
    known ? (void)(values_[key] = *known) : (void)values_.erase(key);
  }
  absl::StatusOr<int64_t> Need(const Expr& e, SourceLoc loc) const {
    const std::optional<int64_t> known = Known(e);
    if (known) {
      Look(e);
      return *known;
    }
    return Unknown(loc);
  }
  absl::Status Unknown(SourceLoc loc) const {
    unknown_ = true;
    return ir::ErrorAt(program_, loc,
                       "what the barriers around here do depends on a run-time value",
                       "the order of arrivals and waits must be known at compile time; without "
                       "barriers it need not: T.Pipelined and T.ws order memory themselves",
                       absl::StatusCode::kUnimplemented);
  }

  absl::StatusOr<Flow> Exec(const Stmt& s);
  absl::StatusOr<Flow> ExecSeq(const ir::Seq& seq);
  absl::StatusOr<Flow> ExecFor(const ir::For& loop);
  absl::StatusOr<Flow> ExecWhile(const ir::While& loop);
  static size_t EndOfParts(const ir::Seq& seq, size_t first);
  absl::Status ExecParts(const ir::Seq& seq, size_t first, size_t end);
  absl::Status Arrive(const Stmt& s);
  absl::Status Wait(const Stmt& s);
  absl::Status Say(BarrierEvent event);
  absl::StatusOr<int64_t> Which(const ir::Buffer& barrier, const Expr& index, SourceLoc loc) const;

  const ir::Program& program_;
  const ir::Launch& launch_;
  BarrierListener& listener_;
  int64_t threads_ = 0;   // that do what is done
  int64_t in_parts_ = 0;  // OnThreads around
  int64_t steps_ = 0;
  mutable bool unknown_ = false;  // something that was needed
  std::unordered_map<const ir::StmtNode*, Facts> facts_;
  std::unordered_map<const void*, int64_t> values_;  // of variables and scalar buffers
  ir::VarMap names_;                                 // what they stand for
  std::vector<const ir::BufferNode*> variables_;     // scalar buffers, as they are allocated
  BarrierState arrived_;                             // outside of parts
  mutable std::optional<Counted> counted_;
  std::vector<int64_t> turns_;
  std::vector<BarrierEvent>* part_ = nullptr;  // where the events of a part go
};

absl::StatusOr<Follower::Flow> Follower::Exec(const Stmt& s) {
  if (++steps_ > kMaxSteps) {
    return ir::ErrorAt(program_, s->loc, "the barriers of this kernel are used too often to follow",
                       "use fewer steps of the loops around them, or T.Pipelined without barriers",
                       absl::StatusCode::kResourceExhausted);
  }
  if (const auto* bind = s.As<ir::Bind>()) {
    Note(bind->var.get(), bind->value);
    if (counted_.has_value() && !ReadsMemory(bind->value)) {
      names_[bind->var.get()] = ir::Substitute(bind->value, names_);
    }
    return Flow::kNext;
  }
  if (s.kind() == ir::StmtKind::kBreak) return Flow::kBreak;
  if (s.kind() == ir::StmtKind::kContinue) return Flow::kContinue;
  if (const auto* alloc = s.As<ir::Alloc>()) {
    if (alloc->buffer->scope == ir::Scope::kVar) {
      const ir::BufferNode* variable = alloc->buffer.get();
      const bool is_new =
          std::find(variables_.begin(), variables_.end(), variable) == variables_.end();
      if (is_new) variables_.push_back(variable);
      Note(alloc->buffer.get(), alloc->init);
    }
    return Flow::kNext;
  }
  if (const auto* store = s.As<ir::Store>()) {
    if (IsOfBarrier(s)) {
      KILN_RETURN_IF_ERROR(Arrive(s));
    } else if (store->buffer->scope == ir::Scope::kVar) {
      Note(store->buffer.get(), store->value);
    }
    return Flow::kNext;
  }
  if (IsOfBarrier(s)) {
    KILN_RETURN_IF_ERROR(Wait(s));
    return Flow::kNext;
  }
  const Facts& facts = Of(s);
  const auto* branch = s.As<ir::If>();
  const bool follows = s.kind() == ir::StmtKind::kSeq || s.kind() == ir::StmtKind::kOnThreads ||
                       (branch != nullptr && Known(branch->condition).has_value());
  if (!facts.barriers && !facts.leaves && (facts.scalars.empty() || !follows)) {
    for (const ir::BufferNode* scalar : facts.scalars) values_.erase(scalar);
    return Flow::kNext;
  }
  if (const auto* seq = s.As<ir::Seq>()) return ExecSeq(*seq);
  if (const auto* loop = s.As<ir::For>()) return ExecFor(*loop);
  if (const auto* loop = s.As<ir::While>()) return ExecWhile(*loop);
  if (const auto* part = s.As<ir::OnThreads>()) {
    const int64_t all = std::exchange(threads_, part->count);
    ++in_parts_;
    const auto flow = Exec(part->body);
    --in_parts_;
    threads_ = all;
    return flow;
  }
  KILN_CHECK(branch != nullptr);
  KILN_ASSIGN_OR_RETURN(const int64_t taken, Need(branch->condition, s->loc));
  if (taken != 0) return Exec(branch->then_case);
  if (branch->else_case.defined()) return Exec(branch->else_case);
  return Flow::kNext;
}

absl::StatusOr<Follower::Flow> Follower::ExecSeq(const ir::Seq& seq) {
  for (size_t i = 0; i < seq.stmts.size();) {
    const size_t end = in_parts_ == 0 && listener_.KeepsParts() ? EndOfParts(seq, i) : i;
    bool barriers = false;
    for (size_t k = i; k < end; ++k) barriers = barriers || Of(seq.stmts[k]).barriers;
    if (end - i > 1 && barriers) {
      KILN_RETURN_IF_ERROR(ExecParts(seq, i, end));
      i = end;
      continue;
    }
    for (const size_t last = std::max(end, i + 1); i < last; ++i) {
      KILN_ASSIGN_OR_RETURN(const Flow flow, Exec(seq.stmts[i]));
      if (flow != Flow::kNext) return flow;
    }
  }
  return Flow::kNext;
}

// The first statement from `first` on that is no part, or one of threads that another has.
size_t Follower::EndOfParts(const ir::Seq& seq, size_t first) {
  size_t end = first;
  for (; end < seq.stmts.size(); ++end) {
    const auto* part = seq.stmts[end].As<ir::OnThreads>();
    if (part == nullptr) return end;
    for (size_t k = first; k < end; ++k) {
      const auto* other = seq.stmts[k].As<ir::OnThreads>();
      if (part->first < other->first + other->count && other->first < part->first + part->count) {
        return end;
      }
    }
  }
  return end;
}

absl::Status Follower::ExecParts(const ir::Seq& seq, size_t first, size_t end) {
  const std::vector<int64_t> around = std::exchange(turns_, {});
  std::vector<std::vector<BarrierEvent>> parts(end - first);
  const auto before = values_;
  for (size_t p = 0; p < parts.size(); ++p) {
    values_ = before;  // each thread's own
    part_ = &parts[p];
    const absl::Status status = Exec(seq.stmts[first + p]).status();
    part_ = nullptr;
    KILN_RETURN_IF_ERROR(status);
  }
  values_ = before;
  for (size_t i = first; i < end; ++i) {
    for (const ir::BufferNode* scalar : Of(seq.stmts[i]).scalars) values_.erase(scalar);
  }
  turns_ = around;
  return listener_.OnParts(seq, first, parts);
}

absl::StatusOr<Follower::Flow> Follower::ExecFor(const ir::For& loop) {
  if (loop.loop == ir::ForKind::kParallel || loop.loop == ir::ForKind::kVectorized) {
    return ir::ErrorAt(program_, loop.loc, "a barrier in a loop over elements",
                       "arrive and wait outside of T.Parallel, for all threads of the part",
                       absl::StatusCode::kUnimplemented);
  }
  const ir::Axis& axis = loop.axes[0];
  KILN_ASSIGN_OR_RETURN(const int64_t first, Need(axis.min, loop.loc));
  KILN_ASSIGN_OR_RETURN(const std::optional<int64_t> counted, CountOf(loop));
  int64_t extent = counted.value_or(0);
  if (!counted) {
    KILN_ASSIGN_OR_RETURN(extent, Need(axis.extent, loop.loc));
  }
  const int64_t all = threads_;
  if (loop.loop == ir::ForKind::kThreads) threads_ = 1;  // each by itself
  for (int64_t i = 0; i < extent; ++i) {
    values_[axis.var.get()] = first + i;
    turns_.push_back(i);
    if (counted && !listener_.KeepsParts()) counted_->states.push_back(State());
    KILN_ASSIGN_OR_RETURN(const Flow flow, Exec(loop.body));
    turns_.pop_back();
    if (flow == Flow::kBreak) break;
  }
  threads_ = all;
  return Flow::kNext;
}

absl::StatusOr<Follower::Flow> Follower::ExecWhile(const ir::While& loop) {
  for (int64_t turn = 0;; ++turn) {
    KILN_ASSIGN_OR_RETURN(const int64_t goes_on, Need(loop.condition, loop.loc));
    if (goes_on == 0) return Flow::kNext;
    turns_.push_back(turn);
    KILN_ASSIGN_OR_RETURN(const Flow flow, Exec(loop.body));
    turns_.pop_back();
    if (flow == Flow::kBreak) return Flow::kNext;
  }
}

absl::StatusOr<int64_t> Follower::Which(const ir::Buffer& barrier, const Expr& index,
                                        SourceLoc loc) const {
  const auto count = static_cast<int64_t>(barrier->values->size());
  KILN_ASSIGN_OR_RETURN(const int64_t which, Need(index, loc));
  if (which >= 0 && which < count) return which;
  return ir::ErrorAt(
      program_, loc,
      absl::StrCat("barrier ", which, " of '", barrier->name, "', which has ", count),
      absl::StrCat("use 0 to ", count - 1));
}

absl::Status Follower::Arrive(const Stmt& s) {
  const auto& arrival = *s.As<ir::Store>();
  KILN_ASSIGN_OR_RETURN(const int64_t which,
                        Which(arrival.buffer, arrival.indices[0], arrival.loc));
  const int64_t amount = ir::IsConst(arrival.value, kOfOne) ? 1 : threads_;
  return Say({s, arrival.buffer, which, false, amount, turns_});
}

absl::Status Follower::Wait(const Stmt& s) {
  const auto& wait = *s.As<ir::Assert>();
  const auto* equal = wait.condition.As<ir::Binary>();
  const auto* load = equal->a.As<ir::Load>();
  KILN_ASSIGN_OR_RETURN(const int64_t which, Which(load->buffer, load->indices[0], wait.loc));
  KILN_ASSIGN_OR_RETURN(const int64_t parity, Need(equal->b, wait.loc));
  return Say({s, load->buffer, which, true, parity & 1, turns_});
}

absl::Status Follower::Say(BarrierEvent event) {
  if (part_ == nullptr) {
    if (!event.is_wait) arrived_.Arrive(event);
    return listener_.On(event);
  }
  part_->push_back(std::move(event));
  return absl::OkStatus();
}

}  // namespace

bool IsOfBarrier(const Stmt& s) {
  if (const auto* alloc = s.As<ir::Alloc>()) return IsBarrier(alloc->buffer);
  if (const auto* bind = s.As<ir::Bind>()) return IsBarrier(bind->value);
  if (const auto* store = s.As<ir::Store>()) return IsBarrier(store->buffer);
  const auto* wait = s.As<ir::Assert>();
  const auto* equal = wait == nullptr ? nullptr : wait->condition.As<ir::Binary>();
  return equal != nullptr && IsBarrier(equal->a);
}

bool HoldsBarrier(const Stmt& s) {
  bool holds = false;
  ir::Walk(s, [&](const Stmt& x) {
    holds = holds || IsOfBarrier(x);
    return !holds;
  });
  return holds;
}

absl::Status BarrierListener::OnParts(const ir::Seq&, size_t,
                                      const std::vector<std::vector<BarrierEvent>>&) {
  return absl::OkStatus();
}

absl::Status FollowBarriers(const ir::Program& program, const ir::Launch& launch,
                            BarrierListener* listener) {
  return Follower(program, launch, listener).Run();
}

}  // namespace kiln::lang
