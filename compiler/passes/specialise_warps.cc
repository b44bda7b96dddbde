#include "compiler/passes/specialise_warps.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/cache_hint.h"
#include "compiler/ir/fixed.h"
#include "compiler/ir/gather.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/pipelined.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "compiler/layout/swizzle.h"
#include "compiler/passes/build.h"
#include "compiler/passes/patch_box.h"
#include "compiler/passes/product_results.h"
#include "compiler/passes/shared_tiles.h"
#include "compiler/passes/stage_operands.h"
#include "compiler/passes/tensor_box.h"
#include "compiler/passes/tile_schedule.h"
#include "compiler/passes/tile_versions.h"
#include "compiler/target/warps.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Instruction;
using ir::MakeInt;
using ir::Stmt;
using target::kWarpgroup;

constexpr int64_t kWarp = 32;
constexpr int64_t kTeams = 2;
constexpr int64_t kTileAlign = 1024;

// What is asked of setmaxnreg for a block of so many threads beside the producer: together no more
// than an SM's 65536 registers, each a multiple of 8.
struct RegisterShare {
  int64_t threads, producer, consumer;
};
constexpr RegisterShare kShares[] = {{256, 40, 232}, {384, 32, 160}};

// What TMA fetches into the whole of a tile: a box of a tensor, or the pixels under a tap.
struct Fetch {
  SourceLoc loc;
  ir::Buffer tile;
  ir::Region source;
  std::vector<Expr> offsets;  // of the tap
  std::map<std::string, std::string> notes;

  Instruction op() const {
    return offsets.empty() ? Instruction::kTensorLoad : Instruction::kPatchLoad;
  }
  ir::Region Place() const {
    ir::Region place = source;
    for (const Expr& offset : offsets) place.ranges.push_back({offset, MakeInt(1)});
    return place;
  }
};

// Whether TMA can fetch the source into the whole of a tile, which lies in panels or row by row.
bool Fetches(const ir::Copy& copy, bool panels) {
  const ir::Buffer& tensor = copy.src.buffer;
  const ir::Buffer& tile = copy.dst.buffer;
  if (tile->scope != ir::Scope::kShared || tile->shape.size() != 2) return false;
  if (tensor->dtype != tile->dtype) return false;
  for (size_t d = 0; d < 2; ++d) {
    if (!ir::IsConst(copy.dst.ranges[d].min, 0) ||
        !ir::Same(copy.dst.ranges[d].extent, tile->shape[d])) {
      return false;
    }
  }
  return WhyNoTensorBox(copy.src, tile->shape[0], tile->shape[1], panels).empty();
}

class Specialise {
 public:
  Specialise(const ir::Program& program, const ir::Launch& launch, const target::Arch& arch)
      : program_(program), launch_(launch), arch_(arch) {}

  std::optional<Stmt> Run() {
    if (!FindLoop() || !FindFetches()) return std::nullopt;
    const target::WarpPlan plan = target::PlanWarps(arch_, Query());
    if (!plan.specialised) return std::nullopt;
    cluster_ = plan.cluster;
    MakeVersions();
    schedule_.emplace(launch_, plan.persistent ? arch_.cores : 0, cluster_);
    if (plan.teams > 1) TakeTurns();
    StageStores();
    const SourceLoc loc = launch_.loc;
    std::vector<Stmt> consumers;
    for (int64_t team = 0; team < teams_; ++team) {
      consumers.push_back(
          ir::MakeStmt<ir::OnThreads>(loc, team * threads_, threads_, Consumer(team)));
    }
    std::vector<Stmt> stmts = allocations_;
    for (const Group& group : groups_) {
      stmts.push_back(ir::MakeInstruct(loc, Instruction::kBarrierInit,
                                       {ir::WholeBuffer(group.full)}, {MakeInt(1)}));
      stmts.push_back(ir::MakeInstruct(loc, Instruction::kBarrierInit,
                                       {ir::WholeBuffer(group.empty)},
                                       {MakeInt(threads_ / kWarp * cluster_)}));
    }
    if (teams_ > 1) {
      stmts.push_back(ir::MakeInstruct(loc, Instruction::kBarrierInit, {ir::WholeBuffer(order_)},
                                       {MakeInt(threads_ / kWarp)}));
    }
    stmts.push_back(ir::MakeInstruct(
        loc, cluster_ > 1 ? Instruction::kClusterBarrier : Instruction::kBlockBarrier));
    const int64_t working = threads_ * teams_;
    const Stmt producer = ir::MakeStmt<ir::OnThreads>(loc, working, kWarpgroup, Producer());
    stmts.insert(stmts.end(), consumers.begin(), consumers.end());
    // What stands in registers for a later part takes some of an earlier one's.
    const bool last = LoadsSums();
    stmts.insert(last ? stmts.end() : stmts.end() - teams_, producer);
    // Others may still write to this block's memory, or arrive there.
    if (cluster_ > 1) stmts.push_back(ir::MakeInstruct(loc, Instruction::kClusterBarrier));
    std::map<std::string, std::string> notes = launch_.annotations;
    notes.erase(kSwizzlePanel);
    notes.erase(kSwizzleOrder);
    if (cluster_ > 1) notes["cluster"] = absl::StrCat(cluster_);
    if (schedule_->once()) notes[ir::kLoadsAwaited] = "1";
    if (staged_) notes.insert(staged_->layouts.begin(), staged_->layouts.end());
    return ir::MakeStmt<ir::Launch>(loc, schedule_->grid(),
                                    std::vector<Expr>{MakeInt(working + kWarpgroup)},
                                    ir::MakeStmt<ir::Seq>(loc, std::move(stmts)), std::move(notes));
  }

