#include "compiler/roofline/warps.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/fixed.h"
#include "compiler/ir/gather.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/pipelined.h"
#include "compiler/ir/visit.h"

namespace kiln::roofline {
namespace {

using ir::Stmt;

constexpr size_t kMostRank = 5;   // of a tensor that TMA reads
constexpr size_t kPatchRank = 4;  // of one that it reads under taps: n, h, w, c

class WarpFinder {
 public:
  WarpFinder(const ir::Program& program, const ir::Launch& launch, Tape& tape,
             const Symbols& symbols)
      : program_(program), launch_(launch), tape_(tape), symbols_(symbols) {
    for (const ir::Axis& axis : launch.grid) facts_.AddAxis(axis);
  }

  WarpDemand Run() {
    ReadOptions();
    ReadGrid();
    if (Disabled() || !FindLoop() || !FindFetches()) return std::move(out_);
    out_.stages = symbols_.Value(loop_->num_stages).value_or(tape_.Const(0));
    out_.query.steps_differ = StepsDiffer();
    out_.possible = FindSums() && !out_.fetches.empty();
    out_.query.shares_fetches_alone = SharesFetchesAlone();
    return std::move(out_);
  }

 private:
  void ReadOptions() {
    target::WarpQuery& q = out_.query;
    q.cluster = ir::PassOption(program_, "kiln.cluster", q.cluster);
    q.persistent = ir::PassOption(program_, "kiln.persistent", 1) != 0;
    q.pingpong = ir::PassOption(program_, "kiln.pingpong", 0) != 0;
  }

  bool Disabled() const {
    return ir::PassOption(program_, "tl.disable_warp_specialized", 0) != 0 ||
           ir::PassOption(program_, "tl.disable_tma_lower", 0) != 0;
  }

  // Dimensions and scalars have no value before the kernel runs.
  bool IsKnown(const ir::Expr& e) const {
    const auto uses = [&](const ir::Expr& var) { return ir::Uses(e, var); };
    return !ReadsMemory(e) && std::none_of(program_.dims.begin(), program_.dims.end(), uses) &&
           std::none_of(program_.params.begin(), program_.params.end(), [&](const ir::Param& p) {
             return p.kind == ir::Param::kScalar && uses(p.scalar);
           });
  }

  void ReadGrid() {
    out_.query.grid_axes = static_cast<int64_t>(launch_.grid.size());
    for (const ir::Axis& axis : launch_.grid) out_.known_blocks &= IsKnown(axis.extent);
    out_.known_across = launch_.grid.size() > 1 && IsKnown(launch_.grid[1].extent);
  }

  bool FindLoop() {
    const std::vector<ir::Row> path = ir::PathToPipelined(launch_);
    for (const ir::Row& row : path) {
      loop_ = row.at.As<ir::For>();
      const bool known =
          loop_ != nullptr ? AreKnown(*loop_) : IsFixed(row.at.As<ir::If>()->condition);
      if (!known || !ReadRow(row)) return false;
    }
    in_pieces_ = path.size() > 1;
    return !path.empty() && loop_->num_stages.defined();
  }

  // False where parts cannot share the row out.
  bool ReadRow(const ir::Row& row) {
    bool before = true;
    for (const Stmt& s : row.stmts) {
      before &= !s.same_as(row.at);
      if (const auto* bind = s.As<ir::Bind>(); bind != nullptr) {
        if (!IsFixed(bind->value)) return false;
        if (before) binds_.push_back(bind);
      }
      bool fits = true;
      ir::Walk(s, [&](const Stmt& x) {
        fits &= x.kind() != ir::StmtKind::kOnThreads && x.kind() != ir::StmtKind::kAssert;
        return fits;
      });
      if (!fits) return false;
    }
    return true;
  }

  bool IsFixed(const ir::Expr& e) const { return !ir::ReadsWhatChanges(e, program_); }

  bool AreKnown(const ir::For& loop) const {
    return IsFixed(loop.axes[0].min) && IsFixed(loop.axes[0].extent) && !ir::HasJump(loop.body);
  }

