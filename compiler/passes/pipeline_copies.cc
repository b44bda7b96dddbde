#include "compiler/passes/pipeline_copies.h"

#include <algorithm>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/gather.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/pipelined.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"
#include "compiler/passes/share_memory.h"
#include "compiler/passes/tile_versions.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Instruction;
using ir::MakeInt;
using ir::Stmt;

constexpr int64_t kLeastAsync = 4;  // bytes of a cp.async (PTX ISA 9.7.9.25)

bool HasOnThreads(const Stmt& s) {
  bool has = false;
  ir::Walk(s, [&](const Stmt& x) {
    has |= x.kind() == ir::StmtKind::kOnThreads;
    return !has;
  });
  return has;
}

// Whether an atomic operation of `s` says that what comes after it in the kernel comes after it.
bool Acquires(const Stmt& s) {
  bool acquires = false;
  ir::Walk(s, [&](const Stmt& x) {
    const auto* atomic = x.As<ir::Atomic>();
    acquires |= atomic != nullptr && atomic->way.order != ir::MemoryOrder::kRelaxed &&
                atomic->way.order != ir::MemoryOrder::kRelease;
    return !acquires;
  });
  return acquires;
}

// What `s` writes, or hardware may on its behalf.
std::vector<ir::Buffer> WrittenBy(const Stmt& s) {
  std::vector<ir::Buffer> written = ir::BuffersWritten(s);
  ir::Walk(s, [&](const Stmt& x) {
    if (const auto* op = x.As<ir::Instruct>()) {
      for (const ir::Region& r : op->regions) written.push_back(r.buffer);
    }
    return true;
  });
  return written;
}

// Whether memory is read in `e` at a place that the variable says.
bool LooksUpBy(const Expr& e, const Expr& var) {
  bool found = false;
  ir::Walk(e, [&](const Expr& x) {
    found |= x.As<ir::Load>() != nullptr && ir::Uses(x, var);
    return !found;
  });
  return found;
}

// Which fetches a loop makes ahead: those of each step, at places that are computed from it, or
// those that memory decides, too.
enum class Ahead : uint8_t { kComputed, kLookedUp };

// One loop of a launch.
class Pipeline {
 public:
  Pipeline(const ir::Launch& launch, const Stmt& s, Ahead ahead)
      : launch_(launch),
        loop_(*s.As<ir::For>()),
        ahead_(ahead),
        written_(WrittenBy(loop_.body)),
        written_by_launch_(WrittenBy(launch.body)) {}

  // The loop with its versions, or an undefined statement where nothing can be fetched ahead.
  Stmt Run(TileVersions* tiles) {
    stages_ = loop_.num_stages.defined() ? ir::ConstInt(loop_.num_stages).value_or(0) : 0;
    const ir::Axis& axis = loop_.axes[0];  // asked again in every step
    if (stages_ < 2 || !IsSame(axis.min) || !IsSame(axis.extent) || ir::HasJump(loop_.body) ||
        Acquires(loop_.body)) {
      return {};
    }
    std::vector<Stmt> before;
    Find(loop_.body, &before);
    Keep();
    if (fetches_.empty() || rest_.empty()) return {};
    for (const Fetch& f : fetches_)
      versions_[TileOf(f.at).get()] = VersionsOf(TileOf(f.at), stages_);
    tiles->insert(versions_.begin(), versions_.end());
    return Build();
  }

 private:
  // A statement that fills a tile, and the row that it stands in: the body, or a branch of it.
  struct Fetch {
    Stmt at, row;
  };

  // The tile that a fetch fills, and the tensor that it reads.
  static ir::Buffer TileOf(const Stmt& s) {
    const auto* copy = s.As<ir::Copy>();
    return copy != nullptr ? copy->dst.buffer : ir::GatherOf(s).As<ir::Store>()->buffer;
  }
  static ir::Buffer TensorOf(const Stmt& s) {
    const auto* copy = s.As<ir::Copy>();
    return copy != nullptr ? copy->src.buffer
                           : ir::GatherOf(s).As<ir::Store>()->value.As<ir::Load>()->buffer;
  }

