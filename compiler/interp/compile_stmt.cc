// Statements other than tile operations, and the program as a whole.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/interp/async.h"
#include "compiler/interp/cluster_run.h"
#include "compiler/interp/compiler.h"
#include "compiler/interp/parts.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"

namespace kiln::interp {
namespace {

class SeqOf : public Action {
 public:
  SeqOf(SourceLoc loc, std::vector<ActionPtr> parts) : Action(loc), parts_(std::move(parts)) {}
  Flow Run(Machine& m) const override {
    for (const ActionPtr& part : parts_) {
      const Flow flow = part->Run(m);
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

 private:
  std::vector<ActionPtr> parts_;
};

std::string Where(const std::vector<LoopAxis>& axes, const Machine& m) {
  std::string text;
  for (const LoopAxis& axis : axes) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", axis.name, " = ", m.ints[axis.slot]);
  }
  return text;
}

// Serial, unrolled, vectorised and pipelined loops: all have serial semantics.
class SerialFor : public Action {
 public:
  SerialFor(SourceLoc loc, std::vector<LoopAxis> axis, ActionPtr body)
      : Action(loc), axis_(std::move(axis)), body_(std::move(body)) {}
  Flow Run(Machine& m) const override {
    const LoopAxis& axis = axis_[0];
    const int64_t min = axis.min->Int(m), extent = axis.extent->Int(m);
    if (m.failed()) return Flow::kStop;
    for (int64_t i = 0; i < extent; ++i) {
      if (!m.Step(1, loc)) return Flow::kStop;
      m.ints[axis.slot] = min + i;
      const Flow flow = body_->Run(m);
      if (flow == Flow::kBreak) break;
      if (flow != Flow::kStop) continue;
      m.AddNote(absl::StrCat("in the loop with ", Where(axis_, m)));
      return Flow::kStop;
    }
    return Flow::kNext;
  }

 private:
  std::vector<LoopAxis> axis_;
  ActionPtr body_;
};

class ParallelFor : public Action {
 public:
  ParallelFor(SourceLoc loc, std::vector<LoopAxis> axes, ActionPtr body, bool same_values)
      : Action(loc), axes_(std::move(axes)), body_(std::move(body)), same_values_(same_values) {}
  Flow Run(Machine& m) const override {
    std::vector<int64_t> min, extent;
    int64_t total = 1;
    for (const LoopAxis& axis : axes_) {
      min.push_back(axis.min->Int(m));
      extent.push_back(std::max<int64_t>(axis.extent->Int(m), 0));
      if (__builtin_mul_overflow(total, extent.back(), &total)) total = INT64_MAX;
    }
    if (m.failed() || !m.Step(total, loc)) return Flow::kStop;
    if (total >= int64_t{0xFFFFFFFF}) {
      m.Fail(absl::StatusCode::kUnimplemented, loc, "a parallel loop of 2^32 iterations or more",
             "use a smaller tile");
      return Flow::kStop;
    }
    m.PushLevel(Units::kIterations);
    m.levels.back().same_values = same_values_;
    const Flow flow = Iterate(m, min, extent, total);
    m.PopLevel();
    return flow;
  }

 private:
  Flow Iterate(Machine& m, const std::vector<int64_t>& min, const std::vector<int64_t>& extent,
               int64_t total) const {
    const bool reverse = m.options().order == Order::kReverse;
    for (int64_t i = 0; i < total; ++i) {
      const int64_t unit = reverse ? total - 1 - i : i;
      int64_t rest = unit;
      for (size_t d = axes_.size(); d-- > 0;) {
        m.ints[axes_[d].slot] = min[d] + rest % extent[d];
        rest /= extent[d];
      }
      m.levels.back().unit = static_cast<uint32_t>(unit);
      if (body_->Run(m) != Flow::kStop) continue;
      m.AddNote(absl::StrCat("in the parallel loop with ", Where(axes_, m)));
      return Flow::kStop;
    }
    return Flow::kNext;
  }

