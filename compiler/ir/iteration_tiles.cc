#include "compiler/ir/iteration_tiles.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 16;  // of a tile, to be looked at one by one
constexpr int64_t kMostTurns = 256;                  // of a loop that is followed turn by turn
constexpr int64_t kMostVisits = int64_t{1} << 12;    // of loop bodies, for one tile

bool IsScratch(const Buffer& b) {
  return b && (b->scope == Scope::kVar || b->scope == Scope::kLocal);
}

bool Names(const std::vector<Buffer>& list, const Buffer& b) {
  return std::find(list.begin(), list.end(), b) != list.end();
}

// Whether anything but its declaration names `b`.
bool Touches(const Stmt& s, const Buffer& b) {
  if (Names(BuffersRead(s), b)) return true;
  bool touches = false;
  Walk(s, [&](const Stmt& x) {
    switch (x.kind()) {
      case StmtKind::kSeq:
      case StmtKind::kFor:
      case StmtKind::kWhile:
      case StmtKind::kIf:
      case StmtKind::kLaunch:
      case StmtKind::kOnThreads:
        return !touches;
      case StmtKind::kAlloc:
        return false;
      default:
        touches = touches || Names(BuffersWritten(x), b);
        return false;
    }
  });
  return touches;
}

bool IsParallel(const Stmt& s) {
  const auto* loop = s.As<For>();
  if (loop == nullptr || loop->loop != ForKind::kParallel) return false;
  // One iteration shares with nobody.
  return !std::all_of(loop->axes.begin(), loop->axes.end(),
                      [](const Axis& axis) { return IsConst(axis.extent, 1); });
}

// Follows one tile through a launch: of which elements the value is that of whoever reads them.
class Follower {
 public:
  Follower(const Buffer& tile, int64_t elements)
      : tile_(tile), good_(static_cast<size_t>(elements), 1) {}

  struct Trouble {
    SourceLoc loc;
    bool after;  // the loop, and not in it
  };

  void Visit(const Stmt& s) {
    if (trouble_) return;
    switch (s.kind()) {
      case StmtKind::kSeq:
        for (const Stmt& child : s.As<Seq>()->stmts) Visit(child);
        return;
      case StmtKind::kFor:
        return VisitLoop(s, *s.As<For>());
      case StmtKind::kWhile: {
        Reads(s.As<While>()->condition, s->loc);
        const Stmt& body = s.As<While>()->body;
        return Repeat(body, /*some=*/false);
      }
      case StmtKind::kIf:
        return VisitIf(*s.As<If>());
      case StmtKind::kOnThreads:
        return Visit(s.As<OnThreads>()->body);
      case StmtKind::kBind:
        Reads(s.As<Bind>()->value, s->loc);
        binds_[s.As<Bind>()->var.get()] = Substitute(s.As<Bind>()->value, binds_);
        return;
      case StmtKind::kStore: {
        const auto& store = *s.As<Store>();
        ReadsOf(s);
        if (store.buffer != tile_ || store.predicate.defined()) return;
        if (const auto at = ElementAt(store.indices)) good_[*at] = 1;
        return;
      }
      default:
        return VisitOther(s);
    }
  }

  const std::optional<Trouble>& trouble() const { return trouble_; }
  // The parallel loops that store to the tile.
  const std::vector<const StmtNode*>& loops() const { return loops_; }

 private:
  void VisitOther(const Stmt& s) {
    ReadsOf(s);
    if (const auto* copy = s.As<Copy>(); copy != nullptr && copy->src.buffer == tile_) {
      ReadRegion(copy->src, s->loc);
    } else if (s.As<Copy>() == nullptr && s.As<Fill>() == nullptr && Names(BuffersRead(s), tile_)) {
      ReadAll(s->loc);
    }
    if (const auto* copy = s.As<Copy>(); copy != nullptr && copy->dst.buffer == tile_) {
      WriteRegion(copy->dst);
    }
    if (const auto* fill = s.As<Fill>(); fill != nullptr && fill->dst.buffer == tile_) {
      WriteRegion(fill->dst);
    }
    const auto* atomic = s.As<Atomic>();
    if (atomic != nullptr && atomic->way.previous == tile_ && good_.size() == 1) good_[0] = 1;
    const auto* alloc = s.As<Alloc>();
    if (alloc != nullptr && alloc->buffer == tile_) good_.assign(good_.size(), 1);
  }

