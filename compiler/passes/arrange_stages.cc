#include "compiler/passes/arrange_stages.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/gather.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"
#include "compiler/passes/stage_lists.h"
#include "compiler/passes/tile_versions.h"
#include "compiler/passes/touched.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

// When a statement of step 0 runs: its turn, and its place there.
using Time = std::pair<int64_t, int64_t>;

// What hardware may copy into the whole of a tile beside the threads.
struct Fetch {
  ir::Buffer tile, tensor;
};

std::optional<Fetch> FetchOf(const Stmt& s) {
  if (const auto* copy = s.As<ir::Copy>()) {
    const ir::Buffer &tile = copy->dst.buffer, &tensor = copy->src.buffer;
    const auto looked_up = [](const ir::Range& r) { return ReadsMemory(r.min); };
    if (tensor->scope != ir::Scope::kGlobal || tile->scope != ir::Scope::kShared ||
        tensor->dtype != tile->dtype || !CoversWhole(copy->dst) ||
        std::any_of(copy->src.ranges.begin(), copy->src.ranges.end(), looked_up)) {
      return std::nullopt;
    }
    return Fetch{tile, tensor};
  }
  const Stmt gather = ir::GatherOf(s);
  if (!gather.defined() || ir::LooksUp(gather)) return std::nullopt;
  const auto* store = gather.As<ir::Store>();
  return Fetch{store->buffer, store->value.As<ir::Load>()->buffer};
}

// Whether a statement writes all of a buffer and reads none of it.
bool Fills(const Stmt& stmt, const ir::BufferNode* buffer) {
  if (TouchedBy(stmt).reads.count(buffer) > 0) return false;
  const auto* named = stmt.As<ir::Seq>();  // after the names that it uses
  const Stmt& s = named != nullptr && !named->stmts.empty() ? named->stmts.back() : stmt;
  const auto whole = [&](const ir::Region& r) {
    return r.buffer.get() == buffer && CoversWhole(r);
  };
  if (const auto* copy = s.As<ir::Copy>()) return whole(copy->dst);
  if (const auto* fill = s.As<ir::Fill>()) return whole(fill->dst);
  if (const auto* gemm = s.As<ir::Gemm>()) return whole(gemm->c);
  if (const auto* reduce = s.As<ir::Reduce>()) return whole(reduce->dst);
  const auto* loop = s.As<ir::For>();
  if (loop == nullptr) return false;
  const auto* body = loop->body.As<ir::Seq>();
  const Stmt last = body != nullptr && !body->stmts.empty() ? body->stmts.back() : loop->body;
  const auto* store = last.As<ir::Store>();
  if (loop->loop != ir::ForKind::kParallel || store == nullptr || store->predicate.defined() ||
      store->buffer.get() != buffer || store->indices.size() != loop->axes.size()) {
    return false;
  }
  for (size_t d = 0; d < loop->axes.size(); ++d) {
    if (!store->indices[d].same_as(loop->axes[d].var) || !ir::IsConst(loop->axes[d].min, 0) ||
        !ir::Same(loop->axes[d].extent, buffer->shape[d])) {
      return false;
    }
  }
  return true;
}

// A statement of the body, and what is known of it.
struct Piece {
  StagedStmt staged;
  Touched touched;
  std::optional<Fetch> fetch;  // left to the passes that fetch ahead
  int64_t ahead = 0;           // of a fetch: the turns before its reader that its stage asks for

  Time time() const { return {staged.stage, staged.order}; }
};

class Arrange {
 public:
  Arrange(const ir::Program& program, const ir::Launch& launch, const Stmt& loop, bool chains)
      : program_(program),
        launch_(launch),
        loop_stmt_(loop),
        loop_(*loop.As<ir::For>()),
        chains_(chains) {}

  // The arranged loop; `versions` gets the tiles that have some now, `moved` what the body
  // declares.
  absl::StatusOr<Stmt> Run(TileVersions* versions, std::vector<Stmt>* moved) {
    KILN_ASSIGN_OR_RETURN(std::vector<StagedStmt> stmts, ReadStageLists(program_, loop_));
    for (StagedStmt& s : stmts) {
      Touched touched = TouchedBy(s.stmt);
      pieces_.push_back({std::move(s), std::move(touched), std::nullopt, 0});
    }
    KILN_RETURN_IF_ERROR(CheckBody());
    FindDeclared(moved);
    KILN_RETURN_IF_ERROR(FindFetches());
    KILN_RETURN_IF_ERROR(KeepDependences());
    if (chains_ && AsksForChain()) {
      counts_.clear();
      for (size_t i = 0; i < pieces_.size(); ++i) {
        pieces_[i].staged.stage = 0;
        pieces_[i].staged.order = static_cast<int64_t>(i);
      }
    }
    for (const auto& [buffer, count] : counts_) {
      versions_[buffer.get()] = VersionsOf(buffer, count);
    }
    versions->insert(versions_.begin(), versions_.end());
    return Build();
  }

