#include "compiler/lang/barrier_order.h"

#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/visit.h"

namespace kiln::lang {
namespace {

using ir::Expr;
using ir::Stmt;

constexpr int64_t kMaxSteps = 1'000'000;  // statements run, over all blocks

bool IsBarrier(const ir::Buffer& buffer) { return buffer->scope == ir::Scope::kBarrier; }

bool IsBarrier(const Expr& e) {
  const auto* load = e.As<ir::Load>();
  return load != nullptr && IsBarrier(load->buffer);
}

// Whether `s` itself allocates a barrier, names one, arrives at one or waits for one.
bool IsOfBarrier(const Stmt& s) {
  if (const auto* alloc = s.As<ir::Alloc>()) return IsBarrier(alloc->buffer);
  if (const auto* bind = s.As<ir::Bind>()) return IsBarrier(bind->value);
  if (const auto* store = s.As<ir::Store>()) return IsBarrier(store->buffer);
  const auto* wait = s.As<ir::Assert>();
  const auto* equal = wait == nullptr ? nullptr : wait->condition.As<ir::Binary>();
  return equal != nullptr && IsBarrier(equal->a);
}

// Barriers as numbers: `bar[0] + 1`, or by a name for an element.
absl::Status CheckUses(const ir::Program& program) {
  std::unordered_set<const ir::ExprNode*> names;
  absl::Status status;
  SourceLoc loc;
  ir::Walk(
      program.body,
      [&](const Stmt& s) {
        loc = s->loc;
        const auto* bind = s.As<ir::Bind>();
        if (bind != nullptr && IsOfBarrier(s)) names.insert(bind->var.get());
        return !IsOfBarrier(s);
      },
      [&](const Expr& e) {
        if (status.ok() && (IsBarrier(e) || names.count(e.get()) > 0)) {
          status = ir::ErrorAt(program, loc, "a barrier is used as a number here",
                               "barriers are for T.barrier_arrive and T.barrier_wait");
        }
        return status.ok();
      });
  return status;
}

// Runs the control flow around the barriers of one launch, and nothing else.
class Runner {
 public:
  Runner(const ir::Program& program, const ir::Launch& launch)
      : program_(program), launch_(launch) {}