  std::vector<LoopAxis> axes_;
  ActionPtr body_;
  const bool same_values_;
};

// Threads one after another, who meet only at barriers.
class ThreadsFor : public Action {
 public:
  ThreadsFor(SourceLoc loc, LoopAxis axis, ActionPtr body, bool same_values)
      : Action(loc), axis_(std::move(axis)), body_(std::move(body)), same_values_(same_values) {}
  Flow Run(Machine& m) const override {
    const int64_t first = axis_.min->Int(m), count = axis_.extent->Int(m);
    const bool reverse = m.options().order == Order::kReverse;
    if (m.failed() || !m.Step(count, loc)) return Flow::kStop;
    m.levels.back().same_values = same_values_;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t thread = first + (reverse ? count - 1 - i : i);
      m.ints[axis_.slot] = thread;
      m.levels.back().unit = static_cast<uint32_t>(thread);
      if (body_->Run(m) == Flow::kStop) {
        m.AddNote(absl::StrCat("in thread ", thread));
        return Flow::kStop;
      }
    }
    m.levels.back().unit = kAllThreads;
    m.levels.back().same_values = false;
    return Flow::kNext;
  }

 private:
  LoopAxis axis_;
  ActionPtr body_;
  const bool same_values_;
};

class WhileOf : public Action {
 public:
  WhileOf(SourceLoc loc, NodePtr condition, ActionPtr body)
      : Action(loc), condition_(std::move(condition)), body_(std::move(body)) {}
  Flow Run(Machine& m) const override {
    while (condition_->Int(m)) {
      if (!m.Step(1, loc)) return Flow::kStop;
      const Flow flow = body_->Run(m);
      if (flow == Flow::kBreak) break;
      if (flow == Flow::kStop) return flow;
    }
    return NextUnlessFailed(m);
  }

 private:
  NodePtr condition_;
  ActionPtr body_;
};

class JumpOf : public Action {
 public:
  JumpOf(SourceLoc loc, Flow flow) : Action(loc), flow_(flow) {}
  Flow Run(Machine&) const override { return flow_; }

 private:
  const Flow flow_;
};

class IfOf : public Action {
 public:
  IfOf(SourceLoc loc, NodePtr condition, ActionPtr then_case, ActionPtr else_case)
      : Action(loc),
        condition_(std::move(condition)),
        then_(std::move(then_case)),
        else_(std::move(else_case)) {}
  Flow Run(Machine& m) const override {
    const int64_t chosen = condition_->Int(m);
    if (m.failed()) return Flow::kStop;
    if (chosen) return then_->Run(m);
    return else_ ? else_->Run(m) : Flow::kNext;
  }

 private:
  NodePtr condition_;
  ActionPtr then_, else_;
};

class BindOf : public Action {
 public:
  BindOf(SourceLoc loc, int slot, bool real, NodePtr value)
      : Action(loc), slot_(slot), real_(real), value_(std::move(value)) {}
  Flow Run(Machine& m) const override {
    if (value_->lanes > 1) {
      if (real_) {
        value_->Reals(m, m.reals.data() + slot_);
      } else {
        value_->Ints(m, m.ints.data() + slot_);
      }
    } else if (real_) {
      m.reals[slot_] = value_->Real(m);
    } else {
      m.ints[slot_] = value_->Int(m);
    }
    return NextUnlessFailed(m);
  }