 private:
  // A statement of a row, what stands before it and after it, and the names before it.
  struct Around {
    Stmt at;
    std::vector<Stmt> before, after, binds;
  };

  // Tiles under one pair of barriers, and the statements of a step that use them.
  struct Group {
    std::vector<const Fetch*> fetches;
    size_t first, last;
    ir::Buffer full, empty;
  };

  bool FindLoop() {
    const std::vector<ir::Row> path = ir::PathToPipelined(launch_);
    for (const ir::Row& row : path) {
      loop_ = row.at.As<ir::For>();
      const bool known =
          loop_ != nullptr ? AreKnown(*loop_) : IsFixed(row.at.As<ir::If>()->condition);
      if (!known) return false;
      around_.push_back({row.at, {}, {}, {}});
      if (!ReadRow(row, &around_.back())) return false;
    }
    return !path.empty() && loop_->num_stages.defined() &&
           ir::ConstInt(loop_->num_stages).value_or(0) > 0;
  }

  // What stands before the statement and after it, memory apart. False where parts cannot share it
  // out.
  bool ReadRow(const ir::Row& row, Around* around) {
    std::vector<Stmt>* to = &around->before;
    for (const Stmt& s : row.stmts) {
      if (s.same_as(row.at)) {
        to = &around->after;
      } else if (const auto* alloc = s.As<ir::Alloc>()) {
        Allocate(*alloc, to);
      } else {
        to->push_back(s);
      }
      const auto* bind = s.As<ir::Bind>();
      if (bind != nullptr && to == &around->before) around->binds.push_back(s);
      bool fits = bind == nullptr || IsFixed(bind->value);  // both parts bind it
      ir::Walk(s, [&](const Stmt& x) {
        fits &= x.kind() != ir::StmtKind::kOnThreads && x.kind() != ir::StmtKind::kAssert;
        return fits;
      });
      if (!fits) return false;
    }
    return true;
  }

  // Memory is the block's, what it starts with each tile's.
  void Allocate(const ir::Alloc& alloc, std::vector<Stmt>* starts) {
    allocations_.push_back(ir::MakeStmt<ir::Alloc>(alloc.loc, alloc.buffer));
    if (!alloc.init.defined()) return;
    const std::vector<Expr> first(alloc.buffer->shape.size(), MakeInt(0));
    starts->push_back(ir::MakeStmt<ir::Store>(alloc.loc, alloc.buffer, first, alloc.init));
  }

  bool IsFixed(const Expr& e) const { return !ir::ReadsWhatChanges(e, program_); }

  // Both parts must take the same turns of it, and know how many before the first.
  bool AreKnown(const ir::For& loop) const {
    return IsFixed(loop.axes[0].min) && IsFixed(loop.axes[0].extent) && !ir::HasJump(loop.body);
  }

