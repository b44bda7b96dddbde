#include "compiler/lang/cluster_marks.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/count_loops.h"

namespace kiln::lang {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

// Buffers of tensors, by the tensor where they are views of it.
class Tensors {
 public:
  Tensors(const Stmt& body, const std::vector<ir::View>& views) : views_(views) {
    for (const ir::Buffer& b : ir::BuffersWritten(body)) Add(b, &written_);
    for (const ir::Buffer& b : ir::BuffersRead(body)) Add(b, &read_);
  }

  bool Meet() const {
    return std::any_of(written_.begin(), written_.end(), [&](const ir::Buffer& b) {
      return std::find(read_.begin(), read_.end(), b) != read_.end();
    });
  }

 private:
  void Add(const ir::Buffer& b, std::vector<ir::Buffer>* list) const {
    if (!b || b->scope != ir::Scope::kGlobal) return;
    const auto view =
        std::find_if(views_.begin(), views_.end(), [&](const ir::View& v) { return v.view == b; });
    list->push_back(view == views_.end() ? b : view->base);
  }

  const std::vector<ir::View>& views_;
  std::vector<ir::Buffer> written_, read_;
};

// Copies to several blocks as what each of them does.
class Multicasts : public ir::Mutator {
 public:
  Multicasts(const LaunchState& launch, const Bound& bound, const SourceFile& source, bool keep)
      : launch_(launch), bound_(bound), source_(source), keep_(keep) {}

  const absl::Status& status() const { return status_; }
  // Copies that each block makes for itself, and why.
  const std::vector<std::string>& each() const { return each_; }

 protected:
  Expr VisitExpr(const Expr& e) override { return e; }

  Stmt VisitStmt(const Stmt& s) override {
    const size_t around = around_.size();
    if (const auto* bind = s.As<ir::Bind>()) {
      if (bound_.count(bind->var.get()) > 0) return RebuildStmt(s);
      const Expr value = Inlined(bind->value);  // of a loop that was counted it loads nothing
      if (Loads(value)) {
        loaded_.insert(bind->var.get());
      } else {
        bound_[bind->var.get()] = value;
      }
    } else if (const auto* loop = s.As<ir::For>()) {
      const bool ahead = loop->loop == ir::ForKind::kPipelined;
      const char* apart = std::exchange(
          apart_, ahead && apart_ == nullptr ? "a pipelined loop fetches it ahead" : apart_);
      for (const ir::Axis& axis : loop->axes) {
        around_.push_back(axis.min);
        around_.push_back(axis.extent);
      }
      const Stmt rest = RebuildStmt(s);
      around_.resize(around);
      apart_ = apart;
      return rest;
    } else if (s.kind() == ir::StmtKind::kOnThreads) {
      const char* apart = std::exchange(apart_, "only some threads of a block make it");
      const Stmt rest = RebuildStmt(s);
      apart_ = apart;
      return rest;
    } else if (const auto* branch = s.As<ir::If>()) {
      around_.push_back(branch->condition);
    } else if (const auto* turns = s.As<ir::While>()) {
      around_.push_back(turns->condition);
    } else if (const auto* copy = s.As<ir::Copy>();
               copy != nullptr && copy->annotations.count(kClusterMask) > 0) {
      return Resolve(s);
    }
    const Stmt rest = RebuildStmt(s);
    around_.resize(around);
    return rest;
  }

 private:
  class Inliner : public ir::Mutator {
   public:
    explicit Inliner(const Bound& bound) : bound_(bound) {}

   protected:
    Expr VisitExpr(const Expr& e) override {
      const auto known = bound_.find(e.get());
      return known == bound_.end() ? ir::Mutator::VisitExpr(e) : Mutate(known->second);
    }

   private:
    const Bound& bound_;
  };

  Expr Inlined(const Expr& e) const { return Inliner(bound_).Mutate(e); }
  Expr In(const Expr& e, int64_t rank) const {
    return ir::Facts().Simplify(ir::Substitute(e, InBlock(launch_, rank)));
  }
  Stmt Fail(const Stmt& s, std::string message, std::string remedy,
            absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    if (status_.ok()) {
      status_ = kiln::ErrorAt(source_, s->loc, std::move(message), std::move(remedy), code);
    }
    return s;
  }

  Stmt Resolve(const Stmt& s) {
    const auto& copy = *s.As<ir::Copy>();
    int64_t mask = 0;
    auto notes = copy.annotations;
    (void)absl::SimpleAtoi(notes.extract(kClusterMask).mapped(), &mask);
    int64_t first = 0;
    while ((mask >> first & 1) == 0) ++first;
    for (const Expr& e : around_) {
      const Expr whole = Inlined(e);
      for (int64_t r = first + 1; r < launch_.ClusterBlocks(); ++r) {
        if ((mask >> r & 1) == 0 || ir::Same(In(whole, first), In(whole, r))) continue;
        return Fail(s, "not all blocks of cluster_mask come by this copy alike",
                    "let every block of the mask come by: a condition or a loop around the copy "
                    "may not depend on the block's rank");
      }
    }
    ir::Region src = copy.src, whole = copy.src;
    const bool all = mask + 1 == int64_t{1} << launch_.ClusterBlocks();
    for (ir::Range& range : src.ranges) {
      const Expr own = Inlined(range.min);
      if (!IsOfTensors(own)) {
        return Fail(s, "where this copy to a cluster_mask begins depends on the block's own memory",
                    "compute it from the block's and the loops' indices, or let each block copy "
                    "for itself with T.copy",
                    absl::StatusCode::kUnimplemented);
      }
      const Expr theirs = In(own, first);
      if (ir::Same(theirs, ir::Facts().Simplify(own))) continue;
      whole.ranges[static_cast<size_t>(&range - src.ranges.data())].min = theirs;
      range.min = all ? theirs : ir::MakeSelect(IsIn(mask), theirs, own);
    }
    const bool several = std::popcount(static_cast<uint64_t>(mask)) > 1;
    if (keep_ && several && apart_ != nullptr) {
      each_.push_back(absl::StrCat("line ", s->loc.line, ": ", apart_));
    }
    if (keep_ && several && apart_ == nullptr) {
      auto marked = notes;
      marked[ir::kMulticast] = absl::StrCat(mask);
      const Stmt together = ir::MakeStmt<ir::Copy>(copy.loc, whole, copy.dst, std::move(marked));
      if (all) return together;
      return ir::MakeStmt<ir::If>(
          copy.loc, IsIn(mask), together,
          ir::MakeStmt<ir::Copy>(copy.loc, copy.src, copy.dst, std::move(notes)));
    }
    return ir::MakeStmt<ir::Copy>(copy.loc, src, copy.dst, std::move(notes));
  }

