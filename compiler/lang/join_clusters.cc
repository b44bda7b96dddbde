#include "compiler/lang/join_clusters.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/check_clusters.h"
#include "compiler/lang/cluster_marks.h"
#include "compiler/lang/follow_barriers.h"
#include "compiler/lang/rank_parts.h"

namespace kiln::lang {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;
using Stmts = std::vector<Stmt>;

constexpr int64_t kMostStatements = 100'000;  // of a joined launch

// What a block does, whose rank is known: without branches that it never takes. `facts` learn what
// names stand for.
class Taken : public ir::Mutator {
 public:
  explicit Taken(ir::Facts* facts) : facts_(*facts) {}

 protected:
  Expr VisitExpr(const Expr& e) override {
    const auto known = known_.find(e.get());
    return known == known_.end() ? ir::Mutator::VisitExpr(e) : known->second;
  }

  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* bind = s.As<ir::Bind>()) {
      const Expr value = Mutate(bind->value);
      if (ReadsMemory(value) || !value.dtype().is_int()) return RebuildStmt(s);
      const Expr simple = facts_.Simplify(value);
      facts_.SetValue(bind->var, simple);
      if (!ir::ConstInt(simple)) return ir::MakeStmt<ir::Bind>(s->loc, bind->var, simple);
      known_[bind->var.get()] = simple;
      return ir::MakeSeq({}, s->loc);
    }
    const auto* branch = s.As<ir::If>();
    if (branch == nullptr) return RebuildStmt(s);
    const Expr condition = facts_.Simplify(Mutate(branch->condition));
    const auto known = ir::ConstInt(condition);
    if (known && *known != 0) return Mutate(branch->then_case);
    const Stmt otherwise =
        branch->else_case.defined() ? Mutate(branch->else_case) : ir::MakeSeq({}, s->loc);
    if (known) return otherwise;
    return ir::MakeStmt<ir::If>(s->loc, condition, Mutate(branch->then_case),
                                branch->else_case.defined() ? otherwise : Stmt());
  }

 private:
  ir::Facts& facts_;
  ir::VarMap known_;
};

class Joiner {
 public:
  Joiner(const ir::Program& program, const ir::Launch& launch)
      : program_(program), launch_(launch) {
    for (absl::string_view n : absl::StrSplit(launch.annotations.at(kClusterDims), 'x')) {
      (void)absl::SimpleAtoi(n, &dims_.emplace_back());
      ranks_ *= static_cast<size_t>(dims_.back());
    }
    for (const Expr& extent : launch.threads) threads_ *= ir::ConstInt(extent).value_or(1);
    for (const ir::Buffer& b : ir::BuffersWritten(launch.body)) written_.insert(b.get());
  }

  absl::StatusOr<Stmt> Join() {
    KILN_RETURN_IF_ERROR(CheckSize());
    std::vector<ir::Axis> grid = launch_.grid;
    for (size_t i = 0; i < dims_.size(); ++i) {
      if (dims_[i] == 1) continue;
      grid[i].var = ir::MakeVar(grid[i].var.As<ir::Var>()->name, grid[i].var.dtype());
      grid[i].extent = FloorDiv(grid[i].extent, MakeInt(dims_[i]));
    }
    for (const ir::Axis& axis : grid) facts_.AddAxis(axis);
    own_.resize(ranks_);
    std::vector<Stmts> blocks;
    for (size_t r = 0; r < ranks_; ++r) blocks.push_back({Block(r, grid)});
    for (size_t r = 0; r < ranks_; ++r) blocks[r] = {ToOthers(r, blocks[r][0])};
    Stmts together;
    Merge(blocks, &together);
    KILN_RETURN_IF_ERROR(status_);
    const Stmt body = ir::MakeSeq(std::move(together), launch_.body->loc);
    joined_.blocks = static_cast<int64_t>(ranks_);
    KILN_RETURN_IF_ERROR(CheckClusters(program_, joined_, body));
    return ir::MakeStmt<ir::Launch>(launch_.loc, std::move(grid), launch_.threads,
                                    WithoutArrivals(body), Notes());
  }

 private:
  void Fail(SourceLoc loc, std::string message, std::string remedy,
            absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    if (!status_.ok()) return;
    status_ = ir::ErrorAt(program_, loc, std::move(message), std::move(remedy), code);
  }