  bool FindFetches() {
    const auto* body = loop_->body.As<ir::Seq>();
    if (body == nullptr) return false;
    for (const Stmt& s : body->stmts) {
      const auto* alloc = s.As<ir::Alloc>();
      if (alloc != nullptr && alloc->buffer->scope == ir::Scope::kShared &&
          !alloc->init.defined()) {
        Allocate(*alloc, nullptr);
        continue;
      }
      const std::optional<Fetch> fetch = FetchOf(s);
      // Earlier statements of the body must neither say where the box is, but for names of what
      // both parts know, nor look at the last tile.
      if (fetch && !IsAnnotated(fetch->tile) && !Uses(rest_, fetch->tile) &&
          !PlacedBy(rest_, fetch->Place()) && target::IsFetched(TileOf(*fetch))) {
        fetches_.push_back(*fetch);
        continue;
      }
      // Tiles that threads gather are fetched ahead by pipeline-copies, if it can tell from where.
      const Stmt gather = ir::GatherOf(s);
      if (gather.defined() && ir::Multiplies(loop_->body, gather.As<ir::Store>()->buffer) &&
          (!ir::LooksUp(gather) || IsFixed(gather.As<ir::Store>()->value))) {
        return false;
      }
      rest_.push_back(s);
      const auto* bind = s.As<ir::Bind>();
      if (bind == nullptr) continue;
      const Expr value = ir::Substitute(bind->value, names_);
      if (!ir::IsLarge(value) && IsFixed(value)) names_[bind->var.get()] = value;
    }
    if (fetches_.empty() || rest_.empty()) return false;
    std::unordered_set<const ir::BufferNode*> tiles;
    for (const Fetch& fetch : fetches_) {
      if (!tiles.insert(fetch.tile.get()).second) return false;
    }
    const std::vector<Stmt> around = Others();
    return std::all_of(fetches_.begin(), fetches_.end(), [&](const Fetch& fetch) {
      const ir::Buffer &tile = fetch.tile, &tensor = fetch.source.buffer;
      return !Writes(rest_, tile) && !Uses(around, tile) && !Writes(rest_, tensor) &&
             !Writes(around, tensor);
    });
  }

  // What the kernel's threads do beside the loop.
  std::vector<Stmt> Others() const {
    std::vector<Stmt> all;
    for (const Around& level : around_) {
      all.insert(all.end(), level.before.begin(), level.before.end());
      all.insert(all.end(), level.after.begin(), level.after.end());
    }
    return all;
  }

  // Whether the loop stands in others, or under conditions: it is done in pieces.
  bool InPieces() const { return around_.size() > 1; }

  std::optional<Fetch> FetchOf(const Stmt& s) const {
    if (const auto* copy = s.As<ir::Copy>()) {
      if (!Fetches(*copy, InPanels(copy->dst.buffer))) return std::nullopt;
      Fetch fetch{s->loc, copy->dst.buffer, copy->src, {}, HintOf(*copy)};
      for (ir::Range& r : fetch.source.ranges) r.min = ir::Substitute(r.min, names_);
      return fetch;
    }
    const Stmt gather = ir::GatherOf(s);
    if (!gather.defined()) return std::nullopt;
    ir::Facts facts;
    for (const ir::Axis& axis : launch_.grid) facts.AddAxis(axis);
    for (const Around& level : around_) {
      const auto* loop = level.at.As<ir::For>();
      if (loop != nullptr) facts.AddAxis(loop->axes[0]);
    }
    std::optional<PatchBox> box = PatchBoxOf(s, facts);
    if (!box) return std::nullopt;
    return Fetch{s->loc, gather.As<ir::Store>()->buffer, std::move(box->source),
                 std::move(box->offsets), std::move(box->notes)};
  }

  // Asked where it makes a difference.
  bool InPanels(const ir::Buffer& tile) const {
    return tile->shape.size() == 2 && ir::ConstInt(tile->shape[1]).value_or(0) > target::kMostBox &&
           LiesInPanels(program_, launch_, tile, arch_);
  }

  // A fetch as the decision sees it.
  target::TileFetch TileOf(const Fetch& fetch) const {
    target::TileFetch tile =
        AsFetch(fetch.tile, ir::Multiplies(loop_->body, fetch.tile), InPanels(fetch.tile));
    tile.patch = fetch.op() != Instruction::kTensorLoad;
    tile.same_across = launch_.grid.size() > 1 && IsSameAcross(fetch);
    return tile;
  }

  bool IsAnnotated(const ir::Buffer& tile) const {
    return launch_.annotations.count(absl::StrCat("layout:", tile->name)) > 0;
  }