  void VisitIf(const If& branch) {
    Reads(branch.condition, branch.loc);
    const std::optional<int64_t> holds = ValueOf(branch.condition);
    const std::vector<char> before = good_;
    if (!holds || *holds != 0) Visit(branch.then_case);
    if (holds && *holds != 0) return;
    const std::vector<char> then = std::exchange(good_, before);
    if (branch.else_case.defined()) Visit(branch.else_case);
    if (!holds) Meet(then);
  }

  void VisitLoop(const Stmt& s, const For& loop) {
    for (const Axis& axis : loop.axes) {
      Reads(axis.min, s->loc);
      Reads(axis.extent, s->loc);
    }
    if (!Touches(loop.body, tile_)) return;
    if (IsParallel(s) && !inside_ && !IsOfInnerLoop(loop.body)) {
      if (!Names(BuffersWritten(loop.body), tile_)) return Visit(loop.body);
      if (std::find(loops_.begin(), loops_.end(), s.get()) == loops_.end()) {
        loops_.push_back(s.get());
      }
      inside_ = true;
      good_.assign(good_.size(), 0);
      Visit(loop.body);
      inside_ = false;
      good_.assign(good_.size(), 0);
      return;
    }
    const auto extent = loop.axes.size() == 1 ? ConstInt(loop.axes[0].extent) : std::nullopt;
    const auto min = loop.axes.size() == 1 ? ConstInt(loop.axes[0].min) : std::nullopt;
    if (inside_ && extent && min && *extent <= kMostTurns && !HasJump(loop.body) &&
        Decides(loop.axes[0].var, loop.body)) {
      for (int64_t i = 0; i < *extent && visits_ < kMostVisits; ++i, ++visits_) {
        variables_.push_back(loop.axes[0].var);
        turns_.push_back(*min + i);
        Visit(loop.body);
        variables_.pop_back();
        turns_.pop_back();
      }
      if (visits_ < kMostVisits) return;
    }
    const bool some = std::all_of(loop.axes.begin(), loop.axes.end(), [](const Axis& axis) {
      const auto n = ConstInt(axis.extent);
      return n && *n > 0;
    });
    Repeat(loop.body, some);
  }

  // Whether a parallel loop in it has all that touches the tile: then it is that loop's.
  bool IsOfInnerLoop(const Stmt& body) const {
    Stmt inner;
    Walk(body, [&](const Stmt& s) {
      if (!inner.defined() && IsParallel(s) && Touches(s, tile_)) inner = s;
      return !inner.defined();
    });
    if (!inner.defined()) return false;
    return !Touches(WithoutStmts(body, [&](const Stmt& s) { return s.same_as(inner); }), tile_);
  }

  // Whether the turn of a loop has a say in which elements are touched.
  bool Decides(const Expr& var, const Stmt& body) const {
    bool decides = false;
    const auto at = [&](const Buffer& b, const std::vector<Expr>& indices) {
      for (const Expr& index : indices) decides = decides || (b == tile_ && Uses(index, var));
    };
    Walk(
        body,
        [&](const Stmt& s) {
          if (const auto* bind = s.As<Bind>()) decides = decides || Uses(bind->value, var);
          if (const auto* branch = s.As<If>()) decides = decides || Uses(branch->condition, var);
          if (const auto* store = s.As<Store>()) at(store->buffer, store->indices);
          if (s.As<Fill>() != nullptr || s.As<Copy>() != nullptr) {
            decides = decides || Uses(s, var);
          }
          return !decides;
        },
        [&](const Expr& e) {
          if (const auto* load = e.As<Load>()) at(load->buffer, load->indices);
          return !decides;
        });
    return decides;
  }