  bool StepsDiffer() const {
    if (in_pieces_) return true;
    const ir::Axis& axis = loop_->axes[0];
    return std::any_of(launch_.grid.begin(), launch_.grid.end(), [&](const ir::Axis& block) {
      return Depends(axis.min, block.var) || Depends(axis.extent, block.var);
    });
  }

  // Whether an expression depends on a variable, by way of binds too: head // 4 of four heads does
  // not.
  bool Depends(const ir::Expr& what, const ir::Expr& var) const {
    const ir::Expr e = facts_.Simplify(what);
    return ir::Uses(e, var) || std::any_of(binds_.begin(), binds_.end(), [&](const ir::Bind* bind) {
             return ir::Uses(e, bind->var) && Depends(bind->value, var);
           });
  }

  bool FindFetches() {
    const auto* body = loop_->body.As<ir::Seq>();
    if (body == nullptr) return false;
    bool works = false;  // something is left for those who do not fetch
    std::set<const ir::BufferNode*> tiles;
    for (const Stmt& s : body->stmts) {
      const auto* alloc = s.As<ir::Alloc>();
      if (alloc != nullptr && alloc->buffer->scope == ir::Scope::kShared) continue;
      if (const auto* copy = s.As<ir::Copy>(); copy != nullptr && Fetches(*copy)) {
        if (!tiles.insert(copy->dst.buffer.get()).second) return false;
        Add(copy->dst.buffer, /*patch=*/false, IsSameAcross(copy->src));
        continue;
      }
      works = true;
      const Stmt gather = ir::GatherOf(s);
      const auto* store = gather.As<ir::Store>();
      if (store == nullptr || !ir::Multiplies(loop_->body, store->buffer)) continue;
      if (!IsPatch(*s.As<ir::For>(), *store->value.As<ir::Load>())) return false;
      Add(store->buffer, /*patch=*/true, false);
    }
    return works && !out_.fetches.empty();
  }

  // Whether what a loop gathers may be pixels under a tap: neighbours along a tile's row are some
  // in the tensor, whose rows TMA can read.
  bool IsPatch(const ir::For& loop, const ir::Load& load) const {
    if (load.buffer->shape.size() != kPatchRank) return false;
    const std::optional<int64_t> row = ValueOf(load.buffer->shape.back());
    if (!row || *row * load.buffer->dtype.bytes() % target::kBoxRowBytes != 0) return false;
    bool divided = false;
    ir::Walk(load.indices.back(), [&](const ir::Expr& e) {
      const auto* binary = e.As<ir::Binary>();
      divided |= binary != nullptr && ir::Uses(e, loop.axes.back().var) &&
                 (binary->op == ir::BinaryOp::kFloorDiv || binary->op == ir::BinaryOp::kFloorMod);
      return !divided;
    });
    return !divided;
  }

  void Add(const ir::Buffer& tile, bool patch, bool same_across) {
    FetchDemand fetch;
    fetch.into = tile.get();
    fetch.rows = symbols_.Value(tile->shape[0]).value_or(tape_.Const(0));
    fetch.columns = symbols_.Value(tile->shape[1]).value_or(tape_.Const(0));
    fetch.tile.type = tile->dtype;
    fetch.tile.multiplied = ir::Multiplies(loop_->body, tile);
    fetch.tile.panels = ir::MultipliesPanels(launch_.body, tile);
    fetch.tile.patch = patch;
    fetch.tile.same_across = same_across;
    fetched_.insert(tile.get());
    out_.fetches.push_back(fetch);
  }

  // A box of a tensor into the whole of a tile.
  bool Fetches(const ir::Copy& copy) const {
    const ir::Buffer &tensor = copy.src.buffer, &tile = copy.dst.buffer;
    const size_t rank = tensor->shape.size();
    if (tile->scope != ir::Scope::kShared || tile->shape.size() != 2 ||
        tensor->scope != ir::Scope::kGlobal || tensor->table || tensor->dtype != tile->dtype ||
        rank < 2 || rank > kMostRank ||
        launch_.annotations.count(absl::StrCat("layout:", tile->name)) > 0) {
      return false;
    }
    for (size_t d = 0; d < 2; ++d) {
      if (!ir::IsConst(copy.dst.ranges[d].min, 0) ||
          !ir::Same(copy.dst.ranges[d].extent, tile->shape[d])) {
        return false;
      }
    }
    return IsBox(copy.src, tile);
  }