  target::WarpQuery Query() {
    target::WarpQuery q;
    threads_ = q.threads = ir::ThreadsOf(launch_).value_or(0);
    q.stages = *ir::ConstInt(loop_->num_stages);
    q.sums = WidestResult(launch_);
    q.tensor_sums = HoldsSums(launch_);
    q.steps_differ = StepsDiffer();
    for (const Fetch& fetch : fetches_) q.fetches.push_back(TileOf(fetch));
    q.other_bytes = OtherBytes();
    q.blocks = 1;
    for (const ir::Axis& axis : launch_.grid) q.blocks *= ir::ConstInt(axis.extent).value_or(0);
    q.grid_axes = static_cast<int64_t>(launch_.grid.size());
    if (q.grid_axes > 1) q.across = ir::ConstInt(launch_.grid[1].extent).value_or(1);
    q.cluster = ir::PassOption(program_, "kiln.cluster", q.cluster);
    q.persistent = ir::PassOption(program_, "kiln.persistent", 1) != 0;
    q.pingpong = ir::PassOption(program_, "kiln.pingpong", 0) != 0;
    q.shares_fetches_alone = q.pingpong && SharesFetchesAlone();
    return q;
  }

  // Of shared memory, beside what is fetched.
  int64_t OtherBytes() const {
    int64_t bytes = 0;
    for (const Stmt& s : rest_) bytes += StagedOperandBytes(program_, s, {0, threads_}, arch_);
    for (const Stmt& s : allocations_) {
      const ir::Buffer& b = s.As<ir::Alloc>()->buffer;
      const bool fetched = std::any_of(fetches_.begin(), fetches_.end(),
                                       [&](const Fetch& f) { return f.tile == b; });
      if (b->scope != ir::Scope::kShared || fetched) continue;
      bytes += (ir::BytesOf(b).value_or(0) + target::kTileBytes - 1) / target::kTileBytes *
               target::kTileBytes;
    }
    return bytes;
  }

  // Whether the loop's threads work on sums from tensor memory.
  bool LoadsSums() const {
    bool loads = false;
    for (const Stmt& s : rest_) {
      const auto* copy = s.As<ir::Copy>();
      loads |= copy != nullptr && copy->src.buffer->scope == ir::Scope::kTensor;
    }
    return loads;
  }

  // Whether blocks may take different steps.
  bool StepsDiffer() const {
    if (InPieces()) return true;
    const std::vector<Stmt>& binds = around_.back().binds;
    const ir::Axis& axis = loop_->axes[0];
    const auto mentions = [&](const Expr& var) {
      return ir::Uses(axis.min, var) || ir::Uses(axis.extent, var);
    };
    return std::any_of(launch_.grid.begin(), launch_.grid.end(),
                       [&](const ir::Axis& block) { return mentions(block.var); }) ||
           std::any_of(binds.begin(), binds.end(),
                       [&](const Stmt& s) { return mentions(s.As<ir::Bind>()->var); });
  }

  // What two warpgroups on tiles of their own may share is memory that TMA fills.
  bool SharesFetchesAlone() const {
    return std::all_of(allocations_.begin(), allocations_.end(),
                       [&](const Stmt& s) {
                         const ir::Buffer& b = s.As<ir::Alloc>()->buffer;
                         if (b->scope != ir::Scope::kShared) return !IsAnnotated(b);
                         return std::any_of(fetches_.begin(), fetches_.end(),
                                            [&](const Fetch& f) { return f.tile == b; });
                       }) &&
           std::none_of(rest_.begin(), rest_.end(), [&](const Stmt& s) {
             return StagedOperandBytes(program_, s, {0, threads_}, arch_) > 0;
           });
  }

  void TakeTurns() {
    teams_ = kTeams;
    order_ = ir::MakeBuffer("order", kInt64, {MakeInt(kTeams)}, ir::Scope::kBarrier);
    allocations_.push_back(ir::MakeStmt<ir::Alloc>(launch_.loc, order_));
  }

  // Steps follow each other from team to team: one that waited for a phase while another still owes
  // a wait for the phase before would take that one for its own.
  Stmt InOrder(int64_t team, const Expr& turn, const Stmt& loop) const {
    if (teams_ == 1) return loop;
    const Expr parity = ir::MakeCast(
        kInt32, FloorMod(FloorDiv(turn, MakeInt(kTeams)) + MakeInt(team == 0 ? 1 : 0), MakeInt(2)));
    const SourceLoc loc = loop_->loc;
    const Expr next = MakeInt((team + 1) % kTeams);
    return ir::MakeSeq(
        {ir::MakeInstruct(loc, Instruction::kBarrierWait, {One(order_, MakeInt(team))}, {parity}),
         loop, ir::MakeInstruct(loc, Instruction::kBarrierArrive, {One(order_, next)})},
        loc);
  }