  // Whether `e` has the value now that it will have at that step, but for the step itself: it reads
  // nothing that the loop writes, nor a tensor that the launch does, by itself or by a name.
  bool IsSame(const Expr& e) const {
    bool same = true;
    ir::Walk(e, [&](const Expr& x) {
      if (const auto* load = x.As<ir::Load>()) {
        same &= ahead_ == Ahead::kLookedUp;
        const bool global = load->buffer->scope == ir::Scope::kGlobal;
        const std::vector<ir::Buffer>& written = global ? written_by_launch_ : written_;
        same &= std::find(written.begin(), written.end(), load->buffer) == written.end();
      }
      same &= moving_.count(x.get()) == 0;
      return same;
    });
    return same;
  }

  // The fetches of a row and of its branches that all steps to come can be asked for; `before`:
  // what runs before, apart from them.
  void Find(const Stmt& row, std::vector<Stmt>* before) {
    for (const Stmt& s : ir::RowOf(row)) {
      const auto* copy = s.As<ir::Copy>();
      if (copy != nullptr ? Moves(*copy, *before) : Gathers(s, *before)) {
        fetches_.push_back({s, row});
        continue;
      }
      const auto* branch = s.As<ir::If>();
      if (branch != nullptr && ahead_ == Ahead::kLookedUp && IsSame(branch->condition)) {
        Find(branch->then_case, before);
        if (branch->else_case.defined()) Find(branch->else_case, before);
        continue;
      }
      const auto* bind = s.As<ir::Bind>();
      if (bind != nullptr && (ahead_ == Ahead::kComputed || !IsSame(bind->value))) {
        moving_.insert(bind->var.get());
      }
      before->push_back(s);
    }
  }

  // A loop that fills a whole tile, from places that are known ahead.
  bool Gathers(const Stmt& s, const std::vector<Stmt>& before) const {
    const Stmt gather = ir::GatherOf(s);
    if (!gather.defined()) return false;
    const auto* store = gather.As<ir::Store>();
    const auto* load = store->value.As<ir::Load>();
    std::vector<Expr> asked = load->indices;
    if (load->predicate.defined()) asked.push_back(load->predicate);
    const Expr& along = s.As<ir::For>()->axes.back().var;
    const bool alone = store->buffer->dtype.bytes() < kLeastAsync;
    const auto is_known = [&](const Expr& e) {
      // Elements that are looked up one by one are copied one by one.
      return IsSame(e) && !(alone && LooksUpBy(e, along));
    };
    return std::all_of(asked.begin(), asked.end(), is_known) && IsFree(store->buffer, before);
  }

  // A copy of memory, as it is, into a whole tile, from a place that is known ahead.
  bool Moves(const ir::Copy& copy, const std::vector<Stmt>& before) const {
    const ir::Buffer& tile = copy.dst.buffer;
    const bool from = copy.src.buffer->scope == ir::Scope::kGlobal;
    return from && tile->scope == ir::Scope::kShared && tile->dtype == copy.src.buffer->dtype &&
           CoversWhole(copy.dst) &&
           std::all_of(
               copy.src.ranges.begin(), copy.src.ranges.end(),
               [&](const ir::Range& r) { return IsSame(r.min) && !ReadsMemory(r.extent); }) &&
           IsFree(tile, before);
  }

  // The block's own, of known shape, laid out by nobody, and not used by what comes before.
  bool IsFree(const ir::Buffer& tile, const std::vector<Stmt>& before) const {
    const bool known = std::all_of(tile->shape.begin(), tile->shape.end(),
                                   [](const Expr& e) { return ir::ConstInt(e).has_value(); });
    return known && tile->blocks == 1 &&
           launch_.annotations.count(absl::StrCat("layout:", tile->name)) == 0 &&
           !Uses(before, tile);
  }

  // Those whose tiles are theirs alone, in their row alone, and whose tensors nobody writes.
  void Keep() {
    const Stmt body = WithoutFetches(loop_.body);
    std::vector<Fetch> kept;
    for (const Fetch& f : fetches_) {
      const ir::Buffer tile = TileOf(f.at), tensor = TensorOf(f.at);
      const auto same = [&](const Fetch& other) { return TileOf(other.at) == tile; };
      const Stmt outside =
          ir::WithoutStmts(launch_.body, [&](const Stmt& s) { return s.same_as(f.row); });
      const bool only = std::count_if(fetches_.begin(), fetches_.end(), same) == 1;
      const bool written = std::find(written_by_launch_.begin(), written_by_launch_.end(),
                                     tensor) != written_by_launch_.end();
      if (only && !written && !Uses({outside}, tile) && !Writes({body}, tile)) kept.push_back(f);
    }
    fetches_ = std::move(kept);
    rest_ = ir::RowOf(WithoutFetches(loop_.body));
  }