  bool IsBox(const ir::Region& box, const ir::Buffer& tile) const {
    const ir::Buffer& tensor = box.buffer;
    const auto row = static_cast<size_t>(ir::RowDimension(box));
    std::optional<int64_t> stride = tensor->dtype.bytes();
    for (size_t d = box.ranges.size(); d-- > 0;) {
      const ir::Range& range = box.ranges[d];
      const bool last = d + 1 == box.ranges.size();
      if (ReadsMemory(range.min)) return false;
      if (d == row || last) {
        if (!ir::Same(range.extent, tile->shape[last ? 1 : 0])) return false;
      } else if (!ir::IsConst(range.extent, 1)) {
        return false;
      }
      if (!tensor->strides.empty()) {
        stride = ValueOf(tensor->strides[d]);
        if (stride) *stride *= tensor->dtype.bytes();
      }
      if (!stride) return false;
      if (last ? *stride != tensor->dtype.bytes() : *stride % target::kBoxRowBytes != 0) {
        return false;
      }
      const std::optional<int64_t> whole = ValueOf(tensor->shape[d]);
      if (!whole && d > 0) return false;
      stride = *stride * whole.value_or(1);
    }
    return true;
  }

  // What the problem fixes.
  std::optional<int64_t> ValueOf(const ir::Expr& e) const {
    const std::optional<Num> value = IsKnown(e) ? symbols_.Value(e) : std::nullopt;
    if (!value || !value->constant()) return std::nullopt;
    return static_cast<int64_t>(*value->constant());
  }

  bool IsSameAcross(const ir::Region& source) const {
    return launch_.grid.size() > 1 &&
           std::none_of(source.ranges.begin(), source.ranges.end(),
                        [&](const ir::Range& r) { return Depends(r.min, launch_.grid[1].var); });
  }

  // Of every product of the launch.
  bool FindSums() {
    ir::Walk(launch_.body, [&](const Stmt& s) {
      const auto* gemm = s.As<ir::Gemm>();
      if (gemm == nullptr) return true;
      Num sums = tape_.Const(1);
      for (const ir::Range& range : gemm->c.ranges) {
        sums = sums * symbols_.Value(range.extent).value_or(tape_.Const(1));
      }
      out_.sums.push_back(sums);
      return true;
    });
    return true;
  }

  bool SharesFetchesAlone() const {
    bool alone = true;
    ir::Walk(launch_.body, [&](const Stmt& s) {
      const auto* alloc = s.As<ir::Alloc>();
      const auto* gemm = s.As<ir::Gemm>();
      if (alloc != nullptr && alloc->buffer->scope == ir::Scope::kShared) {
        alone &= fetched_.count(alloc->buffer.get()) > 0;
      }
      if (gemm != nullptr) alone &= gemm->a.buffer->scope == ir::Scope::kShared;
      return alone;
    });
    return alone;
  }

  const ir::Program& program_;
  const ir::Launch& launch_;
  Tape& tape_;
  const Symbols& symbols_;
  ir::Facts facts_;  // of the grid
  WarpDemand out_;
  bool in_pieces_ = false;  // the loop stands in others, or under conditions
  const ir::For* loop_ = nullptr;
  std::vector<const ir::Bind*> binds_;  // before the loop
  std::set<const ir::BufferNode*> fetched_;
};

}  // namespace

WarpDemand FindWarps(const ir::Program& program, const ir::Launch& launch, Tape& tape,
                     const Symbols& symbols) {
  return WarpFinder(program, launch, tape, symbols).Run();
}

const std::vector<OpenOption>& OpenOptions() {
  static const auto& options = *new std::vector<OpenOption>{
      {"kiln.cluster", target::kClusterBlocks, {target::kClusterBlocks, 1}},
      {"kiln.persistent", 1, {1, 0}},
  };
  return options;
}

}  // namespace kiln::roofline