  // The same for neighbours along the grid's second axis, as the blocks of a cluster are.
  bool IsSameAcross(const Fetch& fetch) const {
    const Expr& across = launch_.grid[1].var;
    for (const Stmt& bind : around_.back().binds) {
      for (const ir::Range& r : fetch.source.ranges) {
        if (ir::Uses(r.min, bind.As<ir::Bind>()->var)) return false;
      }
    }
    return std::none_of(fetch.source.ranges.begin(), fetch.source.ranges.end(),
                        [&](const ir::Range& r) { return ir::Uses(r.min, across); });
  }

  void MakeVersions() {
    stages_ = *ir::ConstInt(loop_->num_stages);
    GroupFetches();
    for (const Fetch& fetch : fetches_) {
      versions_[fetch.tile.get()] = VersionsOf(fetch.tile, stages_);
    }
    for (Stmt& s : allocations_) {
      const auto found = versions_.find(s.As<ir::Alloc>()->buffer.get());
      if (found != versions_.end()) s = ir::MakeStmt<ir::Alloc>(s->loc, found->second);
    }
    for (const Group& group : groups_) {
      allocations_.push_back(ir::MakeStmt<ir::Alloc>(launch_.loc, group.full));
      allocations_.push_back(ir::MakeStmt<ir::Alloc>(launch_.loc, group.empty));
    }
  }

  // Tiles that the same statements of a step use come and go together.
  void GroupFetches() {
    for (const Fetch& fetch : fetches_) {
      size_t first = 0, last = rest_.size() - 1;
      const auto uses = [&](size_t i) { return Uses({rest_[i]}, fetch.tile); };
      while (first < last && !uses(first)) ++first;
      while (last > first && !uses(last)) --last;
      const auto same = [&](const Group& g) { return g.first == first && g.last == last; };
      auto group = std::find_if(groups_.begin(), groups_.end(), same);
      if (group == groups_.end()) {
        const auto barriers = [&](const char* name) {
          return ir::MakeBuffer(absl::StrCat(name, groups_.empty() ? "" : fetch.tile->name), kInt64,
                                {MakeInt(stages_)}, ir::Scope::kBarrier);
        };
        group =
            groups_.insert(groups_.end(), {{}, first, last, barriers("full"), barriers("empty")});
      }
      group->fetches.push_back(&fetch);
    }
  }

  // The one copy of results to a tensor goes by way of shared memory, if what is left of it does.
  void StageStores() {
    int64_t left = arch_.smem_block;
    for (const Stmt& s : allocations_) left -= BytesOf(s.As<ir::Alloc>()->buffer);
    for (const Stmt& s : rest_) left -= StagedOperandBytes(program_, s, {0, threads_}, arch_);
    const ir::Copy* only = OnlyResult();
    if (only == nullptr) return;
    const auto without = [&](std::vector<Stmt> stmts, const Stmt& instead) {
      for (Stmt& s : stmts) {
        s = ir::RewriteStmts(s, [&](const Stmt& x) { return x.get() == only ? instead : Stmt(); });
      }
      return stmts;
    };
    if (Uses(rest_, only->dst.buffer) ||
        Uses(without(Others(), ir::MakeSeq({}, only->loc)), only->dst.buffer)) {
      return;
    }
    // What is stored is a product's result, or lies like one.
    staged_ = StageStore(*only, std::max(left / teams_, BytesToReuse()),
                         SpanOfResults(program_, launch_, threads_, arch_));
    if (!staged_) return;
    for (const ir::Buffer& tile : staged_->tiles) {
      allocations_.push_back(ir::MakeStmt<ir::Alloc>(only->loc, tile));
    }
    std::vector<Stmt>& after = around_.back().after;
    after = without(std::move(after), staged_->body);
  }

  // The one copy to a tensor after the loop, whatever it is conditional on; where there are
  // several, the one to a parameter: a workspace may as well be written piece by piece.
  const ir::Copy* OnlyResult() const {
    std::vector<const ir::Copy*> all, outputs;
    for (const Stmt& s : around_.back().after) {
      ir::Walk(s, [&](const Stmt& x) {
        const auto* copy = x.As<ir::Copy>();
        if (copy != nullptr && copy->dst.buffer->scope == ir::Scope::kGlobal) {
          all.push_back(copy);
          const bool output =
              std::any_of(program_.params.begin(), program_.params.end(), [&](const ir::Param& p) {
                return p.kind == ir::Param::kTensor && p.buffer == copy->dst.buffer;
              });
          if (output) outputs.push_back(copy);
        }
        return x.kind() == ir::StmtKind::kSeq || x.kind() == ir::StmtKind::kIf;
      });
    }
    if (all.size() == 1) return all[0];
    return outputs.size() == 1 ? outputs[0] : nullptr;
  }

