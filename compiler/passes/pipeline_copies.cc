#include "compiler/passes/pipeline_copies.h"

#include <algorithm>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"
#include "compiler/passes/tile_versions.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Instruction;
using ir::MakeInt;
using ir::Stmt;

bool HasOnThreads(const Stmt& s) {
  bool has = false;
  ir::Walk(s, [&](const Stmt& x) {
    has |= x.kind() == ir::StmtKind::kOnThreads;
    return !has;
  });
  return has;
}

// One loop of a launch.
class Pipeline {
 public:
  Pipeline(const ir::Launch& launch, const Stmt& s)
      : launch_(launch), loop_stmt_(s), loop_(*s.As<ir::For>()) {}

  // The loop with its versions, or an undefined statement where nothing can be fetched ahead.
  Stmt Run(TileVersions* tiles) {
    stages_ = loop_.num_stages.defined() ? ir::ConstInt(loop_.num_stages).value_or(0) : 0;
    const auto* body = loop_.body.As<ir::Seq>();
    const ir::Axis& axis = loop_.axes[0];  // asked again in every step
    if (stages_ < 2 || body == nullptr || ReadsMemory(axis.min) || ReadsMemory(axis.extent) ||
        ir::HasJump(loop_.body)) {
      return {};
    }
    for (const Stmt& s : body->stmts) {
      const auto* copy = s.As<ir::Copy>();
      const bool moves = copy != nullptr ? Moves(*copy) : Gathers(s);
      (moves ? fetches_ : rest_).push_back(s);
    }
    Keep();
    if (fetches_.empty() || rest_.empty()) return {};
    for (const Stmt& s : fetches_) {
      versions_[TileOf(s).get()] = VersionsOf(TileOf(s), stages_);
    }
    tiles->insert(versions_.begin(), versions_.end());
    return Build();
  }

 private:
  // The tile that a fetch fills, and the tensor that it reads.
  static ir::Buffer TileOf(const Stmt& s) {
    const auto* copy = s.As<ir::Copy>();
    return copy != nullptr ? copy->dst.buffer : GatherOf(s).As<ir::Store>()->buffer;
  }
  static ir::Buffer TensorOf(const Stmt& s) {
    const auto* copy = s.As<ir::Copy>();
    return copy != nullptr ? copy->src.buffer
                           : GatherOf(s).As<ir::Store>()->value.As<ir::Load>()->buffer;
  }

  // A loop that fills a whole tile, from places that no earlier statement names.
  bool Gathers(const Stmt& s) const {
    const Stmt gather = GatherOf(s);
    if (!gather.defined()) return false;
    const auto* store = gather.As<ir::Store>();
    const auto* load = store->value.As<ir::Load>();
    const auto named = [&](const Stmt& other) {
      const auto* bind = other.As<ir::Bind>();
      if (bind == nullptr) return false;
      bool mentions = load->predicate.defined() && ir::Uses(load->predicate, bind->var);
      for (const Expr& index : load->indices) mentions |= ir::Uses(index, bind->var);
      return mentions;
    };
    return IsFree(store->buffer) && std::none_of(rest_.begin(), rest_.end(), named);
  }

  // Of known shape, laid out by nobody, and not used by what comes before.
  bool IsFree(const ir::Buffer& tile) const {
    const bool known = std::all_of(tile->shape.begin(), tile->shape.end(),
                                   [](const Expr& e) { return ir::ConstInt(e).has_value(); });
    return known && launch_.annotations.count(absl::StrCat("layout:", tile->name)) == 0 &&
           !Uses(rest_, tile);
  }

  // A copy of memory, as it is, into a whole tile, from a place that no earlier statement names.
  bool Moves(const ir::Copy& copy) const {
    const ir::Buffer& tile = copy.dst.buffer;
    const bool from = copy.src.buffer->scope == ir::Scope::kGlobal;
    const auto reads = [](const ir::Range& r) {
      return ReadsMemory(r.min) || ReadsMemory(r.extent);
    };
    return from && tile->scope == ir::Scope::kShared && tile->blocks == 1 &&
           tile->dtype == copy.src.buffer->dtype && CoversWhole(copy.dst) &&
           std::none_of(copy.src.ranges.begin(), copy.src.ranges.end(), reads) && IsFree(tile) &&
           !PlacedBy(rest_, copy.src);
  }

  // Those whose tiles are theirs alone, in this loop alone, and whose tensors nobody writes.
  void Keep() {
    std::vector<Stmt> outside = {ir::RewriteStmts(launch_.body, [&](const Stmt& s) -> Stmt {
      return s.same_as(loop_stmt_) ? ir::MakeSeq({}, s->loc) : Stmt();
    })};
    std::vector<Stmt> kept, others;
    for (const Stmt& s : fetches_) {
      const ir::Buffer tile = TileOf(s);
      const auto same = [&](const Stmt& other) { return TileOf(other) == tile; };
      const bool only = std::count_if(fetches_.begin(), fetches_.end(), same) == 1;
      const bool ahead = only && !Uses(outside, tile) && !Writes(rest_, tile) &&
                         !Writes({launch_.body}, TensorOf(s));
      (ahead ? kept : others).push_back(s);
    }
    if (!others.empty()) {  // in their order among the others
      rest_.clear();
      for (const Stmt& s : loop_.body.As<ir::Seq>()->stmts) {
        const bool is_kept =
            std::any_of(kept.begin(), kept.end(), [&](const Stmt& k) { return k.same_as(s); });
        if (!is_kept) rest_.push_back(s);
      }
    }
    fetches_ = std::move(kept);
  }