  // Every block once, and what goes to a block that is picked at run time once for each.
  absl::Status CheckSize() const {
    const auto blocks = static_cast<int64_t>(ranks_);
    int64_t statements = 0;
    ir::Walk(launch_.body, [&](const Stmt& s) {
      statements += AsOfBlock(s) != nullptr ? blocks * blocks : blocks;
      return statements <= kMostStatements;
    });
    if (statements <= kMostStatements) return absl::OkStatus();
    return ir::ErrorAt(program_, launch_.loc,
                       absl::StrCat("what the ", blocks, " blocks of a cluster do is more than ",
                                    kMostStatements, " statements together"),
                       "make the cluster or the kernel smaller",
                       absl::StatusCode::kResourceExhausted);
  }

  static Stmt WithoutArrivals(const Stmt& body) {
    return ir::RewriteStmts(body, [](const Stmt& s) {
      return IsMeeting(s, kArrive) ? ir::MakeSeq({}, s->loc) : Stmt();
    });
  }

  // ---- what each block does by itself ----

  // With memory of its own, and without branches that it never takes.
  Stmt Block(size_t r, const std::vector<ir::Axis>& grid) {
    ir::VarMap vars;
    auto rank = static_cast<int64_t>(r);
    for (size_t i = 0; i < dims_.size(); ++i) {
      const Expr place = MakeInt(rank % dims_[i]);
      rank /= dims_[i];
      if (dims_[i] == 1) continue;
      const bool one = ir::IsConst(grid[i].extent, 1);
      vars[launch_.grid[i].var.get()] =
          one ? ir::MakeCast(grid[i].var.dtype(), place)
              : grid[i].var * MakeInt(dims_[i], grid[i].var.dtype()) + place;
    }
    ir::BufferMap copies, renamed;
    const Stmt placed = ir::Substitute(launch_.body, vars);
    const Stmt own = ir::FreshCopy(placed, &copies);
    for (const auto& [original, copy] : copies) {
      auto node = std::make_shared<ir::BufferNode>(*copy);
      node->name = NameIn(original->name, r);
      renamed[copy.get()] = node;
      own_[r][original] = node;
      original_[node.get()] = original;
      if (node->scope == ir::Scope::kShared) {
        joined_.owner[node.get()] = {static_cast<int64_t>(r), original->name};
      }
    }
    copies_.insert(copies_.end(), {placed, own});
    return Taken(&facts_).Mutate(ir::Substitute(own, {}, renamed));
  }

  static std::string NameIn(const std::string& name, size_t r) {
    return absl::StrCat(name, ".", r);
  }

  // The notes that speak of a buffer are of each block's.
  std::map<std::string, std::string> Notes() const {
    std::map<std::string, std::string> notes = launch_.annotations;
    notes.erase(kClusterDims);
    notes[ir::kJoined] = absl::StrCat(ranks_);
    for (const auto& [original, copy] : own_[0]) {
      for (const char* what : {"layout:", "replicated:", "stream:"}) {
        auto note = notes.extract(absl::StrCat(what, original->name));
        for (size_t r = 0; !note.empty() && r < ranks_; ++r) {
          notes[absl::StrCat(what, NameIn(original->name, r))] = note.mapped();
        }
      }
    }
    return notes;
  }

  // ---- what it does to others ----

  Stmt ToOthers(size_t r, const Stmt& s) {
    return ir::RewriteStmts(s, [&](const Stmt& x) -> Stmt {
      const ir::For* loop = AsOfBlock(x);
      if (loop == nullptr) return {};
      const Expr block = facts_.Simplify(loop->axes[0].min);
      if (const auto rank = ir::ConstInt(block)) {
        if (*rank >= 0 && *rank < static_cast<int64_t>(ranks_)) {
          return InBlock(r, static_cast<size_t>(*rank), loop->body);
        }
        Fail(x->loc,
             absl::StrCat("block ", r, " of the cluster speaks to block ", *rank, " of ", ranks_),
             absl::StrCat("name block 0 to ", ranks_ - 1));
        return x;
      }
      Stmt chosen = ir::MakeStmt<ir::Assert>(x->loc, ir::MakeBool(false),
                                             "a block of the cluster that there is not");
      for (size_t q = ranks_; q-- > 0;) {
        const Expr is_it = ir::Equal(block, MakeInt(static_cast<int64_t>(q), block.dtype()));
        chosen = ir::MakeStmt<ir::If>(x->loc, is_it, InBlock(r, q, loop->body), chosen);
      }
      return chosen;
    });
  }