  // Of what is fetched, which nobody needs when results are stored, unless the next tile's is there
  // already. Products in tensor memory may still read it.
  int64_t BytesToReuse() const {
    if (!schedule_->once() || InPieces() || HoldsSums(launch_)) return 0;
    int64_t bytes = 0;
    for (const auto& [tile, versions] : versions_) bytes += BytesOf(versions);
    return bytes;
  }

  // Of shared memory, with room to align it.
  static int64_t BytesOf(const ir::Buffer& b) {
    if (b->scope != ir::Scope::kShared && b->scope != ir::Scope::kBarrier) return 0;
    int64_t bytes = b->dtype.bytes();
    for (const Expr& extent : b->shape) bytes *= ir::ConstInt(extent).value_or(0);
    return (bytes + kTileAlign - 1) / kTileAlign * kTileAlign;
  }

  // The loop in one of the block's turns, as one of the parts runs it: a variable of its own,
  // body(var, version, parity), where `parity` is that of the version's use.
  template <typename F>
  Stmt Loop(const Expr& turn, F body) {
    const SourceLoc loc = loop_->loc;
    const ir::Axis& axis = loop_->axes[0];
    const Expr var = ir::MakeVar(axis.var.As<ir::Var>()->name, axis.var.dtype());
    const Expr earlier = ir::MakeVar("earlier", axis.extent.dtype());
    const Expr step = (InPieces() ? earlier : turn * axis.extent) + (var - axis.min);
    const Expr version = FloorMod(step, MakeInt(stages_));
    const Expr parity =
        ir::MakeCast(kInt32, FloorMod(FloorDiv(step, MakeInt(stages_)), MakeInt(2)));
    const Stmt loop = ir::MakeStmt<ir::For>(loc, ir::ForKind::kSerial,
                                            std::vector<ir::Axis>{{var, axis.min, axis.extent}},
                                            ir::MakeSeq(body(var, version, parity), loc));
    if (!InPieces()) return loop;
    const std::vector<Expr> first = {MakeInt(0)};
    const Expr all = earlier + Max(axis.extent, MakeInt(0, axis.extent.dtype()));
    return ir::MakeStmt<ir::Seq>(
        loc, std::vector<Stmt>{ir::MakeStmt<ir::Bind>(loc, earlier, ir::MakeLoad(steps_, first)),
                               loop, ir::MakeStmt<ir::Store>(loc, steps_, first, all)});
  }

  // One part's share of the launch: `body` instead of the loop, and what stands around it, or of
  // that the names alone. How many steps a part has taken is its own to count, because pieces
  // differ.
  Stmt Surround(Stmt body, bool names_alone) const {
    for (size_t i = around_.size(); i-- > 0;) {
      const Around& level = around_[i];
      std::vector<Stmt> stmts = names_alone ? level.binds : level.before;
      stmts.push_back(std::move(body));
      if (!names_alone) stmts.insert(stmts.end(), level.after.begin(), level.after.end());
      body = ir::MakeStmt<ir::Seq>(launch_.loc, std::move(stmts));
      if (i == 0) break;
      const Stmt& at = around_[i - 1].at;
      const auto* loop = at.As<ir::For>();
      body = loop != nullptr ? ir::MakeStmt<ir::For>(at->loc, loop->loop, loop->axes, body)
                             : ir::MakeStmt<ir::If>(at->loc, at.As<ir::If>()->condition, body);
    }
    return body;
  }

  void CountSteps(std::vector<Stmt>* stmts) {
    if (!InPieces()) return;
    const DType type = loop_->axes[0].extent.dtype();
    steps_ = ir::MakeBuffer("steps", type, {MakeInt(1)}, ir::Scope::kVar);
    stmts->push_back(ir::MakeStmt<ir::Alloc>(launch_.loc, steps_, MakeInt(0, type)));
  }

  static ir::Region One(const ir::Buffer& barriers, const Expr& version) {
    return {barriers, {{version, MakeInt(1)}}};
  }

  void ShareRegisters(bool producer, std::vector<Stmt>* stmts) const {
    for (const RegisterShare& share : kShares) {
      if (share.threads != threads_ * teams_) continue;
      stmts->push_back(ir::MakeInstruct(
          launch_.loc, Instruction::kMaxRegisters, {},
          {MakeInt(producer ? share.producer : share.consumer), MakeInt(producer ? 0 : 1)}));
    }
  }