  bool IsFetch(const Stmt& s) const {
    return std::any_of(fetches_.begin(), fetches_.end(),
                       [&](const Fetch& f) { return f.at.same_as(s); });
  }

  Stmt WithoutFetches(const Stmt& body) const {
    return ir::WithoutStmts(body, [&](const Stmt& s) { return IsFetch(s); });
  }

  // What of `s` fetches the tiles of a step, whose loop variable is `at`: the fetches, under their
  // conditions, and the names that they use. Undefined where that is nothing.
  Stmt Fetches(const Stmt& s, const Expr& step, const Expr& at) const {
    const auto then = [&](const Expr& e) {
      return ir::Substitute(e, {{loop_.axes[0].var.get(), at}});
    };
    if (IsFetch(s))
      return s.kind() == ir::StmtKind::kCopy ? Copy(s, step, then) : Gather(s, step, then);
    if (const auto* branch = s.As<ir::If>()) {
      const Stmt yes = Fetches(branch->then_case, step, at);
      const Stmt no = branch->else_case.defined() ? Fetches(branch->else_case, step, at) : Stmt();
      if (!yes.defined() && !no.defined()) return {};
      return ir::MakeStmt<ir::If>(s->loc, then(branch->condition),
                                  yes.defined() ? yes : ir::MakeSeq({}, s->loc), no);
    }
    const auto* row = s.As<ir::Seq>();
    if (row == nullptr) return {};
    std::vector<Stmt> kept;  // the last first: a name is kept for what comes after it
    for (size_t i = row->stmts.size(); i-- > 0;) {
      const Stmt& x = row->stmts[i];
      if (const auto* bind = x.As<ir::Bind>()) {
        const auto uses = [&](const Stmt& later) { return ir::Uses(later, bind->var); };
        if (std::none_of(kept.begin(), kept.end(), uses)) continue;
        kept.push_back(ir::MakeStmt<ir::Bind>(x->loc, bind->var, then(bind->value)));
      } else if (const Stmt part = Fetches(x, step, at); part.defined()) {
        kept.push_back(part);
      }
    }
    if (kept.empty()) return {};
    std::reverse(kept.begin(), kept.end());
    return ir::MakeSeq(std::move(kept), s->loc);
  }

  // The tiles of one step, if there is such a step.
  Stmt FetchStep(const Expr& step) const {
    const ir::Axis& axis = loop_.axes[0];
    const Expr ahead = ir::MakeCast(axis.var.dtype(), step);
    const Stmt all = ir::FreshCopy(Fetches(loop_.body, step, axis.min + ahead));
    const Expr exists = ahead < axis.extent;
    return ir::IsConst(exists, 1) ? all : ir::MakeStmt<ir::If>(loop_.loc, exists, all);
  }

  // The copy to a step's version. A place that is looked up is looked up once, not by each element.
  template <typename Then>
  Stmt Copy(const Stmt& s, const Expr& step, const Then& then) const {
    const auto* copy = s.As<ir::Copy>();
    ir::Region tile{versions_.at(copy->dst.buffer.get()),
                    {{FloorMod(step, MakeInt(stages_)), MakeInt(1)}}};
    for (const ir::Range& r : copy->dst.ranges) tile.ranges.push_back(r);
    std::map<std::string, std::string> notes = copy->annotations;
    notes["async"] = "1";
    std::vector<Stmt> stmts;
    ir::Region source = copy->src;
    for (ir::Range& r : source.ranges) {
      r.min = then(r.min);
      if (!ReadsMemory(r.min)) continue;
      const Expr place = ir::MakeVar("place", r.min.dtype());
      stmts.push_back(ir::MakeStmt<ir::Bind>(s->loc, place, r.min));
      r.min = place;
    }
    stmts.push_back(ir::MakeStmt<ir::Copy>(s->loc, source, tile, notes));
    return ir::MakeSeq(std::move(stmts), s->loc);
  }

