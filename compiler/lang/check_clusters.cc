#include "compiler/lang/check_clusters.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/thread_values.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/cluster_marks.h"
#include "compiler/lang/follow_barriers.h"

namespace kiln::lang {
namespace {

using ir::Bounds;
using ir::Expr;
using ir::Stmt;

constexpr int64_t kTurns = 16;          // of a loop that is followed
constexpr int64_t kSteps = 20'000'000;  // that are looked at
constexpr int64_t kStepsOfStatement = 50, kStepsOfTensors = 200;

struct Access {
  int64_t doer;
  const ir::BufferNode* buffer;
  std::vector<std::optional<Bounds>> box;
  bool waited;  // for a barrier, since the blocks met
  SourceLoc loc;
};

// Of a tensor: from `first` on, in each dimension.
struct TensorAccess {
  int64_t doer;
  const ir::BufferNode* tensor;
  std::vector<std::pair<Expr, int64_t>> box;
  bool write, waited;
  SourceLoc loc;
};

bool Overlap(const TensorAccess& a, const TensorAccess& b) {
  for (size_t d = 0; d < a.box.size(); ++d) {
    const auto apart = ir::ConstInt(ir::Facts().Simplify(b.box[d].first - a.box[d].first));
    if (!apart || *apart >= a.box[d].second || -*apart >= b.box[d].second) return false;
  }
  return true;
}

// Whether they certainly have an element in common.
bool Overlap(const Access& a, const Access& b) {
  for (size_t d = 0; d < a.box.size(); ++d) {
    const auto &x = a.box[d], &y = b.box[d];
    if (!x || !y || x->max < y->min || y->max < x->min) return false;
  }
  return true;
}

class Checker {
 public:
  Checker(const ir::Program& program, const JoinedCluster& cluster)
      : program_(program),
        cluster_(cluster),
        arrived_(static_cast<size_t>(cluster.blocks)),
        waited_(static_cast<size_t>(cluster.blocks), false) {}

  const absl::Status& status() const { return status_; }

  void Run(const Stmt& s) {
    if (!Goes(kStepsOfStatement)) return;
    if (IsMeeting(s, kWait)) return Meet(s->loc);
    const auto doer = cluster_.doer.find(s.get());
    if (doer != cluster_.doer.end()) return Do(doer->second, s, ir::Facts());
    if (const auto* seq = s.As<ir::Seq>()) {
      for (const Stmt& x : seq->stmts) Run(x);
    } else if (const auto* branch = s.As<ir::If>()) {
      const std::vector<Access> before = now_;
      Run(branch->then_case);
      const std::vector<Access> taken = std::exchange(now_, before);
      if (branch->else_case.defined()) Run(branch->else_case);
      now_.insert(now_.end(), taken.begin(), taken.end());
    } else if (const auto* loop = s.As<ir::For>()) {
      const ir::Axis& axis = loop->axes[0];
      for (int64_t t = 0; t < TurnsOf(axis); ++t) {
        turns_[axis.var.get()] = ir::Substitute(axis.min, turns_) + ir::MakeInt(t);
        Run(loop->body);
      }
      turns_.erase(axis.var.get());
    }
  }

 private:
  void Fail(SourceLoc loc, std::string message, std::string remedy) {
    if (status_.ok()) status_ = ir::ErrorAt(program_, loc, std::move(message), std::move(remedy));
  }

  int64_t TurnsOf(const ir::Axis& axis) const {
    return std::min(ir::ConstInt(ir::Substitute(axis.extent, turns_)).value_or(kTurns), kTurns);
  }

  // Whether `s` writes memory of blocks other than `doer`.
  bool WritesOthers(int64_t doer, const Stmt& s) const {
    const std::vector<ir::Buffer> written = ir::BuffersWritten(s);
    return std::any_of(written.begin(), written.end(), [&](const ir::Buffer& b) {
      const auto owner = cluster_.owner.find(b.get());
      return owner != cluster_.owner.end() && owner->second.block != doer;
    });
  }

  bool Goes(int64_t steps) {
    steps_ += steps;
    return status_.ok() && steps_ <= kSteps;
  }

  struct Arrival {  // after as many of each
    size_t accesses, of_tensors;
  };

  template <typename T>
  std::vector<T> Still(const std::vector<T>& all, size_t Arrival::*count) const {
    std::vector<T> still;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto& arrived = arrived_[static_cast<size_t>(all[i].doer)];
      if (arrived && i >= (*arrived).*count) still.push_back(all[i]);
    }
    return still;
  }