  // The copies of one step, if there is such a step.
  Stmt Fetch(const Expr& step) const {
    const ir::Axis& axis = loop_.axes[0];
    const Expr ahead = ir::MakeCast(axis.var.dtype(), step);
    std::vector<Stmt> copies;
    for (const Stmt& s : fetches_) {
      const auto* copy = s.As<ir::Copy>();
      if (copy == nullptr) {
        copies.push_back(Gather(s, step, axis.min + ahead));
        continue;
      }
      ir::Region tile{versions_.at(copy->dst.buffer.get()),
                      {{FloorMod(step, MakeInt(stages_)), MakeInt(1)}}};
      for (const ir::Range& r : copy->dst.ranges) tile.ranges.push_back(r);
      std::map<std::string, std::string> notes = copy->annotations;
      notes["async"] = "1";
      ir::Region source = copy->src;
      for (ir::Range& r : source.ranges) {
        r.min = ir::Substitute(r.min, {{axis.var.get(), axis.min + ahead}});
      }
      copies.push_back(ir::MakeStmt<ir::Copy>(s->loc, source, tile, notes));
    }
    const Expr exists = ahead < axis.extent;
    const Stmt all = ir::MakeSeq(std::move(copies), loop_.loc);
    return ir::IsConst(exists, 1) ? all : ir::MakeStmt<ir::If>(loop_.loc, exists, all);
  }

  // The loop of one step, over variables of its own.
  Stmt Gather(const Stmt& s, const Expr& step, const Expr& at) const {
    const auto* loop = s.As<ir::For>();
    const Stmt gather = GatherOf(s);
    const auto* store = gather.As<ir::Store>();
    std::vector<Expr> indices = {FloorMod(step, MakeInt(stages_))};
    indices.insert(indices.end(), store->indices.begin(), store->indices.end());
    const Stmt async =
        ir::MakeStmt<ir::Store>(store->loc, versions_.at(store->buffer.get()), std::move(indices),
                                ir::Substitute(store->value, {{loop_.axes[0].var.get(), at}}),
                                Expr(), ir::StoreWay::kAsync);
    return ir::FreshCopy(
        ir::MakeStmt<ir::For>(s->loc, loop->loop, loop->axes, async, Expr(), loop->annotations));
  }

  Stmt Build() const {
    const SourceLoc loc = loop_.loc;
    const ir::Axis& axis = loop_.axes[0];
    std::vector<Stmt> stmts;
    for (int64_t s = 0; s + 1 < stages_; ++s) {
      stmts.push_back(Fetch(MakeInt(s)));
      stmts.push_back(ir::MakeInstruct(loc, Instruction::kAsyncCommit));
    }
    const Expr step = axis.var - axis.min;
    std::vector<ir::Region> tiles;
    for (const Stmt& s : fetches_) {
      tiles.push_back(ir::WholeBuffer(versions_.at(TileOf(s).get())));
    }
    std::vector<Stmt> body = {
        ir::MakeInstruct(loc, Instruction::kAsyncWait, std::move(tiles), {MakeInt(stages_ - 2)})};
    body.push_back(Fetch(step + MakeInt(stages_ - 1)));
    body.push_back(ir::MakeInstruct(loc, Instruction::kAsyncCommit));
    body.push_back(ReadVersion(ir::MakeStmt<ir::Seq>(loc, rest_), versions_,
                               FloorMod(step, MakeInt(stages_))));
    stmts.push_back(ir::MakeStmt<ir::For>(loc, ir::ForKind::kSerial, loop_.axes,
                                          ir::MakeStmt<ir::Seq>(loc, std::move(body))));
    return ir::MakeStmt<ir::Seq>(loc, std::move(stmts));
  }

  const ir::Launch& launch_;
  const Stmt loop_stmt_;
  const ir::For& loop_;
  int64_t stages_ = 0;
  std::vector<Stmt> fetches_, rest_;  // of the body, each in its order
  TileVersions versions_;
};

Stmt PipelineLaunch(const Stmt& s) {
  const auto* launch = s.As<ir::Launch>();
  if (launch == nullptr) return {};
  // Parts of a block wait for each other in ways of their own.
  if (HasOnThreads(launch->body)) return {};
  TileVersions tiles;
  const Stmt body = ir::RewriteStmts(launch->body, [&](const Stmt& inner) -> Stmt {
    const auto* loop = inner.As<ir::For>();
    if (loop == nullptr || loop->loop != ir::ForKind::kPipelined) return {};
    return Pipeline(*launch, inner).Run(&tiles);
  });
  if (tiles.empty()) return {};
  // Tiles may be declared in the loop, but are fetched before it.
  std::vector<Stmt> stmts;
  const Stmt rest = ir::RewriteStmts(body, [&](const Stmt& inner) -> Stmt {
    const auto* alloc = inner.As<ir::Alloc>();
    const auto found = alloc != nullptr ? tiles.find(alloc->buffer.get()) : tiles.end();
    if (found == tiles.end()) return {};
    stmts.push_back(ir::MakeStmt<ir::Alloc>(inner->loc, found->second));
    return ir::MakeSeq({}, inner->loc);
  });
  stmts.push_back(rest);
  return ir::MakeStmt<ir::Launch>(s->loc, launch->grid, launch->threads,
                                  ir::MakeStmt<ir::Seq>(s->loc, std::move(stmts)),
                                  launch->annotations);
}

}  // namespace

absl::StatusOr<ir::Program> PipelineCopies(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, PipelineLaunch);
  return out;
}

}  // namespace kiln::passes