  Stmt Producer() {
    std::vector<Stmt> stmts;
    ShareRegisters(true, &stmts);
    CountSteps(&stmts);
    stmts.push_back(schedule_->ForTurns([&](const Expr& turn) { return FetchAll(turn); }));
    if (cluster_ > 1 && HoldsSums(launch_)) stmts.push_back(AwaitLast());
    return ir::MakeSeq(std::move(stmts), launch_.loc);
  }

  // Until the last tiles are given back, as if others were to be fetched. What products commit to
  // the barriers of another block may come after all that its threads do: no meeting of the cluster
  // waits for it, but that block must.
  Stmt AwaitLast() const {
    const SourceLoc loc = loop_->loc;
    const Expr& steps = loop_->axes[0].extent;
    const Expr taken = schedule_->turns() * Max(steps, MakeInt(0, steps.dtype()));
    const Expr after = ir::MakeVar("after", taken.dtype());
    const Expr version = FloorMod(taken + after, MakeInt(stages_));
    const Expr parity =
        ir::MakeCast(kInt32, FloorMod(FloorDiv(taken + after, MakeInt(stages_)), MakeInt(2)));
    std::vector<Stmt> waits;
    for (const Group& group : groups_) {
      waits.push_back(ir::MakeInstruct(loc, Instruction::kBarrierWait, {One(group.empty, version)},
                                       {MakeInt(1) - parity}));
    }
    return ir::MakeStmt<ir::For>(
        loc, ir::ForKind::kSerial,
        std::vector<ir::Axis>{{after, MakeInt(0, taken.dtype()), MakeInt(stages_, taken.dtype())}},
        ir::MakeSeq(std::move(waits), loc));
  }

  Stmt FetchAll(const Expr& turn) {
    return ir::FreshCopy(Surround(FetchLoop(turn), /*names_alone=*/true));
  }

  Stmt FetchLoop(const Expr& turn) {
    return Loop(turn, [&](const Expr& var, const Expr& version, const Expr& parity) {
      std::vector<Stmt> body;
      for (const Group& group : groups_) {
        FetchGroup(group, var, version, parity, &body);
      }
      return body;
    });
  }

  void FetchGroup(const Group& group, const Expr& var, const Expr& version, const Expr& parity,
                  std::vector<Stmt>* body) {
    const SourceLoc loc = loop_->loc;
    int64_t bytes = 0;
    for (const Fetch* fetch : group.fetches) {
      int64_t tile = fetch->tile->dtype.bytes();
      for (const Expr& extent : fetch->tile->shape) tile *= *ir::ConstInt(extent);
      bytes += tile;
    }
    // A fresh barrier counts as one whose phase 1 is over.
    body->push_back(ir::MakeInstruct(loc, Instruction::kBarrierWait, {One(group.empty, version)},
                                     {MakeInt(1) - parity}));
    body->push_back(ir::MakeInstruct(loc, Instruction::kBarrierExpect, {One(group.full, version)},
                                     {MakeInt(bytes)}));
    const ir::VarMap step = {{loop_->axes[0].var.get(), var}};
    for (const Fetch* fetch : group.fetches) {
      ir::Region tile{versions_.at(fetch->tile.get()), {{version, MakeInt(1)}}};
      for (const Expr& extent : fetch->tile->shape) tile.ranges.push_back({MakeInt(0), extent});
      ir::Region source = fetch->source;
      for (ir::Range& range : source.ranges) range.min = ir::Substitute(range.min, step);
      std::vector<Expr> offsets;
      for (const Expr& offset : fetch->offsets) offsets.push_back(ir::Substitute(offset, step));
      std::map<std::string, std::string> notes = fetch->notes;
      if (cluster_ > 1 && target::IsShared(TileOf(*fetch)))
        notes["cluster"] = absl::StrCat(cluster_);
      body->push_back(ir::MakeInstruct(fetch->loc, fetch->op(),
                                       {tile, source, One(group.full, version)}, std::move(offsets),
                                       std::move(notes)));
    }
  }

  // How long the second-level cache is asked to keep what is fetched.
  std::map<std::string, std::string> HintOf(const ir::Copy& fetch) const {
    const auto hint = ir::CacheHintOf(launch_, fetch);
    if (!hint) return {};
    return {{"evict", ir::ToText(*hint)}};
  }

  Stmt Consumer(int64_t team) {
    std::vector<Stmt> stmts;
    ShareRegisters(false, &stmts);
    CountSteps(&stmts);
    stmts.push_back(
        schedule_->ForTurns([&](const Expr& turn) { return Work(team, turn); }, team, teams_));
    if (staged_) stmts.push_back(staged_->end);
    const Stmt all = ir::MakeSeq(std::move(stmts), launch_.loc);
    return team == 0 ? all : ir::FreshCopy(ir::Substitute(all, {}, OwnBuffers()));
  }