  // With what block r stores in shared memory and at barriers in block q.
  Stmt InBlock(size_t r, size_t q, const Stmt& s) {
    const auto of_other = [&](const ir::Buffer& b) -> ir::Buffer {
      if (b->scope != ir::Scope::kShared && b->scope != ir::Scope::kBarrier) return b;
      const auto original = original_.find(b.get());
      if (original == original_.end()) return b;
      const ir::Buffer& theirs = own_[q].at(original->second);
      if (q != r && b->scope == ir::Scope::kBarrier) crossed_.insert(original->second);
      return theirs;
    };
    return ir::RewriteStmts(s, [&](const Stmt& x) -> Stmt {
      if (const auto* copy = x.As<ir::Copy>()) {
        ir::Region dst = copy->dst;
        dst.buffer = of_other(dst.buffer);
        return ir::MakeStmt<ir::Copy>(x->loc, copy->src, dst, copy->annotations);
      }
      const auto* store = x.As<ir::Store>();
      if (store == nullptr) return {};
      return ir::MakeStmt<ir::Store>(x->loc, of_other(store->buffer), store->indices, store->value,
                                     store->predicate, store->way);
    });
  }

  // ---- all of them together ----

  bool IsCrossed(const Stmt& s) const {
    bool crossed = false;
    const auto look = [&](const ir::Buffer& b) {
      const auto original = original_.find(b.get());
      crossed |= original != original_.end() && crossed_.count(original->second) > 0;
    };
    ir::Walk(
        s,
        [&](const Stmt& x) {
          if (const auto* store = x.As<ir::Store>()) look(store->buffer);
          return !crossed;
        },
        [&](const Expr& e) {
          if (const auto* load = e.As<ir::Load>()) look(load->buffer);
          return !crossed;
        });
    return crossed;
  }

  // Statements of block r in one row, allocations (without their first values) among `allocs`.
  // Names that parts of the block are to have in common are what they stand for.
  void Flatten(size_t r, const Stmt& s, Stmts* allocs, ir::VarMap* names, Stmts* out) {
    if (const auto* seq = s.As<ir::Seq>()) {
      for (const Stmt& x : seq->stmts) Flatten(r, x, allocs, names, out);
      return;
    }
    const auto set = [&](const ir::Buffer& variable, const Expr& value) {
      out->push_back(ir::MakeStmt<ir::Store>(s->loc, variable, std::vector<Expr>{MakeInt(0)},
                                             ir::Substitute(value, *names)));
    };
    if (const auto* alloc = s.As<ir::Alloc>()) {
      allocs->push_back(ir::MakeStmt<ir::Alloc>(s->loc, alloc->buffer, Expr(), alloc->place));
      if (alloc->init.defined()) set(alloc->buffer, alloc->init);
      return;
    }
    if (IsMeeting(s, kArrive)) {  // of this block
      out->push_back(
          ir::MakeInstruct(s->loc, ir::Instruction::kBlockBarrier, {}, {}, {{kCluster, kArrive}}));
      return;
    }
    const auto* bind = s.As<ir::Bind>();
    if (bind == nullptr) {
      out->push_back(names->empty() ? s : ir::Substitute(s, *names));
      return;
    }
    const Expr value = ir::Substitute(bind->value, *names);
    if (IsSteady(value)) known_[bind->var.get()] = ir::Substitute(value, known_);
    if (crossed_.empty()) {
      out->push_back(s);
    } else if (!ReadsMemory(value)) {
      (*names)[bind->var.get()] = value;
    } else if (!IsOfBarrier(s)) {
      const ir::Buffer variable = ir::MakeBuffer(NameIn(bind->var.As<ir::Var>()->name, r),
                                                 value.dtype(), {MakeInt(1)}, ir::Scope::kVar);
      allocs->push_back(ir::MakeStmt<ir::Alloc>(s->loc, variable));
      set(variable, value);
      (*names)[bind->var.get()] = ir::MakeLoad(variable, {MakeInt(0)});
    }
  }