  // A body whose turns are not told apart; `some`: there is one at least.
  void Repeat(const Stmt& body, bool some) {
    const std::vector<char> before = good_;
    const bool leaves = HasJump(body);
    const size_t loops = loops_.size();
    Visit(body);
    // A turn that leaves early may leave out what makes up for a parallel loop.
    const bool spoilt = leaves && (loops_.size() > loops || HasLoopOf(body));
    if (spoilt) good_.assign(good_.size(), 0);
    const std::vector<char> once = good_;
    Meet(before);
    const bool may_not = !some || leaves;  // do all of it
    if (good_ == before) {                 // as the first turn finds it, so does every other
      if (!may_not) good_ = once;
      return;
    }
    const std::vector<char> entry = good_;
    Visit(body);
    if (may_not) Meet(entry);
  }

  bool HasLoopOf(const Stmt& body) const {
    bool has = false;
    Walk(body, [&](const Stmt& s) {
      has |= std::find(loops_.begin(), loops_.end(), s.get()) != loops_.end();
      return !has;
    });
    return has;
  }

  void Meet(const std::vector<char>& other) {
    for (size_t i = 0; i < good_.size(); ++i) good_[i] = good_[i] && other[i];
  }

  // ---- accesses ----

  void ReadsOf(const Stmt& s) {
    Walk(
        s, [](const Stmt&) { return true; },
        [&](const Expr& e) {
          Reads(e, s->loc);
          return false;
        });
  }

  void Reads(const Expr& e, SourceLoc loc) {
    std::unordered_set<const ExprNode*> seen;
    Walk(e, [&](const Expr& x) {
      if (trouble_ || !seen.insert(x.get()).second) return false;
      const auto* load = x.As<Load>();
      if (load == nullptr || load->buffer != tile_) return true;
      const auto at = ElementAt(load->indices);
      if (at) {
        if (!good_[*at]) trouble_ = Trouble{loc, !inside_};
      } else {
        ReadAll(loc);
      }
      return true;
    });
  }

  void ReadAll(SourceLoc loc) {
    const bool all = std::all_of(good_.begin(), good_.end(), [](char c) { return c != 0; });
    if (!all && !trouble_) trouble_ = Trouble{loc, !inside_};
  }

  void ReadRegion(const Region& region, SourceLoc loc) {
    bool good = true;
    const bool known = EachOf(region, [&](size_t at) { good = good && good_[at]; });
    if (!known) return ReadAll(loc);
    if (!good && !trouble_) trouble_ = Trouble{loc, !inside_};
  }

  void WriteRegion(const Region& region) {
    EachOf(region, [&](size_t at) { good_[at] = 1; });
  }

  // False where the region is not known.
  template <typename F>
  bool EachOf(const Region& region, const F& visit) const {
    std::vector<size_t> places = {0};
    for (size_t d = 0; d < region.ranges.size(); ++d) {
      const auto min = ValueOf(region.ranges[d].min), extent = ValueOf(region.ranges[d].extent);
      const int64_t size = *ConstInt(tile_->shape[d]);
      if (!min || !extent || *min < 0 || *extent < 0 || *min > size || *extent > size - *min) {
        return false;
      }
      std::vector<size_t> next;
      for (const size_t place : places) {
        for (int64_t i = 0; i < *extent; ++i) next.push_back(place * size + *min + i);
      }
      places = std::move(next);
    }
    for (const size_t place : places) visit(place);
    return true;
  }

  std::optional<int64_t> ValueOf(const Expr& e) const {
    if (const auto constant = ConstInt(e)) return constant;
    const auto function = IntFunction::Of(Substitute(e, binds_), variables_);
    return function.ok() ? (*function)(turns_) : std::nullopt;
  }

  std::optional<size_t> ElementAt(const std::vector<Expr>& indices) const {
    int64_t place = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      const auto at = ValueOf(indices[d]);
      const int64_t size = *ConstInt(tile_->shape[d]);
      if (!at || *at < 0 || *at >= size) return std::nullopt;
      place = place * size + *at;
    }
    return static_cast<size_t>(place);
  }

  const Buffer tile_;
  std::vector<char> good_;  // elements: stored by who reads them now
  bool inside_ = false;     // of a parallel loop that stores to the tile
  VarMap binds_;
  std::vector<Expr> variables_;  // of loops that are followed turn by turn
  std::vector<int64_t> turns_;
  int64_t visits_ = 0;
  std::vector<const StmtNode*> loops_;
  std::optional<Trouble> trouble_;
};