  bool Loads(const Expr& e) const {
    bool loads = false;
    ir::Walk(e, [&](const Expr& x) {
      loads = loads || x.kind() == ir::ExprKind::kLoad || loaded_.count(x.get()) > 0;
      return !loads;
    });
    return loads;
  }

  // Whether `e` is the same in all blocks but for what the grid's axes say.
  bool IsOfTensors(const Expr& e) const {
    bool same = true;
    ir::Walk(e, [&](const Expr& x) {
      const auto* load = x.As<ir::Load>();
      same = same && loaded_.count(x.get()) == 0 &&
             (load == nullptr || load->buffer->scope == ir::Scope::kGlobal);
      return same;
    });
    return same;
  }

  Expr IsIn(int64_t mask) const {
    Expr rank = MakeInt(0);
    for (size_t i = launch_.cluster.size(); i-- > 0;) {
      const Expr size = MakeInt(launch_.cluster[i]);
      rank = rank * size + FloorMod(launch_.grid[i].var, size);
    }
    const Expr from = ir::MakeBinary(ir::BinaryOp::kShr, MakeInt(mask, rank.dtype()), rank);
    return ir::Equal(FloorMod(from, MakeInt(2, rank.dtype())), MakeInt(1, rank.dtype()));
  }

  const LaunchState& launch_;
  Bound bound_;
  const SourceFile& source_;
  const bool keep_;
  const char* apart_ = nullptr;  // why copies here are each block's own
  std::vector<std::string> each_;
  std::vector<Expr> around_;  // conditions and bounds of loops
  std::unordered_set<const ir::ExprNode*> loaded_;
  absl::Status status_;
};

bool HoldsMask(const Stmt& s) {
  bool holds = false;
  ir::Walk(s, [&](const Stmt& x) {
    const auto* copy = x.As<ir::Copy>();
    holds = holds || (copy != nullptr && copy->annotations.count(kClusterMask) > 0);
    return !holds;
  });
  return holds;
}

}  // namespace

bool IsMeeting(const Stmt& s, const char* what) {
  const auto* x = s.As<ir::Instruct>();
  if (x == nullptr || x->op != ir::Instruction::kBlockBarrier) return false;
  const auto note = x->annotations.find(kCluster);
  return note != x->annotations.end() && note->second == what;
}

bool HoldsMeeting(const Stmt& s, const char* what) {
  bool holds = false;
  ir::Walk(s, [&](const Stmt& x) {
    holds = holds || IsMeeting(x, what);
    return !holds;
  });
  return holds;
}

const ir::For* AsOfBlock(const Stmt& s) {
  const auto* loop = s.As<ir::For>();
  return loop != nullptr && loop->annotations.count(kOfBlock) > 0 ? loop : nullptr;
}

bool Communicates(const Stmt& body, const std::vector<ir::View>& views) {
  bool others = false;
  ir::Walk(body, [&](const Stmt& s) {
    others = others || AsOfBlock(s) != nullptr;
    return !others;
  });
  return others || (HoldsMeeting(body, kWait) && Tensors(body, views).Meet());
}

Stmt WithoutMeetings(const Stmt& body) {
  return ir::RewriteStmts(body, [](const Stmt& s) {
    const bool meets = IsMeeting(s, kArrive) || IsMeeting(s, kWait);
    return meets ? ir::MakeSeq({}, s->loc) : Stmt();
  });
}

absl::Status ResolveMulticasts(const LaunchState& launch, const Bound& bound,
                               const SourceFile& source, bool keep, Stmt* body,
                               std::vector<std::string>* apart) {
  // Where a copy begins may be seen of loops that are counted.
  *body = CountLoops(*body, HoldsMask);
  Multicasts multicasts(launch, bound, source, keep);
  *body = multicasts.Mutate(*body);
  *apart = multicasts.each();
  return multicasts.status();
}

bool HoldsMulticast(const Stmt& body) {
  bool holds = false;
  ir::Walk(body, [&](const Stmt& s) {
    const auto* copy = s.As<ir::Copy>();
    holds = holds || (copy != nullptr && copy->annotations.count(ir::kMulticast) > 0);
    return !holds;
  });
  return holds;
}

ir::VarMap InBlock(const LaunchState& launch, int64_t rank) {
  ir::VarMap vars;
  for (size_t i = 0; i < launch.cluster.size(); ++i) {
    const int64_t n = launch.cluster[i];
    const Expr& var = launch.grid[i].var;
    if (n > 1) vars[var.get()] = FloorDiv(var, MakeInt(n)) * MakeInt(n) + MakeInt(rank % n);
    rank /= n;
  }
  return vars;
}

}  // namespace kiln::lang