  template <typename Then>
  Stmt Gather(const Stmt& s, const Expr& step, const Then& then) const {
    const auto* loop = s.As<ir::For>();
    const Stmt gather = ir::GatherOf(s);
    const auto* store = gather.As<ir::Store>();
    std::vector<Expr> indices = {FloorMod(step, MakeInt(stages_))};
    indices.insert(indices.end(), store->indices.begin(), store->indices.end());
    const Stmt async =
        ir::MakeStmt<ir::Store>(store->loc, versions_.at(store->buffer.get()), std::move(indices),
                                then(store->value), Expr(), ir::StoreWay::kAsync);
    return ir::MakeStmt<ir::For>(s->loc, loop->loop, loop->axes, async, Expr(), loop->annotations);
  }

  Stmt Build() const {
    const SourceLoc loc = loop_.loc;
    const ir::Axis& axis = loop_.axes[0];
    std::vector<Stmt> stmts;
    for (int64_t s = 0; s + 1 < stages_; ++s) {
      stmts.push_back(FetchStep(MakeInt(s)));
      stmts.push_back(ir::MakeInstruct(loc, Instruction::kAsyncCommit));
    }
    const Expr step = axis.var - axis.min;
    std::vector<ir::Region> tiles;
    for (const Fetch& f : fetches_) {
      tiles.push_back(ir::WholeBuffer(versions_.at(TileOf(f.at).get())));
    }
    std::vector<Stmt> body = {
        ir::MakeInstruct(loc, Instruction::kAsyncWait, std::move(tiles), {MakeInt(stages_ - 2)})};
    body.push_back(FetchStep(step + MakeInt(stages_ - 1)));
    body.push_back(ir::MakeInstruct(loc, Instruction::kAsyncCommit));
    body.push_back(ReadVersion(ir::MakeStmt<ir::Seq>(loc, rest_), versions_,
                               FloorMod(step, MakeInt(stages_))));
    stmts.push_back(ir::MakeStmt<ir::For>(loc, ir::ForKind::kSerial, loop_.axes,
                                          ir::MakeStmt<ir::Seq>(loc, std::move(body))));
    return ir::MakeStmt<ir::Seq>(loc, std::move(stmts));
  }

  const ir::Launch& launch_;
  const ir::For& loop_;
  const Ahead ahead_;
  const std::vector<ir::Buffer> written_, written_by_launch_;
  int64_t stages_ = 0;
  std::unordered_set<const ir::ExprNode*> moving_;  // names that a step alone can tell
  std::vector<Fetch> fetches_;                      // in their order
  std::vector<Stmt> rest_;                          // of the body, without them
  TileVersions versions_;
};

Stmt PipelineLoops(const Stmt& s, Ahead ahead) {
  const auto* launch = s.As<ir::Launch>();
  TileVersions tiles;
  const Stmt body = ir::RewriteStmts(launch->body, [&](const Stmt& inner) -> Stmt {
    const auto* loop = inner.As<ir::For>();
    if (loop == nullptr || loop->loop != ir::ForKind::kPipelined) return {};
    return Pipeline(*launch, inner, ahead).Run(&tiles);
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

// Tiles that memory decides on have versions where all of them fit: a mask may choose between two.
Stmt PipelineLaunch(const Stmt& s, const target::Arch* gpu) {
  const auto* launch = s.As<ir::Launch>();
  if (launch == nullptr) return {};
  // Parts of a block wait for each other in ways of their own.
  if (HasOnThreads(launch->body)) return {};
  const Stmt all = PipelineLoops(s, Ahead::kLookedUp);
  if (!all.defined() || gpu == nullptr) return all;
  const int64_t bytes = SharedBytesOf(*all.As<ir::Launch>()).value_or(0);
  return bytes <= gpu->smem_block ? all : PipelineLoops(s, Ahead::kComputed);
}

}  // namespace

absl::StatusOr<ir::Program> PipelineCopies(const ir::Program& program, const PassContext& context) {
  ir::Program out = program;
  out.body =
      ir::RewriteStmts(program.body, [&](const Stmt& s) { return PipelineLaunch(s, context.gpu); });
  return out;
}

}  // namespace kiln::passes