  // Whether all that `e` loads are tensors that the launch does not write.
  bool IsSteady(const Expr& e) const {
    bool steady = true;
    ir::Walk(e, [&](const Expr& x) {
      const auto* load = x.As<ir::Load>();
      steady = steady && (load == nullptr || (load->buffer->scope == ir::Scope::kGlobal &&
                                              written_.count(load->buffer.get()) == 0));
      return steady;
    });
    return steady;
  }

  bool SameInAll(const std::vector<Expr>& each) const {
    const auto whole = [&](const Expr& e) { return facts_.Simplify(ir::Substitute(e, known_)); };
    const Expr first = whole(each[0]);
    return std::all_of(each.begin(), each.end(), [&](const Expr& e) {
      const Expr x = whole(e);
      return ir::Same(x, first) && IsSteady(x);
    });
  }

  void Merge(const std::vector<Stmts>& blocks, Stmts* out) {
    std::vector<std::vector<Stmts>> phases(ranks_);  // what each block does between meetings
    std::vector<Stmts> meetings(ranks_);
    Stmts allocs;
    for (size_t r = 0; r < ranks_; ++r) {
      Stmts flat;
      for (const Stmt& s : blocks[r]) Flatten(r, s, &allocs, &names_[r], &flat);
      phases[r].emplace_back();
      for (const Stmt& s : flat) {
        if (!HoldsMeeting(s, kWait)) {
          phases[r].back().push_back(s);
          continue;
        }
        meetings[r].push_back(s);
        phases[r].emplace_back();
      }
    }
    out->insert(out->end(), allocs.begin(), allocs.end());
    const auto by_count = [](const Stmts& a, const Stmts& b) { return a.size() < b.size(); };
    const auto least = std::min_element(meetings.begin(), meetings.end(), by_count);
    const auto most = std::max_element(meetings.begin(), meetings.end(), by_count);
    if (least->size() < most->size()) {
      return Fail((*most)[least->size()]->loc,
                  absl::StrCat("block ", most - meetings.begin(),
                               " of the cluster meets the others here, and block ",
                               least - meetings.begin(), " does not come by"),
                  "let every block of the cluster come by as many meetings");
    }
    for (size_t k = 0; k <= least->size() && status_.ok(); ++k) {
      std::vector<Stmts> phase;
      for (size_t r = 0; r < ranks_; ++r) phase.push_back(phases[r][k]);
      Phase(phase, out);
      if (k == least->size()) break;
      Stmts meeting;
      for (size_t r = 0; r < ranks_; ++r) meeting.push_back(meetings[r][k]);
      Meet(meeting, out);
    }
  }

  // One block after the other; as parts where they wait for each other.
  void Phase(const std::vector<Stmts>& blocks, Stmts* out) {
    bool waits = false;
    for (const Stmts& block : blocks) {
      for (const Stmt& s : block) waits |= IsCrossed(s);
    }
    for (size_t r = 0; r < ranks_; ++r) {
      const auto rank = static_cast<int64_t>(r);
      if (blocks[r].empty()) continue;
      if (waits) {
        out->push_back(RankPart(rank, threads_, blocks[r], blocks[r][0]->loc));
        joined_.doer[out->back().get()] = rank;
        continue;
      }
      for (const Stmt& s : blocks[r]) {
        out->push_back(s);
        joined_.doer[s.get()] = rank;
      }
    }
  }

  // A statement of each block, in which it meets the others.
  void Meet(const Stmts& each, Stmts* out) {
    const SourceLoc loc = each[0]->loc;
    for (const Stmt& s : each) {
      if (s.kind() == each[0].kind()) continue;
      return Fail(s->loc, "blocks of a cluster meet in different loops or branches",
                  "let every block of the cluster come by the same meetings");
    }
    if (IsMeeting(each[0], kWait)) return out->push_back(each[0]);
    if (each[0].As<ir::For>() != nullptr) return MeetInLoop(each, out);
    if (each[0].As<ir::If>() != nullptr) return MeetInBranch(each, out);
    if (each[0].kind() == ir::StmtKind::kOnThreads) {
      return Fail(loc, "blocks of a cluster meet where only some threads come by",
                  "let all threads of the block come by: move it out of T.ws");
    }
    Fail(loc,
         "blocks of a cluster meet in a while loop of which it is not seen that all of them make "
         "the same turns",
         "compare a variable that begins with a value of the indices of the cluster and goes up by "
         "a constant at the end of each turn, or write a for loop whose bounds are the same for "
         "all blocks of the cluster",
         absl::StatusCode::kUnimplemented);
  }