  // What a block did before it arrived comes before what others do from here on.
  void Meet(SourceLoc loc) {
    now_ = Still(now_, &Arrival::accesses);
    of_tensors_ = Still(of_tensors_, &Arrival::of_tensors);
    for (std::optional<Arrival>& arrived : arrived_) {
      if (!arrived) {
        Fail(loc, "a wait for the blocks of the cluster to which a block comes without an arrival",
             "let T.cluster_arrive() come before it, or use T.cluster_sync()");
      }
      arrived.reset();
    }
    waited_.assign(waited_.size(), false);
  }

  void Arrive(int64_t doer, const Stmt& s) {
    std::optional<Arrival>& arrived = arrived_[static_cast<size_t>(doer)];
    if (arrived || !IsMeeting(s, kArrive)) {
      Fail(s->loc,
           arrived ? "a block of a cluster arrives twice, and does not wait in between"
                   : "a block of a cluster arrives in a loop or branch in which it does not wait",
           "let T.cluster_wait() follow T.cluster_arrive() in the same list of statements");
    }
    arrived = {now_.size(), of_tensors_.size()};
  }

  bool Follows(int64_t doer, const ir::For& loop) const {
    return loop.loop != ir::ForKind::kParallel && loop.loop != ir::ForKind::kVectorized &&
           loop.loop != ir::ForKind::kThreads && WritesOthers(doer, loop.body);
  }

  void Do(int64_t doer, const Stmt& s, const ir::Facts& facts) {
    if (!Goes(kStepsOfStatement)) return;
    const bool list = s.kind() == ir::StmtKind::kSeq || s.kind() == ir::StmtKind::kOnThreads;
    if (!list && HoldsMeeting(s, kArrive)) return Arrive(doer, s);
    if (const auto* seq = s.As<ir::Seq>()) {
      for (const Stmt& x : seq->stmts) Do(doer, x, facts);
    } else if (const auto* part = s.As<ir::OnThreads>()) {
      Do(doer, part->body, facts);
    } else if (const auto* again = s.As<ir::While>()) {
      ++conditions_;
      Do(doer, again->body, facts);
      --conditions_;
    } else if (const auto* branch = s.As<ir::If>()) {
      const auto known = ir::ConstInt(facts.Simplify(ir::Substitute(branch->condition, turns_)));
      if (!known) ++conditions_;
      if (known.value_or(1) != 0) Do(doer, branch->then_case, facts);
      if (known.value_or(0) == 0 && branch->else_case.defined()) Do(doer, branch->else_case, facts);
      if (!known) --conditions_;
    } else if (const auto* loop = s.As<ir::For>(); loop != nullptr && Follows(doer, *loop)) {
      const ir::Axis& axis = loop->axes[0];
      for (int64_t t = 0; t < TurnsOf(axis); ++t) {
        turns_[axis.var.get()] = ir::Substitute(axis.min, turns_) + ir::MakeInt(t);
        Do(doer, loop->body, facts);
      }
      turns_.erase(axis.var.get());
    } else if (loop != nullptr) {
      ir::Facts inner = facts;
      for (const ir::Axis& axis : loop->axes) {
        axes_.push_back(
            {axis.var, ir::Substitute(axis.min, turns_), ir::Substitute(axis.extent, turns_)});
        inner.AddAxis(axes_.back());
      }
      Do(doer, loop->body, inner);
      axes_.resize(axes_.size() - loop->axes.size());
    } else {
      const auto* bind = s.As<ir::Bind>();
      if (bind != nullptr && ir::BuffersRead(s).empty()) {
        turns_[bind->var.get()] = ir::Substitute(bind->value, turns_);
      }
      Touch(doer, s, facts);
    }
  }

  void Touch(int64_t doer, const Stmt& s, const ir::Facts& facts) {
    if (IsOfBarrier(s)) {
      if (s.kind() == ir::StmtKind::kAssert) waited_[static_cast<size_t>(doer)] = true;
      return;
    }
    const auto at = [&](const ir::Buffer& buffer, const std::vector<ir::Range>& ranges,
                        bool write) {
      if (buffer->scope == ir::Scope::kGlobal) {
        return AddTensor(
            {doer, buffer.get(), {}, write, waited_[static_cast<size_t>(doer)], s->loc}, ranges);
      }
      if (cluster_.owner.count(buffer.get()) == 0) return;
      Access access{doer, buffer.get(), {}, waited_[static_cast<size_t>(doer)], s->loc};
      for (const ir::Range& range : ranges) {
        const auto first = facts.BoundsOf(ir::Substitute(range.min, turns_));
        const auto extent = facts.BoundsOf(ir::Substitute(range.extent, turns_));
        access.box.push_back(first && extent
                                 ? std::optional<Bounds>({first->min, first->max + extent->max - 1})
                                 : std::nullopt);
      }
      Add(std::move(access));
    };
    const auto at_point = [&](const ir::Buffer& buffer, const std::vector<Expr>& indices,
                              bool write) {
      std::vector<ir::Range> ranges;
      for (const Expr& index : indices) ranges.push_back({index, ir::MakeInt(1)});
      at(buffer, ranges, write);
    };
    const std::vector<const ir::Region*> regions = ir::RegionsOf(s);  // the one written first
    for (const ir::Region* region : regions) {
      if (region->buffer) at(region->buffer, region->ranges, region == regions[0]);
    }
    if (const auto* store = s.As<ir::Store>()) at_point(store->buffer, store->indices, true);
    ir::Walk(
        s, [](const Stmt&) { return true; },
        [&](const Expr& e) {
          if (const auto* load = e.As<ir::Load>()) at_point(load->buffer, load->indices, false);
          return e.kind() != ir::ExprKind::kSelect;
        });
  }