  absl::Status Run() {
    if (!Of(launch_.body).barriers) return absl::OkStatus();
    // All blocks alike, unless what the barriers do depends on which one it is.
    const absl::Status alike = RunBlock({});
    if (!absl::IsUnimplemented(alike)) return alike;
    std::vector<int64_t> extents, block(launch_.grid.size(), 0);
    for (const ir::Axis& axis : launch_.grid) {
      const std::optional<int64_t> extent = ir::ConstInt(axis.extent);
      if (!extent) return alike;
      extents.push_back(*extent);
    }
    do {
      KILN_RETURN_IF_ERROR(RunBlock(block));
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
    explicit Fold(const Runner& runner) : runner_(runner) {}

   protected:
    Expr VisitExpr(const Expr& e) override {
      const auto* load = e.As<ir::Load>();
      const void* key = load != nullptr ? static_cast<const void*>(load->buffer.get()) : e.get();
      const auto known = runner_.values_.find(key);
      return known == runner_.values_.end() ? ir::Mutator::VisitExpr(e)
                                            : ir::MakeInt(known->second, e.dtype());
    }

   private:
    const Runner& runner_;
  };

  static bool Advance(const std::vector<int64_t>& extents, std::vector<int64_t>* block) {
    for (size_t d = 0; d < extents.size(); ++d) {
      if (++(*block)[d] < extents[d]) return true;
      (*block)[d] = 0;
    }
    return false;
  }

  absl::Status RunBlock(const std::vector<int64_t>& block) {
    values_.clear();
    arrivals_.clear();
    threads_ = 1;
    for (const Expr& extent : launch_.threads) threads_ *= ir::ConstInt(extent).value_or(1);
    for (size_t d = 0; d < block.size(); ++d) values_[launch_.grid[d].var.get()] = block[d];
    return Exec(launch_.body).status();
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
        facts.leaves =
            facts.leaves || x.kind() == ir::StmtKind::kBreak || x.kind() == ir::StmtKind::kContinue;
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
    const Expr folded = Fold(*this).Mutate(e);
    return ir::ConstInt(folded);
  }
  // Binds or forgets.
  void Note(const void* key, const Expr& value) {
    const std::optional<int64_t> known = value.defined() ? Known(value) : std::nullopt;
    known ? (void)(values_[key] = *known) : (void)values_.erase(key);
  }
  absl::StatusOr<int64_t> Need(const Expr& e, SourceLoc loc) const {
    const std::optional<int64_t> known = Known(e);
    if (known) return *known;
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
  absl::Status Arrive(const ir::Store& arrival);
  absl::Status Wait(const ir::Assert& wait);
  absl::StatusOr<int64_t> Which(const ir::Buffer& barrier, const Expr& index, SourceLoc loc) const;

  const ir::Program& program_;
  const ir::Launch& launch_;
  int64_t threads_ = 0;  // that do what is done
  int64_t steps_ = 0;
  std::unordered_map<const ir::StmtNode*, Facts> facts_;
  std::unordered_map<const void*, int64_t> values_;  // of variables and scalar buffers
  std::map<std::pair<const ir::BufferNode*, int64_t>, int64_t> arrivals_;
};

absl::StatusOr<Runner::Flow> Runner::Exec(const Stmt& s) {
  if (++steps_ > kMaxSteps) {
    return ir::ErrorAt(program_, s->loc, "the barriers of this kernel are used too often to follow",
                       "use fewer steps of the loops around them, or T.Pipelined without barriers",
                       absl::StatusCode::kResourceExhausted);
  }
  if (const auto* bind = s.As<ir::Bind>()) {
    Note(bind->var.get(), bind->value);
    return Flow::kNext;
  }
  if (s.kind() == ir::StmtKind::kBreak) return Flow::kBreak;
  if (s.kind() == ir::StmtKind::kContinue) return Flow::kContinue;
  if (const auto* alloc = s.As<ir::Alloc>()) {
    if (alloc->buffer->scope == ir::Scope::kVar) Note(alloc->buffer.get(), alloc->init);
    return Flow::kNext;
  }
  if (const auto* store = s.As<ir::Store>()) {
    if (IsOfBarrier(s)) {
      KILN_RETURN_IF_ERROR(Arrive(*store));
    } else if (store->buffer->scope == ir::Scope::kVar) {
      Note(store->buffer.get(), store->value);
    }
    return Flow::kNext;
  }
  if (IsOfBarrier(s)) {
    KILN_RETURN_IF_ERROR(Wait(*s.As<ir::Assert>()));
    return Flow::kNext;
  }
  const Facts& facts = Of(s);
  if (!facts.barriers && !facts.leaves) {
    for (const ir::BufferNode* scalar : facts.scalars) values_.erase(scalar);
    return Flow::kNext;
  }
  if (const auto* seq = s.As<ir::Seq>()) return ExecSeq(*seq);
  if (const auto* loop = s.As<ir::For>()) return ExecFor(*loop);
  if (const auto* loop = s.As<ir::While>()) return ExecWhile(*loop);
  if (const auto* part = s.As<ir::OnThreads>()) {
    const int64_t all = std::exchange(threads_, part->count);
    const auto flow = Exec(part->body);
    threads_ = all;
    return flow;
  }
  const auto* branch = s.As<ir::If>();
  KILN_CHECK(branch != nullptr);
  KILN_ASSIGN_OR_RETURN(const int64_t taken, Need(branch->condition, s->loc));
  if (taken != 0) return Exec(branch->then_case);
  if (branch->else_case.defined()) return Exec(branch->else_case);
  return Flow::kNext;
}

absl::StatusOr<Runner::Flow> Runner::ExecSeq(const ir::Seq& seq) {
  for (const Stmt& s : seq.stmts) {
    KILN_ASSIGN_OR_RETURN(const Flow flow, Exec(s));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

absl::StatusOr<Runner::Flow> Runner::ExecFor(const ir::For& loop) {
  if (loop.loop == ir::ForKind::kParallel || loop.loop == ir::ForKind::kVectorized) {
    return ir::ErrorAt(program_, loop.loc, "a barrier in a loop over elements",
                       "arrive and wait outside of T.Parallel, for all threads of the part",
                       absl::StatusCode::kUnimplemented);
  }
  const ir::Axis& axis = loop.axes[0];
  KILN_ASSIGN_OR_RETURN(const int64_t first, Need(axis.min, loop.loc));
  KILN_ASSIGN_OR_RETURN(const int64_t extent, Need(axis.extent, loop.loc));
  const int64_t all = threads_;
  if (loop.loop == ir::ForKind::kThreads) threads_ = 1;  // each by itself
  for (int64_t i = 0; i < extent; ++i) {
    values_[axis.var.get()] = first + i;
    KILN_ASSIGN_OR_RETURN(const Flow flow, Exec(loop.body));
    if (flow == Flow::kBreak) break;
  }
  threads_ = all;
  return Flow::kNext;
}

absl::StatusOr<Runner::Flow> Runner::ExecWhile(const ir::While& loop) {
  for (;;) {
    KILN_ASSIGN_OR_RETURN(const int64_t goes_on, Need(loop.condition, loop.loc));
    if (goes_on == 0) return Flow::kNext;
    KILN_ASSIGN_OR_RETURN(const Flow flow, Exec(loop.body));
    if (flow == Flow::kBreak) return Flow::kNext;
  }
}

absl::StatusOr<int64_t> Runner::Which(const ir::Buffer& barrier, const Expr& index,
                                      SourceLoc loc) const {
  const auto count = static_cast<int64_t>(barrier->values->size());
  KILN_ASSIGN_OR_RETURN(const int64_t which, Need(index, loc));
  if (which >= 0 && which < count) return which;
  return ir::ErrorAt(
      program_, loc,
      absl::StrCat("barrier ", which, " of '", barrier->name, "', which has ", count),
      absl::StrCat("use 0 to ", count - 1));
}

absl::Status Runner::Arrive(const ir::Store& arrival) {
  KILN_ASSIGN_OR_RETURN(const int64_t which,
                        Which(arrival.buffer, arrival.indices[0], arrival.loc));
  arrivals_[{arrival.buffer.get(), which}] += threads_;
  return absl::OkStatus();
}

absl::Status Runner::Wait(const ir::Assert& wait) {
  const auto* equal = wait.condition.As<ir::Binary>();
  const auto* load = equal->a.As<ir::Load>();
  KILN_ASSIGN_OR_RETURN(const int64_t which, Which(load->buffer, load->indices[0], wait.loc));
  KILN_ASSIGN_OR_RETURN(const int64_t parity, Need(equal->b, wait.loc));
  const int64_t arrived = arrivals_[{load->buffer.get(), which}];
  const auto count = static_cast<int64_t>((*load->buffer->values)[static_cast<size_t>(which)]);
  if (arrived / count % 2 != (parity & 1)) return absl::OkStatus();
  return ir::ErrorAt(
      program_, wait.loc,
      absl::StrCat("this wait for barrier ", which, " of '", load->buffer->name,
                   "' is for what comes later: ", arrived, " threads have arrived, ", count,
                   " make a phase, and parity ", parity & 1, " waits for phase ", arrived / count),
      "the parts of T.ws are run in the order of the program: put what arrives before what waits, "
      "in one loop, or leave barriers out, since T.Pipelined and T.ws order memory themselves",
      absl::StatusCode::kUnimplemented);
}

}  // namespace

absl::Status CheckBarrierOrder(const ir::Program& program) {
  absl::Status status = CheckUses(program);
  ir::Walk(program.body, [&](const Stmt& s) {
    const auto* launch = s.As<ir::Launch>();
    if (launch != nullptr && status.ok()) status = Runner(program, *launch).Run();
    return launch == nullptr;
  });
  return status;
}

Stmt WithoutBarriers(const Stmt& body) {
  return ir::RewriteStmts(
      body, [](const Stmt& s) { return IsOfBarrier(s) ? ir::MakeSeq({}, s->loc) : Stmt(); });
}

}  // namespace kiln::lang