  void MeetInLoop(const Stmts& each, Stmts* out) {
    std::vector<Expr> mins, extents;
    std::vector<Stmts> bodies;
    const auto& first = *each[0].As<ir::For>();
    const Expr& turn = first.axes[0].var;
    for (const Stmt& s : each) {
      const auto& loop = *s.As<ir::For>();
      mins.push_back(loop.axes[0].min);
      extents.push_back(loop.axes[0].extent);
      bodies.push_back({ir::Substitute(loop.body, {{loop.axes[0].var.get(), turn}})});
    }
    if (ir::Leaves(first.body)) {
      return Fail(first.loc, "blocks of a cluster meet in a loop that one of them may leave",
                  "run all turns, and leave work out by an if", absl::StatusCode::kUnimplemented);
    }
    if (!SameInAll(mins) || !SameInAll(extents)) {
      return Fail(first.loc,
                  "blocks of a cluster meet in a loop that may have other turns in each of them",
                  "let the loop's bounds be the same for all blocks of the cluster",
                  absl::StatusCode::kUnimplemented);
    }
    Stmts body;
    Merge(bodies, &body);
    const ir::ForKind kind =
        first.loop == ir::ForKind::kUnroll ? ir::ForKind::kUnroll : ir::ForKind::kSerial;
    out->push_back(ir::MakeStmt<ir::For>(first.loc, kind, first.axes,
                                         ir::MakeSeq(std::move(body), first.body->loc)));
  }

  void MeetInBranch(const Stmts& each, Stmts* out) {
    std::vector<Expr> conditions;
    std::vector<Stmts> yes, no;
    for (const Stmt& s : each) {
      const auto& branch = *s.As<ir::If>();
      conditions.push_back(branch.condition);
      yes.push_back({branch.then_case});
      no.push_back(branch.else_case.defined() ? Stmts{branch.else_case} : Stmts{});
    }
    if (!SameInAll(conditions)) {
      return Fail(each[0]->loc,
                  "blocks of a cluster meet under a condition that may differ between them",
                  "let it be the same for all blocks of the cluster, or move the meeting out",
                  absl::StatusCode::kUnimplemented);
    }
    const auto& first = *each[0].As<ir::If>();
    Stmts then_case, else_case;
    Merge(yes, &then_case);
    Merge(no, &else_case);
    const Stmt otherwise =
        else_case.empty() ? Stmt() : ir::MakeSeq(std::move(else_case), first.loc);
    out->push_back(ir::MakeStmt<ir::If>(first.loc, first.condition,
                                        ir::MakeSeq(std::move(then_case), first.loc), otherwise));
  }

  const ir::Program& program_;
  const ir::Launch& launch_;
  std::vector<int64_t> dims_;
  size_t ranks_ = 1;
  int64_t threads_ = 1;
  Stmts copies_;     // of the body: facts_ knows their names by address, also those that are gone
  ir::Facts facts_;  // of the grid
  std::unordered_set<const ir::BufferNode*> written_;  // by the launch
  std::vector<ir::BufferMap> own_;                     // of the launch to those of each block
  std::unordered_map<const ir::BufferNode*, const ir::BufferNode*> original_;
  std::unordered_set<const ir::BufferNode*> crossed_;  // barriers that others arrive at
  std::unordered_map<size_t, ir::VarMap> names_;       // of each block
  ir::VarMap known_;                                   // names for what is the same all along
  JoinedCluster joined_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Stmt> JoinClusters(const ir::Program& program) {
  absl::Status status;
  const Stmt joined = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr || !status.ok()) return {};
    if (launch->annotations.count(kClusterDims) == 0) return s;
    absl::StatusOr<Stmt> together = Joiner(program, *launch).Join();
    if (together.ok()) return *std::move(together);
    status = together.status();
    return s;
  });
  KILN_RETURN_IF_ERROR(status);
  return joined;
}

}  // namespace kiln::lang