  // A second team's own: all but what is fetched, and its barriers.
  ir::BufferMap OwnBuffers() {
    ir::BufferMap own;
    const size_t first_teams = allocations_.size();
    for (size_t i = 0; i < first_teams; ++i) {
      const ir::Buffer b = allocations_[i].As<ir::Alloc>()->buffer;
      const bool output =
          staged_ && std::count(staged_->tiles.begin(), staged_->tiles.end(), b) > 0;
      if (!output && (b->scope == ir::Scope::kShared || b->scope == ir::Scope::kBarrier)) continue;
      auto copy = std::make_shared<ir::BufferNode>(*b);
      copy->name = absl::StrCat(b->name, ".other");
      if (output) {
        staged_->layouts[absl::StrCat("layout:", copy->name)] =
            staged_->layouts.at(absl::StrCat("layout:", b->name));
      }
      own[b.get()] = copy;
      allocations_.push_back(ir::MakeStmt<ir::Alloc>(launch_.loc, own[b.get()]));
    }
    return own;
  }

  Stmt Work(int64_t team, const Expr& turn) {
    std::map<std::string, std::string> everywhere;
    if (cluster_ > 1) everywhere["cluster"] = absl::StrCat(cluster_);
    const Stmt loop = Loop(turn, [&](const Expr& var, const Expr& version, const Expr& parity) {
      const SourceLoc loc = loop_->loc;
      std::vector<Stmt> body;
      for (size_t i = 0; i < rest_.size(); ++i) {
        for (const Group& group : groups_) {
          if (group.first != i) continue;
          body.push_back(ir::MakeInstruct(loc, Instruction::kBarrierWait,
                                          {One(group.full, version)}, {parity}));
        }
        body.push_back(rest_[i]);
        for (const Group& group : groups_) {
          if (group.last != i) continue;
          body.push_back(ir::MakeInstruct(loc, Instruction::kBarrierArrive,
                                          {One(group.empty, version)}, {}, everywhere));
        }
      }
      const Stmt all = ReadVersion(ir::MakeStmt<ir::Seq>(loc, std::move(body)), versions_, version);
      return std::vector<Stmt>{ir::Substitute(all, {{loop_->axes[0].var.get(), var}})};
    });
    return Surround(InOrder(team, turn, loop), /*names_alone=*/false);
  }

  const ir::Program& program_;
  const ir::Launch& launch_;
  const target::Arch& arch_;
  int64_t cluster_ = 1;  // blocks
  int64_t teams_ = 1;    // of consumers, that take turns
  ir::Buffer order_;     // barriers: a team's next turn may begin
  std::optional<TileSchedule> schedule_;
  std::vector<Around> around_;  // from the launch's statements to the loop
  const ir::For* loop_ = nullptr;
  ir::Buffer steps_;  // that a part has taken in earlier pieces
  std::vector<Stmt> allocations_;
  std::vector<Fetch> fetches_;  // of the loop's body
  std::vector<Stmt> rest_;
  ir::VarMap names_;  // of the body, for what both parts know
  int64_t threads_ = 0, stages_ = 0;
  std::vector<Group> groups_;
  TileVersions versions_;
  std::optional<StagedStore> staged_;
};

// Warps of their own, or blocks of several turns, have no part in what blocks of a cluster say to
// each other.
// The kernel counts on the threads that it launches: none may be added.
bool SpeaksOfThreads(const ir::Launch& launch) {
  bool speaks = launch.annotations.count(ir::kSharesMemory) > 0;  // all threads meet in clusters
  ir::Walk(launch.body, [&](const Stmt& s) {
    const auto* loop = s.As<ir::For>();
    speaks |= loop != nullptr && loop->loop == ir::ForKind::kThreads;
    return !speaks;
  });
  return speaks;
}

}  // namespace

absl::StatusOr<ir::Program> SpecialiseWarps(const ir::Program& program,
                                            const PassContext& context) {
  const target::Arch& arch = GpuOf(context);
  const bool fetches = arch.name == "sm_90a" || arch.name == "sm_100a";
  if (!fetches || ir::PassOption(program, "tl.disable_warp_specialized", 0) != 0 ||
      ir::PassOption(program, "tl.disable_tma_lower", 0) != 0) {
    return program;
  }
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr || SpeaksOfThreads(*launch)) return {};
    return Specialise(program, *launch, arch).Run().value_or(Stmt());
  });
  return out;
}

}  // namespace kiln::passes