 private:
  absl::Status Error(SourceLoc loc, std::string message, std::string remedy) const {
    return ir::ErrorAt(program_, loc, std::move(message), std::move(remedy));
  }

  absl::Status CheckBody() const {
    absl::Status status;
    ir::Walk(loop_.body, [&](const Stmt& s) {
      const auto* inner = s.As<ir::For>();
      if (ir::IsJump(s)) {
        status = Error(s->loc, "a loop with stages runs several steps at once and cannot leave one",
                       "leave out order and stage, or the break");
      } else if (s.kind() == ir::StmtKind::kOnThreads) {
        status = Error(s->loc, "T.ws in a loop with stages", "leave out order and stage");
      }
      // A break inside of an inner loop is that loop's.
      return status.ok() && s.kind() != ir::StmtKind::kWhile &&
             (inner == nullptr || inner->loop == ir::ForKind::kPipelined);
    });
    return status;
  }

  void FindDeclared(std::vector<Stmt>* moved) {
    const auto* seq = loop_.body.As<ir::Seq>();
    if (seq == nullptr) return;
    for (const Stmt& s : seq->stmts) {
      const auto* alloc = s.As<ir::Alloc>();
      if (alloc == nullptr) continue;
      moved->push_back(s);
      declared_.insert(alloc->buffer.get());
    }
  }

  bool IsAnnotated(const ir::BufferNode& tile) const {
    return launch_.annotations.count(absl::StrCat("layout:", tile.name)) > 0;
  }

  // Whether nothing but the loop touches a tile, other than to declare it.
  bool IsTheLoopsOwn(const ir::Buffer& tile) const {
    const Stmt outside =
        ir::WithoutStmts(launch_.body, [&](const Stmt& s) { return s.same_as(loop_stmt_); });
    return !Uses({outside}, tile);
  }

  absl::Status FindFetches() {
    bool parts = false;
    ir::Walk(launch_.body, [&](const Stmt& s) {
      parts |= s.kind() == ir::StmtKind::kOnThreads;
      return !parts;
    });
    const ir::Axis& axis = loop_.axes[0];
    const bool known = !parts && !ReadsMemory(axis.min) && !ReadsMemory(axis.extent);
    for (Piece& piece : pieces_) {
      const std::optional<Fetch> fetch = FetchOf(piece.staged.stmt);
      std::optional<Time> reader;
      if (known && fetch && !IsAnnotated(*fetch->tile) && IsTheLoopsOwn(fetch->tile) &&
          !Writes({launch_.body}, fetch->tensor)) {
        reader = OneReader(piece, fetch->tile);
      }
      if (reader && (piece.staged.apart || piece.time() < *reader)) {
        piece.ahead = piece.staged.apart ? 0 : reader->first - piece.staged.stage;
        piece.staged.stage = reader->first;
        piece.fetch = fetch;
      } else if (piece.staged.apart) {
        return Error(piece.staged.loc,
                     "order and stage -1 leave a statement to warps that fetch tiles; this one "
                     "they cannot do",
                     "keep it for copies of a tensor, as it is, into a whole tile of shared memory "
                     "that one stage reads and nothing else touches; give others a stage");
      }
    }
    return absl::OkStatus();
  }

  // The time of the first that reads the tile, where all do in one stage and after the fetch.
  std::optional<Time> OneReader(const Piece& fetch, const ir::Buffer& tile) const {
    std::optional<Time> first;
    bool fetched = false;
    for (const Piece& piece : pieces_) {
      if (&piece == &fetch) {
        fetched = true;
        continue;
      }
      if (piece.touched.writes.count(tile.get()) > 0) return std::nullopt;
      if (piece.touched.reads.count(tile.get()) == 0) continue;
      if (!fetched || (first && first->first != piece.staged.stage)) return std::nullopt;
      first = first ? std::min(*first, piece.time()) : piece.time();
    }
    return first;
  }

