#include "compiler/passes/stream_loads.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"
#include "compiler/passes/pipeline.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

constexpr int64_t kLeastShare = 2;  // of the cache: one in so many

// How often the elements of each tensor are read in a launch, as far as it shows: by blocks, loops
// and threads whose places differ.
class Readings : public ir::Mutator {
 public:
  explicit Readings(const ir::Launch& launch) : blocks_(launch.grid.size()), axes_(launch.grid) {
    (void)Mutate(launch.body);
  }

  // Read at one place of the launch, and there once.
  bool Once(const ir::Buffer& tensor) const {
    return seen_.count(tensor.get()) > 0 && again_.count(tensor.get()) == 0;
  }

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* bind = s.As<ir::Bind>()) {
      values_[bind->var.get()] = ir::Substitute(bind->value, values_);
    } else if (const auto* copy = s.As<ir::Copy>()) {
      Read(copy->src);
    } else if (IsWhole(s)) {
      for (const ir::Buffer& b : ir::BuffersRead(s)) again_.insert(b.get());
    }
    const auto* loop = s.As<ir::For>();
    const size_t outside = axes_.size();
    if (loop != nullptr) axes_.insert(axes_.end(), loop->axes.begin(), loop->axes.end());
    Stmt same = ir::Mutator::VisitStmt(s);
    axes_.resize(outside);
    return same;
  }

  Expr VisitExpr(const Expr& e) override {
    if (const auto* load = e.As<ir::Load>()) {
      std::vector<ir::Range> ranges;
      for (const Expr& index : load->indices) ranges.push_back({index, ir::MakeInt(1)});
      Read({load->buffer, std::move(ranges)});
    }
    return ir::Mutator::VisitExpr(e);
  }

 private:
  // Statements that read other than by Load and Copy, or any number of times.
  static bool IsWhole(const Stmt& s) {
    switch (s.kind()) {
      case ir::StmtKind::kGemm:
      case ir::StmtKind::kReduce:
      case ir::StmtKind::kAtomic:
      case ir::StmtKind::kWhile:
        return true;
      default:
        return false;
    }
  }

  void Read(const ir::Region& region) {
    const ir::BufferNode* tensor = region.buffer.get();
    if (region.buffer->scope != ir::Scope::kGlobal) return;
    if (!seen_.insert(tensor).second || !Differ(region)) again_.insert(tensor);
  }

  // Whether no two steps of all that is around read the same element: along every dimension each
  // step of an axis passes over all that those with smaller steps cover.
  bool Differ(const ir::Region& region) const {
    std::set<const ir::ExprNode*> moving;
    for (const ir::Range& range : region.ranges) {
      const ir::LinearForm place = ir::Linearize(ir::Substitute(range.min, values_));
      std::vector<std::pair<int64_t, const ir::Axis*>> steps;
      for (const auto& [atom, step] : place.terms) {
        const ir::Axis* axis = AxisOf(atom);
        if (axis != nullptr) {
          steps.emplace_back(std::abs(step), axis);
          moving.insert(axis->var.get());
        } else if (std::any_of(axes_.begin(), axes_.end(),
                               [&, a = atom](const ir::Axis& x) { return ir::Uses(a, x.var); })) {
          return false;
        }
      }
      std::sort(steps.begin(), steps.end(),
                [](const auto& a, const auto& b) { return a.first < b.first; });
      std::optional<int64_t> covered = ir::ConstInt(range.extent);
      for (const auto& [step, axis] : steps) {
        if (!covered || step < *covered) return false;
        const auto extent = ir::ConstInt(axis->extent);
        if (extent) {
          *covered += step * (*extent - 1);
        } else {
          covered = std::nullopt;
        }
      }
    }
    return std::all_of(axes_.begin(), axes_.end(), [&](const ir::Axis& axis) {
      return ir::IsConst(axis.extent, 1) || moving.count(axis.var.get()) > 0;
    });
  }

  // The axis whose steps a term passes through.
  const ir::Axis* AxisOf(const Expr& term) const {
    const auto* around = term.As<ir::Binary>();
    if (around != nullptr && around->op == ir::BinaryOp::kFloorMod) return LoopAround(*around);
    const auto found = std::find_if(axes_.begin(), axes_.end(),
                                    [&](const ir::Axis& axis) { return axis.var.same_as(term); });
    return found != axes_.end() ? &*found : nullptr;
  }

  // The loop of n steps that each block begins where it likes, and goes around: (k + block) % n.
  // For whatever is added, the same for all steps of the loop (of a block, say), its n steps meet
  // each remainder once. Null where the term is no such: what it covers is not known.
  const ir::Axis* LoopAround(const ir::Binary& mod) const {
    const ir::LinearForm place = ir::Linearize(mod.a);
    const ir::Axis* loop = nullptr;
    for (auto axis = axes_.begin() + static_cast<int64_t>(blocks_); axis != axes_.end(); ++axis) {
      if (!ir::Uses(mod.a, axis->var)) continue;
      const auto steps = ir::ConstInt(axis->extent);
      const bool whole = steps && steps == ir::ConstInt(mod.b);
      const bool alone = std::all_of(place.terms.begin(), place.terms.end(), [&](const auto& term) {
        return term.first.same_as(axis->var) ? std::abs(term.second) == 1
                                             : !ir::Uses(term.first, axis->var);
      });
      if (loop != nullptr || !whole || !alone) return nullptr;
      loop = &*axis;
    }
    return loop;
  }

  const size_t blocks_;         // of `axes_`, how many are the grid's
  std::vector<ir::Axis> axes_;  // of the grid, then of the loops around
  ir::VarMap values_;
  std::set<const ir::BufferNode*> seen_, again_;
};

}  // namespace

absl::StatusOr<ir::Program> StreamLoads(const ir::Program& program, const PassContext& context) {
  const int64_t least = GpuOf(context).llc.bytes / kLeastShare;
  const std::vector<ir::Buffer> written = ir::BuffersWritten(program.body);
  int64_t stored = 0;
  for (const ir::Buffer& b : written) {
    if (b->scope == ir::Scope::kGlobal) stored += ir::BytesOf(b).value_or(0);
  }
  if (stored >= least) return program;
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr) return {};
    std::optional<Readings> readings;
    auto notes = launch->annotations;
    for (const ir::Param& p : program.params) {
      if (p.kind != ir::Param::kTensor || ir::BytesOf(p.buffer).value_or(0) < least) continue;
      if (std::find(written.begin(), written.end(), p.buffer) != written.end()) continue;
      if (!readings) readings.emplace(*launch);
      if (readings->Once(p.buffer)) notes[absl::StrCat("stream:", p.buffer->name)] = "1";
    }
    if (notes == launch->annotations) return {};
    return ir::MakeStmt<ir::Launch>(s->loc, launch->grid, launch->threads, launch->body,
                                    std::move(notes));
  });
  return out;
}

}  // namespace kiln::passes
