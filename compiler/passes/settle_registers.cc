#include "compiler/passes/settle_registers.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_set>

#include "compiler/ir/evaluate.h"
#include "compiler/ir/visit.h"
#include "compiler/layout/layout.h"
#include "compiler/passes/build.h"
#include "compiler/passes/thread_maps.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

constexpr size_t kMostSlots = 4;                   // that threads use at one place
constexpr int64_t kMostPlaces = 4096;              // of a table
constexpr int64_t kMostPoints = int64_t{1} << 20;  // threads times places

struct Loop {
  Expr var;
  int64_t extent;
};

using Buffers = std::unordered_set<const ir::BufferNode*>;

// An index into registers: the slots that threads may mean, ascending, the last one repeated where
// a place has fewer. `exact` says which, and is not needed for one.
struct Choice {
  std::vector<Expr> slots;
  Expr exact;

  size_t Count() const { return slots.size(); }
  // Whether the thread's slot is one of the first, up to number w.
  Expr Reaches(size_t w) const { return Equal(slots[w], slots.back()) || exact <= slots[w]; }
  // Whether it is number w: of slots that are alike the first.
  Expr Is(size_t w) const {
    if (w == 0) return Reaches(0);
    const Expr beyond =
        ir::MakeBinary(ir::BinaryOp::kNe, slots[w], slots[w - 1]) && exact > slots[w - 1];
    return w + 1 == Count() ? beyond : beyond && Reaches(w);
  }
};

struct Access {
  std::vector<Expr> indices;
  size_t dim = 0;  // the index that is a choice
  Choice choice;   // of none: there is no such index

  size_t Count() const { return std::max<size_t>(choice.Count(), 1); }
  std::vector<Expr> At(size_t w) const {
    std::vector<Expr> at = indices;
    if (choice.Count() > 0) at[dim] = choice.slots[w];
    return at;
  }
};

class Settle : public ir::Mutator {
 public:
  // `spread`: the buffers that threads may index differently.
  explicit Settle(Buffers spread) : spread_(std::move(spread)) {}