  // Whether the lists ask for what chain-products makes of the kernel's own order: the first
  // product of the next step, then the second one of this step and what it needs, then the work on
  // the first one's result.
  bool AsksForChain() const {
    std::vector<const Piece*> rest;
    for (const Piece& piece : pieces_) {
      if (!piece.fetch) rest.push_back(&piece);
    }
    const auto multiplies = [](const Piece* p) { return p->staged.stmt.As<ir::Gemm>() != nullptr; };
    const auto first = std::find_if(rest.begin(), rest.end(), multiplies);
    if (std::count_if(rest.begin(), rest.end(), multiplies) != 2 || !multiplies(rest.back()) ||
        rest.back()->staged.stmt.As<ir::Gemm>()->a.buffer->scope != ir::Scope::kFragment) {
      return false;
    }
    const Time start = (*first)->time(), end = rest.back()->time();
    const auto fits = [&](const Piece* p) {
      const auto [stage, order] = p->time();
      if (stage == start.first + 1) return order > start.second && order <= end.second;
      const bool work = std::find(first + 1, rest.end(), p) != rest.end();
      return stage == start.first && (work ? order > end.second : order <= start.second);
    };
    return end.first == start.first + 1 && std::all_of(rest.begin(), rest.end(), fits);
  }

  // Statements that meet in memory keep their order; where only the next step's would come too
  // early, it gets a version of the memory for itself.
  absl::Status KeepDependences() {
    for (size_t j = 0; j < pieces_.size(); ++j) {
      for (size_t i = 0; i < j; ++i) {
        if (pieces_[i].fetch || pieces_[j].fetch) continue;
        KILN_RETURN_IF_ERROR(KeepOrder(pieces_[i], pieces_[j]));
      }
    }
    return absl::OkStatus();
  }

  // Of two statements, the first of which comes first in the kernel.
  absl::Status KeepOrder(const Piece& first, const Piece& second) {
    std::set<std::pair<std::string, const ir::BufferNode*>> shared;  // by name: which is told of
    const auto add = [&](const Buffers& writes, const Touched& other) {
      for (const ir::BufferNode* b : writes) {
        if (other.reads.count(b) > 0 || other.writes.count(b) > 0) shared.insert({b->name, b});
      }
    };
    add(first.touched.writes, second.touched);
    add(second.touched.writes, first.touched);
    for (const auto& [name, b] : shared) {
      if (!(first.time() < second.time())) {
        return Error(
            second.staged.loc,
            absl::StrCat("order and stage run ", NameOf(second.staged), " before ",
                         NameOf(first.staged), " of the same step, and both touch ", b->name),
            "keep the order of statements that depend on each other, or give the later "
            "one a later stage");
      }
      int64_t count = 1;
      const auto next = [&] { return Time{first.staged.stage + count, first.staged.order}; };
      while (!(second.time() < next())) ++count;
      if (count > 1) KILN_RETURN_IF_ERROR(AskForVersions(b, count, first, second));
    }
    return absl::OkStatus();
  }

  absl::Status AskForVersions(const ir::BufferNode* b, int64_t count, const Piece& first,
                              const Piece& second) {
    const std::string what =
        absl::StrCat("order and stage run ", NameOf(first.staged), " of the next step before ",
                     NameOf(second.staged), ", and both touch ", b->name);
    const ir::Buffer buffer = FilledAnew(b);
    if (buffer == nullptr) {
      return Error(first.staged.loc,
                   absl::StrCat(what, ", which steps do not fill anew for themselves alone"),
                   "order the next step's statement later, or give both one stage");
    }
    if (b->scope != ir::Scope::kShared) {
      return Error(
          first.staged.loc,
          absl::StrCat(what, ", which would need ", count, " versions; registers have one"),
          "order the next step's statement later, or keep it in shared memory");
    }
    if (IsAnnotated(*b)) {
      return Error(first.staged.loc,
                   absl::StrCat(what, ", which would need ", count,
                                " versions; a tile whose layout the kernel gives has one"),
                   "leave out the layout, or order the next step's statement later");
    }
    counts_[buffer] = std::max(counts_[buffer], count);
    return absl::OkStatus();
  }