 private:
  const int slot_;
  const bool real_;
  NodePtr value_;
};

class AllocOf : public Action {
 public:
  AllocOf(SourceLoc loc, int slot, const ir::BufferNode* node, std::vector<NodePtr> shape,
          NodePtr init, Rounding rounding, bool detect, int64_t place)
      : Action(loc),
        slot_(slot),
        node_(node),
        shape_(std::move(shape)),
        init_(std::move(init)),
        rounding_(rounding),
        detect_(detect),
        place_(place) {}
  Flow Run(Machine& m) const override {
    BufferState& b = m.buffers[slot_];
    b.node = node_;
    b.dtype = node_->dtype;
    b.real = IsReal(node_->dtype);
    b.global = node_->scope == ir::Scope::kGlobal;
    b.storage = b.real ? Storage::kF64 : StorageOf(node_->dtype);
    b.rounding = rounding_;
    b.rank = static_cast<int>(shape_.size());
    b.track_written = detect_;
    for (int d = 0; d < b.rank; ++d) b.shape[d] = shape_[d]->Int(m);
    if (m.failed() || !m.Allocate(&b, loc)) return Flow::kStop;
    if (place_ != ir::Alloc::kOwnPlace) m.Place(slot_, place_);
    if (node_->values) {
      for (size_t i = 0; i < node_->values->size(); ++i) {
        WriteInt(m, b, static_cast<int64_t>(i), (*node_->values)[i], false, loc);
      }
    }
    if (!init_) return NextUnlessFailed(m);
    const bool ok = b.real ? WriteReal(m, b, 0, init_->Real(m), false, loc)
                           : WriteInt(m, b, 0, init_->Int(m), false, loc);
    return ok ? NextUnlessFailed(m) : Flow::kStop;
  }

 private:
  const int slot_;
  const ir::BufferNode* node_;
  std::vector<NodePtr> shape_;
  NodePtr init_;
  const Rounding rounding_;
  const bool detect_;
  const int64_t place_;
};

class StoreOf : public Action {
 public:
  StoreOf(SourceLoc loc, Access access, NodePtr value, bool real)
      : Action(loc), access_(std::move(access)), value_(std::move(value)), real_(real) {}
  Flow Run(Machine& m) const override {
    if (value_->lanes > 1) return RunLanes(m);
    int64_t offset;
    const bool happens = access_.Resolve(m, &offset);
    // A store that does not happen does not evaluate its value: a guard protects both.
    if (!happens) return NextUnlessFailed(m);
    if (real_) {
      const double value = value_->Real(m);
      if (m.failed()) return Flow::kStop;
      WriteReal(m, m.buffers[access_.slot], offset, value, access_.track, loc);
    } else {
      const int64_t value = value_->Int(m);
      if (m.failed()) return Flow::kStop;
      WriteInt(m, m.buffers[access_.slot], offset, value, access_.track, loc);
    }
    return NextUnlessFailed(m);
  }

 private:
  Flow RunLanes(Machine& m) const {
    const int lanes = value_->lanes;
    int64_t offsets[kMaxLanes];
    bool active[kMaxLanes];
    access_.ResolveLanes(m, lanes, offsets, active);
    if (m.failed()) return Flow::kStop;
    BufferState& b = m.buffers[access_.slot];
    if (real_) {
      double values[kMaxLanes];
      value_->Reals(m, values);
      for (int i = 0; i < lanes && !m.failed(); ++i) {
        if (active[i]) WriteReal(m, b, offsets[i], values[i], access_.track, loc);
      }
    } else {
      int64_t values[kMaxLanes];
      value_->Ints(m, values);
      for (int i = 0; i < lanes && !m.failed(); ++i) {
        if (active[i]) WriteInt(m, b, offsets[i], values[i], access_.track, loc);
      }
    }
    return NextUnlessFailed(m);
  }

  Access access_;
  NodePtr value_;
  const bool real_;
};

class EvaluateOf : public Action {
 public:
  EvaluateOf(SourceLoc loc, NodePtr value, bool real)
      : Action(loc), value_(std::move(value)), real_(real) {}
  Flow Run(Machine& m) const override {
    if (real_) {
      double values[kMaxLanes];
      value_->Reals(m, values);
    } else {
      int64_t values[kMaxLanes];
      value_->Ints(m, values);
    }
    return NextUnlessFailed(m);
  }

 private:
  NodePtr value_;
  const bool real_;
};

class AssertOf : public Action {
 public:
  AssertOf(SourceLoc loc, NodePtr condition, std::string message)
      : Action(loc), condition_(std::move(condition)), message_(std::move(message)) {}
  Flow Run(Machine& m) const override {
    if (!condition_->Int(m)) {
      m.Fail(absl::StatusCode::kFailedPrecondition, loc,
             absl::StrCat("assertion failed: ", message_),
             "call the kernel with arguments that it accepts");
    }
    return NextUnlessFailed(m);
  }