// Tiles that a parallel loop stores to and that are declared outside of it.
std::vector<Buffer> SharedScratch(const Stmt& body) {
  std::vector<Buffer> found;
  Walk(body, [&](const Stmt& s) {
    if (!IsParallel(s)) return true;
    const Stmt& inside = s.As<For>()->body;
    std::unordered_set<const BufferNode*> own;
    Walk(inside, [&](const Stmt& x) {
      if (const auto* alloc = x.As<Alloc>()) own.insert(alloc->buffer.get());
      return true;
    });
    for (const Buffer& b : BuffersWritten(inside)) {
      if (IsScratch(b) && own.count(b.get()) == 0 && !Names(found, b)) found.push_back(b);
    }
    return false;
  });
  return found;
}

std::optional<int64_t> ElementsOf(const Buffer& b) {
  int64_t n = 1;
  for (const Expr& extent : b->shape) {
    const auto e = ConstInt(extent);
    if (!e || *e < 1 || *e > kMostElements) return std::nullopt;
    n *= *e;
    if (n > kMostElements) return std::nullopt;
  }
  return n;
}

absl::Status Refuse(const Buffer& b, const Follower::Trouble& trouble, const SourceFile& source) {
  if (trouble.after) {
    return ErrorAt(source, trouble.loc,
                   absl::StrCat("'", b->name, "' is read after a T.Parallel loop whose iterations ",
                                "store to it, each to one of its own"),
                   "pass values on in a T.alloc_fragment with an element for each iteration, or "
                   "add them up in a T.alloc_reducer");
  }
  return ErrorAt(source, trouble.loc,
                 absl::StrCat("iterations of T.Parallel would share '", b->name,
                              "', which they store to: this reads what the iteration may not have "
                              "stored before"),
                 "store to it first in every iteration, add up in a T.alloc_reducer, or make the "
                 "loop serial");
}

}  // namespace

absl::StatusOr<Stmt> GiveIterationsTheirOwn(const Stmt& body, const SourceFile& source) {
  const std::vector<Buffer> scratch = SharedScratch(body);
  if (scratch.empty()) return body;
  std::unordered_map<const StmtNode*, std::vector<Buffer>> gets;
  for (const Buffer& b : scratch) {
    const auto elements = ElementsOf(b);
    if (!elements) continue;
    Follower follower(b, *elements);
    Walk(body, [&](const Stmt& s) {
      if (const auto* launch = s.As<Launch>()) {
        follower.Visit(launch->body);
        return false;
      }
      return true;
    });
    if (follower.trouble()) return Refuse(b, *follower.trouble(), source);
    for (const StmtNode* loop : follower.loops()) gets[loop].push_back(b);
  }
  const Stmt own = RewriteStmts(body, [&](const Stmt& s) -> Stmt {
    const auto found = gets.find(s.get());
    if (found == gets.end()) return {};
    const auto& loop = *s.As<For>();
    BufferMap copies;
    std::vector<Stmt> stmts;
    for (const Buffer& b : found->second) {
      auto copy = std::make_shared<const BufferNode>(*b);
      stmts.push_back(MakeStmt<Alloc>(loop.loc, copy));
      copies[b.get()] = std::move(copy);
    }
    stmts.push_back(Substitute(loop.body, {}, copies));
    return MakeStmt<For>(loop.loc, loop.loop, loop.axes, MakeSeq(std::move(stmts), loop.loc),
                         loop.num_stages, loop.annotations);
  });
  // What nobody touches any more is not declared any more.
  return RewriteStmts(own, [&](const Stmt& s) -> Stmt {
    const auto* alloc = s.As<Alloc>();
    if (alloc == nullptr || !Names(scratch, alloc->buffer)) return {};
    if (Touches(own, alloc->buffer)) return {};
    return MakeSeq({}, s->loc);
  });
}

}  // namespace kiln::ir