  // The buffer, if no step sees what another left there and nothing outside of the loop does.
  ir::Buffer FilledAnew(const ir::BufferNode* b) const {
    ir::Buffer buffer;
    ir::Walk(launch_.body, [&](const Stmt& s) {
      const auto* alloc = s.As<ir::Alloc>();
      if (alloc != nullptr && alloc->buffer.get() == b) buffer = alloc->buffer;
      return true;
    });
    if (buffer == nullptr || declared_.count(b) > 0) return buffer;
    const auto touches = [&](const Piece& p) {
      return p.touched.reads.count(b) > 0 || p.touched.writes.count(b) > 0;
    };
    const auto first = std::find_if(pieces_.begin(), pieces_.end(), touches);
    const bool own = Fills(first->staged.stmt, b) && IsTheLoopsOwn(buffer);
    return own ? buffer : nullptr;
  }

  Stmt Build() {
    int64_t least = INT64_MAX, most = 0, versions = 0;
    for (const Piece& piece : pieces_) {
      least = std::min(least, piece.staged.stage);
      most = std::max(most, piece.staged.stage);
      if (piece.fetch && piece.ahead > 0) versions = std::max(versions, piece.ahead + 1);
    }
    later_ = pieces_.empty() ? 0 : most - least;
    for (Piece& piece : pieces_) piece.staged.stage -= least;
    Expr stages = loop_.num_stages;
    if (versions > (stages.defined() ? ir::ConstInt(stages).value_or(0) : 0)) {
      stages = MakeInt(versions);
    }
    std::map<std::string, std::string> notes = loop_.annotations;
    for (const char* list : {kOrderList, kStageList, kGroupList}) notes.erase(list);
    const ir::Axis& axis = loop_.axes[0];
    const DType type = axis.var.dtype();
    turn_ = later_ == 0 ? axis.var : ir::MakeVar(axis.var.As<ir::Var>()->name, type);
    ir::Axis turns = axis;
    if (later_ > 0) {
      const Expr runs = axis.extent > MakeInt(0, axis.extent.dtype());
      const Expr longer = axis.extent + MakeInt(later_, axis.extent.dtype());
      turns = {
          turn_, MakeInt(0, type),
          ir::IsConst(runs, 1) ? longer : ir::MakeSelect(runs, longer, MakeInt(0, longer.dtype()))};
    }
    return ir::MakeStmt<ir::For>(loop_.loc, loop_.loop, std::vector<ir::Axis>{turns},
                                 ir::MakeStmt<ir::Seq>(loop_.loc, Body()), stages, notes);
  }

  // What is fetched comes first; of the rest, neighbours of one stage share a branch.
  std::vector<Stmt> Body() const {
    std::vector<const Piece*> order;
    for (const Piece& piece : pieces_) order.push_back(&piece);
    std::sort(order.begin(), order.end(), [](const Piece* a, const Piece* b) {
      return std::pair(!a->fetch.has_value(), a->staged.order) <
             std::pair(!b->fetch.has_value(), b->staged.order);
    });
    std::vector<Stmt> body;
    for (size_t i = 0; i < order.size();) {
      const int64_t stage = order[i]->staged.stage;
      if (order[i]->fetch) {
        body.push_back(AtStep(order[i++]->staged.stmt, Clamped(stage)));
        continue;
      }
      std::vector<Stmt> branch;
      while (i < order.size() && order[i]->staged.stage == stage) {
        branch.push_back(AtStep(order[i++]->staged.stmt, StepOf(stage)));
      }
      const Expr runs = Runs(stage);
      if (ir::IsConst(runs, 1)) {
        body.insert(body.end(), branch.begin(), branch.end());
      } else {
        body.push_back(ir::MakeStmt<ir::If>(loop_.loc, runs, ir::MakeSeq(branch, loop_.loc)));
      }
    }
    return body;
  }

  // The step, from 0, that a stage does in this turn.
  Expr StepOf(int64_t stage) const {
    if (later_ == 0) return turn_ - loop_.axes[0].min;
    return turn_ - MakeInt(stage, turn_.dtype());
  }

  // The same, but always one of the loop's: what is fetched for turns without a step is not used.
  Expr Clamped(int64_t stage) const {
    Expr step = StepOf(stage);
    const Expr last = loop_.axes[0].extent - MakeInt(1, loop_.axes[0].extent.dtype());
    if (stage < later_) step = Min(step, ir::MakeCast(step.dtype(), last));
    if (stage > 0) step = Max(step, MakeInt(0, step.dtype()));
    return step;
  }

  Expr Runs(int64_t stage) const {
    Expr runs = ir::MakeBool(true);
    const Expr step = StepOf(stage);
    if (stage > 0) runs = runs && step >= MakeInt(0, step.dtype());
    if (stage < later_) runs = runs && step < ir::MakeCast(step.dtype(), loop_.axes[0].extent);
    return runs;
  }