  // A range over all turns of the loops around, where those make it one without holes.
  std::optional<std::pair<Expr, int64_t>> Whole(const ir::Range& range) const {
    const auto extent = ir::ConstInt(range.extent);
    if (!extent) return std::nullopt;
    Expr first = ir::Substitute(range.min, turns_);
    int64_t more = 0;
    for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
      if (!ir::Uses(first, axis->var)) continue;
      const auto turns = ir::ConstInt(axis->extent);
      const ir::LinearForm form = ir::Linearize(first);
      if (!turns || form.CoefficientOf(axis->var) != 1) return std::nullopt;
      for (const auto& [atom, factor] : form.terms) {
        if (!atom.same_as(axis->var) && ir::Uses(atom, axis->var)) return std::nullopt;
      }
      first = ir::Substitute(first, {{axis->var.get(), axis->min}});
      more += *turns - 1;
    }
    return std::make_pair(first, *extent + more);
  }

  // What blocks certainly read where others certainly write.
  void AddTensor(TensorAccess access, const std::vector<ir::Range>& ranges) {
    if (conditions_ > 0) return;
    for (const ir::Range& range : ranges) {
      const auto whole = Whole(range);
      if (!whole) return;
      access.box.push_back(*whole);
    }
    if (!Goes(kStepsOfTensors * static_cast<int64_t>(of_tensors_.size()))) return;
    for (const TensorAccess& other : of_tensors_) {
      if (other.tensor != access.tensor || other.doer == access.doer) continue;
      if (other.write == access.write || other.waited || access.waited) continue;
      if (!Overlap(other, access)) continue;
      return Fail(access.loc,
                  absl::StrCat("block ", access.doer, " of the cluster ",
                               access.write ? "writes" : "reads", " what block ", other.doer,
                               access.write ? " reads" : " writes", " of '", access.tensor->name,
                               "' in line ", other.loc.line, ", and nothing orders the two"),
                  "let the blocks meet in between: T.cluster_sync()");
    }
    of_tensors_.push_back(std::move(access));
  }

  // Of two blocks that touch the same memory one at least writes it: it is not its own.
  void Add(Access access) {
    if (!Goes(static_cast<int64_t>(now_.size()))) return;
    for (const Access& other : now_) {
      if (other.buffer != access.buffer || other.doer == access.doer) continue;
      if (other.waited || access.waited || !Overlap(other, access)) continue;
      const auto& [block, name] = cluster_.owner.at(access.buffer);
      const bool owned = block == access.doer;
      return Fail(access.loc,
                  absl::StrCat("block ", access.doer, " of the cluster ",
                               owned ? "touches its '" : "writes to the '", name, "'",
                               owned ? std::string() : absl::StrCat(" of block ", block),
                               ", and nothing orders that with what block ", other.doer,
                               " does there in line ", other.loc.line),
                  "let the blocks meet in between: T.cluster_sync(), or wait for a barrier that "
                  "the other block arrives at");
    }
    now_.push_back(std::move(access));
  }

  const ir::Program& program_;
  const JoinedCluster& cluster_;
  std::vector<Access> now_;  // since the blocks met
  std::vector<TensorAccess> of_tensors_;
  std::vector<std::optional<Arrival>> arrived_;  // each block
  std::vector<bool> waited_;                     // each block, for a barrier
  std::vector<ir::Axis> axes_;                   // of loops around, in what a block does
  int64_t steps_ = 0;
  int64_t conditions_ = 0;  // around
  ir::VarMap turns_;        // of the loops that are followed, and names
  absl::Status status_;
};

}  // namespace

absl::Status CheckClusters(const ir::Program& program, const JoinedCluster& cluster,
                           const Stmt& body) {
  Checker checker(program, cluster);
  checker.Run(body);
  return checker.status();
}

}  // namespace kiln::lang