 private:
  NodePtr condition_;
  const std::string message_;
};

// What must not be left when a block ends.
Flow EndOfBlock(Machine& m, SourceLoc loc) {
  for (const auto& [rank, tensor] : m.async->tensors) tensor.CheckEnd(m, loc);
  if (!m.async->matrices.empty()) {
    m.Fail(absl::StatusCode::kFailedPrecondition, loc,
           "matrices are stored by lanes of a warp that others of it do not join",
           "let whole warps come by");
  }
  return NextUnlessFailed(m);
}

// One block of a cluster, as one of its parts.
class RankOf : public Action {
 public:
  RankOf(SourceLoc loc, size_t rank, ActionPtr body)
      : Action(loc), rank_(rank), body_(std::move(body)) {}
  Flow Run(Machine& m) const override {
    m.cluster->Begin(m, rank_);
    if (body_->Run(m) == Flow::kStop || EndOfBlock(m, loc) == Flow::kStop) {
      m.AddNote(absl::StrCat("in block ", rank_, " of the cluster"));
      return Flow::kStop;
    }
    return m.cluster->End(m, loc) ? Flow::kNext : Flow::kStop;
  }

 private:
  const size_t rank_;
  ActionPtr body_;
};

// The blocks of a cluster, with what they share.
class RanksAction : public Action {
 public:
  RanksAction(SourceLoc loc, std::vector<ActionPtr> shared, std::vector<ActionPtr> blocks)
      : Action(loc), shared_(std::move(shared)), blocks_(std::move(blocks)) {}
  Flow Run(Machine& m) const override {
    m.cluster = std::make_unique<ClusterRun>(m, blocks_.size());
    for (const ActionPtr& alloc : shared_) {
      if (alloc->Run(m) == Flow::kStop) return Flow::kStop;
    }
    return Parts::Run(m, blocks_, /*apart=*/true);
  }

 private:
  std::vector<ActionPtr> shared_, blocks_;
};

class LaunchOf : public Action {
 public:
  // `ranks`: blocks along x that the body runs together.
  LaunchOf(SourceLoc loc, int number, std::vector<LoopAxis> grid, ActionPtr body, int64_t ranks)
      : Action(loc),
        number_(number),
        grid_(std::move(grid)),
        body_(std::move(body)),
        ranks_(ranks) {}
  Flow Run(Machine& m) const override {
    int64_t extent[3] = {1, 1, 1};
    for (size_t d = 0; d < grid_.size(); ++d) {
      extent[d] = std::max<int64_t>(grid_[d].extent->Int(m), 0);
    }
    if (m.failed()) return Flow::kStop;
    extent[0] /= ranks_;
    const __int128 wide = static_cast<__int128>(extent[0]) * extent[1] * extent[2];
    if (wide >= 0xFFFFFFFF) {
      m.Fail(absl::StatusCode::kUnimplemented, loc, "a launch of 2^32 blocks or more",
             "use larger tiles");
      return Flow::kStop;
    }
    m.PushLevel(Units::kBlocks);
    const Flow flow = Blocks(m, extent, static_cast<int64_t>(wide));
    m.PopLevel();
    return flow;
  }

 private:
  Flow Blocks(Machine& m, const int64_t (&extent)[3], int64_t total) const {
    const auto& filter = m.options().block_filter;
    const bool reverse = m.options().order == Order::kReverse;
    for (int64_t i = 0; i < total; ++i) {
      const int64_t unit = reverse ? total - 1 - i : i;
      const int64_t block[3] = {unit % extent[0], unit / extent[0] % extent[1],
                                unit / extent[0] / extent[1]};
      if (!Wanted(filter, block)) continue;
      if (!m.Step(1, loc)) return Flow::kStop;
      for (size_t d = 0; d < grid_.size(); ++d) m.ints[grid_[d].slot] = block[d];
      m.levels.back().unit = static_cast<uint32_t>(unit);
      ++m.blocks_run;
      if (Block(m) != Flow::kStop) continue;
      m.AddNote(absl::StrCat("in the block with ", Where(grid_, m)));
      return Flow::kStop;
    }
    return Flow::kNext;
  }