  Stmt AtStep(const Stmt& s, const Expr& step) const {
    const ir::Axis& axis = loop_.axes[0];
    Stmt own = later_ == 0 ? s : ir::Substitute(s, {{axis.var.get(), axis.min + step}});
    std::map<int64_t, TileVersions> by_count;
    for (const auto& [buffer, count] : counts_) {
      by_count[count][buffer.get()] = versions_.at(buffer.get());
    }
    for (const auto& [count, tiles] : by_count) {
      own = ReadVersion(own, tiles, FloorMod(step, MakeInt(count, step.dtype())));
    }
    return ir::FreshCopy(own);
  }

  const ir::Program& program_;
  const ir::Launch& launch_;
  const Stmt loop_stmt_;
  const ir::For& loop_;
  const bool chains_;          // chain-products may follow
  std::vector<Piece> pieces_;  // in the kernel's order
  Buffers declared_;           // in the body
  std::map<ir::Buffer, int64_t> counts_;
  TileVersions versions_;
  int64_t later_ = 0;  // turns that the last stage runs after the first
  Expr turn_;
};

// The first loop with lists that holds no other.
Stmt InnermostWithLists(const Stmt& body) {
  Stmt found;
  ir::Walk(body, [&](const Stmt& s) {
    const auto* loop = s.As<ir::For>();
    if (loop != nullptr && loop->loop == ir::ForKind::kPipelined && HasStageLists(*loop)) found = s;
    return true;
  });
  return found;
}

absl::StatusOr<Stmt> ArrangeLaunch(const ir::Program& program, const PassContext& context,
                                   const Stmt& s) {
  const bool chains = context.instruct && GpuOf(context).name == "sm_90a" &&
                      ir::PassOption(program, "kiln.chain", 1) != 0 &&
                      ir::PassOption(program, "tl.disable_warp_specialized", 0) == 0;
  Stmt current = s;
  while (true) {
    const auto* launch = current.As<ir::Launch>();
    const Stmt loop = InnermostWithLists(launch->body);
    if (!loop.defined()) return current;
    TileVersions versions;
    std::vector<Stmt> stmts;
    KILN_ASSIGN_OR_RETURN(const Stmt arranged,
                          Arrange(program, *launch, loop, chains).Run(&versions, &stmts));
    const Stmt body = ir::RewriteStmts(launch->body, [&](const Stmt& inner) -> Stmt {
      return inner.same_as(loop) ? arranged : Stmt();
    });
    stmts.push_back(body);
    const Stmt all = stmts.size() == 1 ? body : ir::MakeStmt<ir::Seq>(launch->loc, stmts);
    const Stmt declared = ir::RewriteStmts(all, [&](const Stmt& inner) -> Stmt {
      const auto* alloc = inner.As<ir::Alloc>();
      const auto found = alloc != nullptr ? versions.find(alloc->buffer.get()) : versions.end();
      return found == versions.end() ? Stmt() : ir::MakeStmt<ir::Alloc>(inner->loc, found->second);
    });
    current = ir::MakeStmt<ir::Launch>(current->loc, launch->grid, launch->threads, declared,
                                       launch->annotations);
  }
}

}  // namespace

absl::StatusOr<ir::Program> ArrangeStages(const ir::Program& program, const PassContext& context) {
  ir::Program out = program;
  absl::Status status;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    if (s.kind() != ir::StmtKind::kLaunch || !status.ok()) return {};
    absl::StatusOr<Stmt> arranged = ArrangeLaunch(program, context, s);
    status.Update(arranged.status());
    return arranged.ok() && !arranged->same_as(s) ? *arranged : Stmt();
  });
  KILN_RETURN_IF_ERROR(status);
  return out;
}

absl::StatusOr<ir::Program> CheckStages(const ir::Program& program, const PassContext& context) {
  KILN_RETURN_IF_ERROR(ArrangeStages(program, context).status());
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [](const Stmt& s) -> Stmt {
    const auto* loop = s.As<ir::For>();
    if (loop == nullptr || loop->loop != ir::ForKind::kPipelined || !HasStageLists(*loop)) {
      return {};
    }
    return ir::MakeStmt<ir::For>(s->loc, loop->loop, loop->axes, loop->body, loop->num_stages);
  });
  return out;
}

}  // namespace kiln::passes
