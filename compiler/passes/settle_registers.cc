#include "compiler/passes/settle_registers.h"

#include <algorithm>

#include "compiler/ir/evaluate.h"
#include "compiler/ir/visit.h"
#include "compiler/layout/layout.h"
#include "compiler/passes/build.h"
#include "compiler/passes/thread_maps.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

constexpr int64_t kMostPlaces = 4096;              // of a table
constexpr int64_t kMostPoints = int64_t{1} << 20;  // threads times places

struct Loop {
  Expr var;
  int64_t extent;
};

class Settle : public ir::Mutator {
 protected:
  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* launch = s.As<ir::Launch>()) return Block(*launch);
    if (const auto* loop = s.As<ir::For>()) return Around(*loop, s);
    if (const auto* bind = s.As<ir::Bind>(); bind != nullptr && thread_.defined()) {
      if (!bind->value.dtype().is_float()) {
        names_[bind->var.get()] = ir::Substitute(bind->value, names_);
      }
      return RebuildStmt(s);
    }
    if (const auto* branch = s.As<ir::If>()) return Guarded(*branch);
    const auto* store = s.As<ir::Store>();
    if (store == nullptr) return RebuildStmt(s);
    const Expr guard = store->predicate.defined() ? Mutate(store->predicate) : Expr();
    if (guard.defined()) guards_.push_back(ir::Substitute(store->predicate, names_));
    const Stmt out =
        ir::MakeStmt<ir::Store>(s->loc, store->buffer, IndicesOf(store->buffer, store->indices),
                                Mutate(store->value), guard, store->way);
    if (guard.defined()) guards_.pop_back();
    return out;
  }
  Expr VisitExpr(const Expr& e) override {
    const auto* load = e.As<ir::Load>();
    if (load == nullptr || !IsHere(load->buffer)) return RebuildExpr(e);
    return ir::MakeLoad(load->buffer, IndicesOf(load->buffer, load->indices),
                        load->predicate.defined() ? Mutate(load->predicate) : Expr());
  }

 private:
  bool IsHere(const ir::Buffer& b) const {
    return thread_.defined() && b->scope == ir::Scope::kRegister;
  }

  Stmt Block(const ir::Launch& launch) {
    tables_ = {};
    const Stmt body = Mutate(launch.body);
    std::vector<Stmt> stmts = tables_.Allocations();
    if (stmts.empty()) {
      return ir::MakeStmt<ir::Launch>(launch.loc, launch.grid, launch.threads, body,
                                      launch.annotations);
    }
    stmts.push_back(body);
    return ir::MakeStmt<ir::Launch>(launch.loc, launch.grid, launch.threads,
                                    ir::MakeSeq(std::move(stmts), launch.loc), launch.annotations);
  }

  Stmt Around(const ir::For& loop, const Stmt& s) {
    const ir::Axis& axis = loop.axes[0];
    const auto min = ir::ConstInt(axis.min), extent = ir::ConstInt(axis.extent);
    if (loop.loop == ir::ForKind::kThreads && min && extent) {
      thread_ = axis.var;
      first_ = *min;
      threads_ = *extent;
      const Stmt out = RebuildStmt(s);
      thread_ = {};
      names_.clear();
      return out;
    }
    const bool counts =
        thread_.defined() && loop.loop == ir::ForKind::kSerial && extent && min == int64_t{0};
    if (counts) loops_.push_back({axis.var, *extent});
    const Stmt out = RebuildStmt(s);
    if (counts) loops_.pop_back();
    return out;
  }

  Stmt Guarded(const ir::If& branch) {
    const Expr condition = Mutate(branch.condition);
    guards_.push_back(ir::Substitute(branch.condition, names_));
    const Stmt then_case = Mutate(branch.then_case);
    guards_.pop_back();
    return ir::MakeStmt<ir::If>(branch.loc, condition, then_case,
                                branch.else_case.defined() ? Mutate(branch.else_case) : Stmt());
  }

  std::vector<Expr> IndicesOf(const ir::Buffer& buffer, const std::vector<Expr>& indices) {
    std::vector<Expr> out;
    for (const Expr& index : indices) {
      const bool settle = IsHere(buffer) && !index.same_as(thread_);
      out.push_back(settle ? Settled(index) : Mutate(index));
    }
    return out;
  }

  // The index as the loops alone say it, where that is so for all threads.
  Expr Settled(const Expr& index) {
    const Expr whole = ir::Substitute(index, names_);
    if (!ir::Uses(whole, thread_)) return Mutate(index);
    std::vector<Expr> variables = {thread_};
    std::vector<int64_t> extents;
    Expr place = ir::MakeInt(0);
    for (const Loop& loop : loops_) {
      if (!ir::Uses(whole, loop.var)) continue;
      variables.push_back(loop.var);
      extents.push_back(loop.extent);
      place = place * ir::MakeInt(loop.extent) + loop.var;
    }
    const auto function = ir::IntFunction::Of(whole, variables);
    if (!function.ok()) return Mutate(index);
    std::vector<ir::IntFunction> guards;  // those that the same variables decide
    for (const Expr& guard : guards_) {
      if (auto f = ir::IntFunction::Of(guard, variables); f.ok()) guards.push_back(*std::move(f));
    }
    const std::optional<std::vector<int64_t>> slots = SlotsOf(*function, guards, extents);
    if (!slots) return Mutate(index);
    const bool same = std::all_of(slots->begin(), slots->end(),
                                  [&](int64_t slot) { return slot == slots->front(); });
    if (same) return ir::MakeInt(slots->front(), index.dtype());
    const ir::Buffer table = tables_.Add("slots", {static_cast<int64_t>(slots->size())}, *slots);
    return ir::MakeCast(index.dtype(), ir::MakeLoad(table, {place}));
  }

  // The function's value at each place of the loops; nullopt where threads differ that all guards
  // let pass. Anything at a place that nobody passes.
  std::optional<std::vector<int64_t>> SlotsOf(const ir::IntFunction& function,
                                              const std::vector<ir::IntFunction>& guards,
                                              const std::vector<int64_t>& extents) const {
    int64_t places = 1;
    for (const int64_t extent : extents) places = std::min(places * extent, kMostPlaces + 1);
    if (places > kMostPlaces || places * threads_ > kMostPoints || places < 1) return std::nullopt;
    std::vector<int64_t> slots;
    for (int64_t place = 0; place < places; ++place) {
      std::vector<int64_t> values = layout::Unflatten(place, extents);
      values.insert(values.begin(), first_);
      std::optional<int64_t> slot;
      for (int64_t t = 0; t < threads_; ++t) {
        values[0] = first_ + t;
        const bool passes = std::all_of(guards.begin(), guards.end(),
                                        [&](const ir::IntFunction& g) { return g(values) != 0; });
        if (!passes) continue;
        const std::optional<int64_t> own = function(values);
        if (!own || (slot && *slot != *own)) return std::nullopt;
        slot = own;
      }
      slots.push_back(slot.value_or(0));
    }
    return slots;
  }

  ConstantTables tables_;
  Expr thread_;  // undefined outside of the block's threads
  int64_t first_ = 0, threads_ = 0;
  std::vector<Loop> loops_;
  std::vector<Expr> guards_;
  ir::VarMap names_;
};

}  // namespace

absl::StatusOr<ir::Program> SettleRegisters(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = Settle().Mutate(program.body);
  return out;
}

}  // namespace kiln::passes