  // The buffers that would need no memory if they were spread.
  Buffers Spreadable() const {
    Buffers out = differing_;
    for (const ir::BufferNode* buffer : stuck_) out.erase(buffer);
    return out;
  }

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
    return store != nullptr ? Stored(*store) : RebuildStmt(s);
  }
  Expr VisitExpr(const Expr& e) override {
    const auto* load = e.As<ir::Load>();
    if (load == nullptr || !IsHere(load->buffer)) return RebuildExpr(e);
    const Access access = AccessOf(load->buffer, load->indices);
    const Expr guard = load->predicate.defined() ? Mutate(load->predicate) : Expr();
    size_t w = access.Count() - 1;
    Expr out = ir::MakeLoad(load->buffer, access.At(w), guard);
    while (w-- > 0) {
      out = ir::MakeSelect(access.choice.Reaches(w),
                           ir::MakeLoad(load->buffer, access.At(w), guard), out);
    }
    return out;
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

  Stmt Stored(const ir::Store& store) {
    const Expr guard = store.predicate.defined() ? Mutate(store.predicate) : Expr();
    if (guard.defined()) guards_.push_back(ir::Substitute(store.predicate, names_));
    const Access access = AccessOf(store.buffer, store.indices);
    const Expr value = Mutate(store.value);
    if (guard.defined()) guards_.pop_back();
    if (access.Count() > 1) return StoredInOne(store, access, value, guard);
    return ir::MakeStmt<ir::Store>(store.loc, store.buffer, access.At(0), value, guard, store.way);
  }

  // To each slot that the place has, by the threads whose slot it is. The value comes first: it may
  // read any of them.
  static Stmt StoredInOne(const ir::Store& store, const Access& access, const Expr& value,
                          const Expr& guard) {
    const Expr held = ir::MakeVar("held", value.dtype());
    std::vector<Stmt> stmts = {ir::MakeStmt<ir::Bind>(store.loc, held, value)};
    for (size_t w = 0; w < access.Count(); ++w) {
      stmts.push_back(ir::MakeStmt<ir::Store>(store.loc, store.buffer, access.At(w), held,
                                              access.choice.Is(w), store.way));
    }
    const Stmt all = ir::MakeSeq(std::move(stmts), store.loc);
    return guard.defined() ? ir::MakeStmt<ir::If>(store.loc, guard, all) : all;
  }

  Stmt Guarded(const ir::If& branch) {
    const Expr condition = Mutate(branch.condition);
    guards_.push_back(ir::Substitute(branch.condition, names_));
    const Stmt then_case = Mutate(branch.then_case);
    guards_.pop_back();
    return ir::MakeStmt<ir::If>(branch.loc, condition, then_case,
                                branch.else_case.defined() ? Mutate(branch.else_case) : Stmt());
  }

  Access AccessOf(const ir::Buffer& buffer, const std::vector<Expr>& indices) {
    Access out;
    for (size_t d = 0; d < indices.size(); ++d) {
      const bool settle = IsHere(buffer) && d > 0;  // dimension 0 is the thread
      const std::vector<Expr> slots =
          settle ? Settled(*buffer, d, indices[d]) : std::vector<Expr>();
      out.indices.push_back(slots.size() == 1 ? slots[0] : Mutate(indices[d]));
      if (slots.size() < 2) continue;
      out.dim = d;
      out.choice = {slots, out.indices[d]};
    }
    return out;
  }

  // The index as the loops alone say it: one slot where that is so for all threads, those that they
  // use where the buffer is spread; else none.
  std::vector<Expr> Settled(const ir::BufferNode& buffer, size_t d, const Expr& index) {
    const Expr whole = ir::Substitute(index, names_);
    if (!ir::Uses(whole, thread_)) return {};
    std::vector<Expr> variables = {thread_};
    std::vector<int64_t> extents;
    Expr place = ir::MakeInt(0);
    for (const Loop& loop : loops_) {
      if (!ir::Uses(whole, loop.var)) continue;
      variables.push_back(loop.var);
      extents.push_back(loop.extent);
      place = place * ir::MakeInt(loop.extent) + loop.var;
    }
    const std::vector<std::set<int64_t>> slots = SlotsOf(whole, variables, extents);
    size_t most = 0;  // at one place
    for (const std::set<int64_t>& here : slots) most = std::max(most, here.size());
    // Of one index beside the thread's, and of registers that are there.
    const bool spreads = most > 1 && buffer.shape.size() == 2 && AreInside(slots, buffer.shape[d]);
    if (most == 0 || (most > 1 && !spreads)) stuck_.insert(&buffer);
    if (spreads) differing_.insert(&buffer);
    if (most == 0 || (most > 1 && spread_.count(&buffer) == 0)) return {};
    std::vector<Expr> out;
    for (size_t w = 0; w < most; ++w) out.push_back(LookedUp(slots, w, place, index.dtype()));
    return out;
  }

  static bool AreInside(const std::vector<std::set<int64_t>>& slots, const Expr& extent) {
    return std::all_of(slots.begin(), slots.end(), [&](const std::set<int64_t>& here) {
      return *here.begin() >= 0 && *here.rbegin() < ir::ConstInt(extent).value_or(0);
    });
  }

  // Slot number w of each place, or its last.
  Expr LookedUp(const std::vector<std::set<int64_t>>& slots, size_t w, const Expr& place,
                DType type) {
    std::vector<int64_t> values;
    for (const std::set<int64_t>& here : slots) {
      values.push_back(
          *std::next(here.begin(), static_cast<int64_t>(std::min(w, here.size() - 1))));
    }
    const bool same = std::all_of(values.begin(), values.end(),
                                  [&](int64_t slot) { return slot == values.front(); });
    if (same) return ir::MakeInt(values.front(), type);
    const ir::Buffer table = tables_.Add("slots", {static_cast<int64_t>(values.size())}, values);
    return ir::MakeCast(type, ir::MakeLoad(table, {place}));
  }

  // The values of `whole` at each place of the loops, over the threads that all guards let pass.
  // Anything at a place that nobody passes; none at all where threads differ by too much.
  std::vector<std::set<int64_t>> SlotsOf(const Expr& whole, const std::vector<Expr>& variables,
                                         const std::vector<int64_t>& extents) const {
    const auto function = ir::IntFunction::Of(whole, variables);
    int64_t places = 1;
    for (const int64_t extent : extents) places = std::min(places * extent, kMostPlaces + 1);
    if (!function.ok() || places > kMostPlaces || places * threads_ > kMostPoints || places < 1) {
      return {};
    }
    const std::vector<ir::IntFunction> guards = GuardsOn(variables);
    std::vector<std::set<int64_t>> slots;
    for (int64_t place = 0; place < places; ++place) {
      std::vector<int64_t> values = layout::Unflatten(place, extents);
      values.insert(values.begin(), first_);
      std::set<int64_t>& here = slots.emplace_back();
      for (int64_t t = 0; t < threads_; ++t) {
        values[0] = first_ + t;
        const bool passes = std::all_of(guards.begin(), guards.end(),
                                        [&](const ir::IntFunction& g) { return g(values) != 0; });
        if (!passes) continue;
        const std::optional<int64_t> own = (*function)(values);
        if (!own) return {};
        here.insert(*own);
        if (here.size() > kMostSlots) return {};
      }
      if (here.empty()) here.insert(0);
    }
    return slots;
  }

  // Those that the variables decide.
  std::vector<ir::IntFunction> GuardsOn(const std::vector<Expr>& variables) const {
    std::vector<ir::IntFunction> guards;
    for (const Expr& guard : guards_) {
      if (auto f = ir::IntFunction::Of(guard, variables); f.ok()) guards.push_back(*std::move(f));
    }
    return guards;
  }

  const Buffers spread_;
  Buffers differing_, stuck_;
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
  Settle plain({});
  out.body = plain.Mutate(program.body);
  // Choices are worth their comparisons where they keep all of a buffer out of memory.
  if (const Buffers spread = plain.Spreadable(); !spread.empty()) {
    out.body = Settle(spread).Mutate(program.body);
  }
  return out;
}

}  // namespace kiln::passes