  template <typename Filter>
  bool Wanted(const Filter& filter, const int64_t (&block)[3]) const {
    bool wanted = !filter;
    for (int64_t rank = 0; rank < ranks_ && !wanted; ++rank) {
      const int64_t one[3] = {block[0] * ranks_ + rank, block[1], block[2]};
      wanted = filter(number_, one);
    }
    return wanted;
  }

  Flow Block(Machine& m) const {
    *m.async = {};
    m.ForgetPlaces();
    const size_t around = m.levels.size();
    if (ranks_ > 1) m.PushLevel(Units::kRanks);
    if (m.options().meet_at_barriers) {
      m.PushLevel(Units::kThreads);
      m.levels.back().unit = kAllThreads;
    }
    const Flow flow = body_->Run(m) == Flow::kStop ? Flow::kStop : EndOfBlock(m, loc);
    m.levels.resize(around);
    return flow;
  }

  const int number_;
  std::vector<LoopAxis> grid_;
  ActionPtr body_;
  const int64_t ranks_;
};

std::unordered_set<const ir::BufferNode*> Written(const ir::Stmt& s) {
  std::unordered_set<const ir::BufferNode*> set;
  for (const ir::Buffer& b : ir::BuffersWritten(s)) set.insert(b.get());
  return set;
}

}  // namespace

int Compiler::SlotOf(const ir::Expr& var) {
  const auto [it, fresh] = var_slots_.try_emplace(var.get(), 0);
  if (!fresh) return it->second;
  int& next = IsReal(var.dtype()) ? real_slots_ : int_slots_;
  it->second = next;
  next += var.dtype().lanes;
  return it->second;
}

int Compiler::SlotOf(const ir::Buffer& buffer) {
  const auto [it, fresh] =
      buffer_slots_.try_emplace(buffer.get(), static_cast<int>(buffer_slots_.size()));
  if (fresh && buffer->shape.size() > kMaxRank) {
    Error(absl::UnimplementedError(absl::StrCat("'", buffer->name, "' has ", buffer->shape.size(),
                                                " dimensions; the interpreter takes ", kMaxRank)));
  }
  return it->second;
}

bool Compiler::Tracked(const ir::Buffer& b) const {
  if (!options_.detect_races) return false;
  return std::any_of(level_writes_.begin(), level_writes_.end(),
                     [&](const auto& writes) { return writes.count(b.get()) > 0; });
}

namespace {

// A part of the block that waits for barriers: it runs beside others.
bool WaitsForOthers(const ir::Stmt& s) {
  bool waits = false;
  if (s.kind() != ir::StmtKind::kOnThreads) return false;
  ir::Walk(s, [&](const ir::Stmt& x) {
    const auto* instruct = x.As<ir::Instruct>();
    waits |= instruct != nullptr && instruct->op == ir::Instruction::kBarrierWait;
    return !waits;
  });
  return waits;
}

}  // namespace

ActionPtr Compiler::SeqAction(const ir::Stmt& s) {
  std::vector<ActionPtr> actions;
  const std::vector<ir::Stmt>& stmts = s.As<ir::Seq>()->stmts;
  for (size_t i = 0; i < stmts.size();) {
    std::vector<ActionPtr> beside;
    // What a part's own threads do by themselves is a step of the part.
    while (!in_part_ && i < stmts.size() && WaitsForOthers(stmts[i])) {
      in_part_ = true;
      beside.push_back(Statement(stmts[i++]));
      in_part_ = false;
    }
    if (!beside.empty()) {
      actions.push_back(PartsAction(std::move(beside), s->loc));
    } else {
      actions.push_back(Statement(stmts[i++]));
    }
  }
  return std::make_unique<SeqOf>(s->loc, std::move(actions));
}

ActionPtr Compiler::ForAction(const ir::Stmt& s) {
  const auto* x = s.As<ir::For>();
  std::vector<LoopAxis> axes;
  for (const ir::Axis& axis : x->axes) {
    axes.push_back({SlotOf(axis.var), Expr(axis.min, s->loc), Expr(axis.extent, s->loc),
                    axis.var.As<ir::Var>()->name});
  }
  if (x->loop != ir::ForKind::kParallel && x->loop != ir::ForKind::kThreads) {
    return std::make_unique<SerialFor>(s->loc, std::move(axes), Statement(x->body));
  }
  const bool same_values = x->annotations.count(ir::kOfKernel) > 0;
  if (x->loop == ir::ForKind::kThreads && options_.meet_at_barriers) {
    return std::make_unique<ThreadsFor>(s->loc, std::move(axes[0]), Statement(x->body),
                                        same_values);
  }
  level_writes_.push_back(Written(x->body));
  ActionPtr body = Statement(x->body);
  level_writes_.pop_back();
  return std::make_unique<ParallelFor>(s->loc, std::move(axes), std::move(body), same_values);
}

ActionPtr Compiler::LaunchAction(const ir::Stmt& s) {
  const auto* x = s.As<ir::Launch>();
  const int number = launches_++;
  std::vector<LoopAxis> grid;
  for (const ir::Axis& axis : x->grid) {
    grid.push_back(
        {SlotOf(axis.var), nullptr, Expr(axis.extent, s->loc), axis.var.As<ir::Var>()->name});
  }
  part_ = {0, 1, ++parts_};
  for (const ir::Expr& extent : x->threads) part_.count *= ir::ConstInt(extent).value_or(1);
  if (x->annotations.count(ir::kSharesMemory) > 0)
    return ClusterAction(*x, number, std::move(grid));
  level_writes_.push_back(Written(x->body));
  ActionPtr body = Statement(x->body);
  level_writes_.pop_back();
  return std::make_unique<LaunchOf>(s->loc, number, std::move(grid), std::move(body), 1);
}

ActionPtr Compiler::ClusterAction(const ir::Launch& launch, int number,
                                  std::vector<LoopAxis> grid) {
  const RankedLaunch& ranked = ranked_.emplace_back(RanksOf(launch));
  grid[0].slot = SlotOf(ranked.cluster);
  level_writes_.push_back(Written(ir::MakeSeq(ranked.bodies, launch.loc)));
  std::vector<ActionPtr> shared, blocks;
  for (const ir::Stmt& alloc : ranked.shared) shared.push_back(Statement(alloc));
  in_part_ = in_cluster_ = true;
  const Part whole = part_;
  for (const ir::Stmt& body : ranked.bodies) {
    part_ = {whole.first, whole.count, ++parts_};
    blocks.push_back(std::make_unique<RankOf>(launch.loc, blocks.size(), Statement(body)));
  }
  in_part_ = in_cluster_ = false;
  level_writes_.pop_back();
  const auto ranks = static_cast<int64_t>(blocks.size());
  return std::make_unique<LaunchOf>(
      launch.loc, number, std::move(grid),
      std::make_unique<RanksAction>(launch.loc, std::move(shared), std::move(blocks)), ranks);
}

ActionPtr Compiler::BindAction(const ir::Stmt& s) {
  const auto* x = s.As<ir::Bind>();
  NodePtr value = Expr(x->value, s->loc);
  return std::make_unique<BindOf>(s->loc, SlotOf(x->var), IsReal(x->var.dtype()), std::move(value));
}

ActionPtr Compiler::AllocAction(const ir::Stmt& s) {
  const auto* x = s.As<ir::Alloc>();
  NodePtr init = x->init.defined() ? Expr(x->init, s->loc) : nullptr;
  return std::make_unique<AllocOf>(
      s->loc, SlotOf(x->buffer), x->buffer.get(), Exprs(x->buffer->shape, s->loc), std::move(init),
      RoundingFor(x->buffer->dtype), options_.detect_uninitialised, x->place);
}

ActionPtr Compiler::StoreAction(const ir::Stmt& s) {
  const auto* x = s.As<ir::Store>();
  Access access = MakeAccess(x->buffer, x->indices, x->predicate, s->loc);
  return std::make_unique<StoreOf>(s->loc, std::move(access), Expr(x->value, s->loc),
                                   IsReal(x->buffer->dtype));
}

ActionPtr Compiler::Statement(const ir::Stmt& s) {
  const SourceLoc loc = s->loc;
  switch (s.kind()) {
    case ir::StmtKind::kSeq:
      return SeqAction(s);
    case ir::StmtKind::kFor:
      return ForAction(s);
    case ir::StmtKind::kWhile: {
      const auto* x = s.As<ir::While>();
      return std::make_unique<WhileOf>(loc, Expr(x->condition, loc), Statement(x->body));
    }
    case ir::StmtKind::kIf: {
      const auto* x = s.As<ir::If>();
      ActionPtr chosen = Statement(x->then_case);  // in order: launches are numbered
      ActionPtr other = x->else_case.defined() ? Statement(x->else_case) : nullptr;
      return std::make_unique<IfOf>(loc, Expr(x->condition, loc), std::move(chosen),
                                    std::move(other));
    }
    case ir::StmtKind::kOnThreads: {
      const auto* part = s.As<ir::OnThreads>();
      const Part around = std::exchange(part_, Part{part->first, part->count, ++parts_});
      ActionPtr body = Statement(part->body);
      part_ = around;
      return body;
    }
    case ir::StmtKind::kBind:
      return BindAction(s);
    case ir::StmtKind::kAlloc:
      return AllocAction(s);
    case ir::StmtKind::kStore:
      return StoreAction(s);
    case ir::StmtKind::kCopy:
      return CopyAction(s);
    case ir::StmtKind::kGemm:
      return GemmAction(s);
    case ir::StmtKind::kPairGemm:
      return PairGemmAction(s);
    case ir::StmtKind::kFill:
      return FillAction(s);
    case ir::StmtKind::kReduce:
      return ReduceAction(s);
    case ir::StmtKind::kScan:
      return ScanAction(s);
    case ir::StmtKind::kPrint:
      return PrintAction(s);
    case ir::StmtKind::kAtomic:
      return AtomicAction(s);
    case ir::StmtKind::kEvaluate: {
      const auto* x = s.As<ir::Evaluate>();
      return std::make_unique<EvaluateOf>(loc, Expr(x->value, loc), IsReal(x->value.dtype()));
    }
    case ir::StmtKind::kAssert: {
      const auto* x = s.As<ir::Assert>();
      return std::make_unique<AssertOf>(loc, Expr(x->condition, loc), x->message);
    }
    case ir::StmtKind::kInstruct:
      return InstructAction(*s.As<ir::Instruct>());
    case ir::StmtKind::kLaunch:
      return LaunchAction(s);
    case ir::StmtKind::kBreak:
      return std::make_unique<JumpOf>(loc, Flow::kBreak);
    case ir::StmtKind::kContinue:
      return std::make_unique<JumpOf>(loc, Flow::kContinue);
  }
  return nullptr;
}

absl::StatusOr<Compiled> Compiler::Compile() {
  Compiled compiled;
  for (const ir::Expr& dim : program_.dims) SlotOf(dim);
  for (const ir::Param& param : program_.params) {
    if (param.kind == ir::Param::kScalar) {
      SlotOf(param.scalar);
      continue;
    }
    compiled.tensors.push_back(
        {SlotOf(param.buffer), Exprs(param.buffer->shape, {}), Exprs(param.buffer->strides, {})});
  }
  compiled.body = Statement(program_.body);
  if (!error_.ok()) return error_;
  compiled.int_slots = int_slots_;
  compiled.real_slots = real_slots_;
  compiled.buffer_slots = static_cast<int>(buffer_slots_.size());
  return compiled;
}

}  // namespace kiln::interp
