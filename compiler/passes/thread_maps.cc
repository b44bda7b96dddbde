#include "compiler/passes/thread_maps.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/inverse.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using layout::Axis;
using layout::Ownership;
using layout::ThreadRange;

constexpr int64_t kWidths[] = {1, 2, 4, 8, 16};

Expr Always(const Expr&, const Expr&, const Expr&) { return {}; }

Expr And(const Expr& a, const Expr& b) {
  if (!a.defined()) return b;
  return b.defined() ? a && b : a;
}

int64_t FirstOwner(const Ownership& o, int64_t x) {
  return static_cast<int64_t>(o.Owners(x)._Find_first());
}

// Everybody runs everything.
std::optional<ThreadShare> Replicated(const Ownership& loop, ThreadRange threads) {
  const layout::ThreadSet all = threads.Set();
  for (int64_t i = 0; i < loop.size(); ++i) {
    if (loop.Owners(i) != all) return std::nullopt;
  }
  ThreadShare share;
  share.steps = loop.size();
  share.iteration = [](const Expr&, const Expr& step) { return step; };
  share.exists = Always;
  share.acts = [first = threads.first, count = threads.count](const Expr& thread, const Expr&) {
    return count == 1 ? Expr() : Equal(thread, MakeInt(first));
  };
  return share;
}

// Groups of `width` neighbours in turn: Ownership::Planned, whatever the size.
std::optional<ThreadShare> DealtOut(const Ownership& loop, ThreadRange threads, int64_t width) {
  const int64_t n = loop.size(), round = threads.count * width;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t owner = threads.first + i / width % threads.count;
    if (FirstOwner(loop, i) != owner || loop.Owners(i).count() != 1) return std::nullopt;
  }
  ThreadShare share;
  share.steps = (n + round - 1) / round * width;
  share.iteration = [=](const Expr& thread, const Expr& step) {
    const Expr group =
        FloorDiv(step, MakeInt(width)) * MakeInt(threads.count) + (thread - MakeInt(threads.first));
    return group * MakeInt(width) + FloorMod(step, MakeInt(width));
  };
  share.exists = [=](const Expr&, const Expr&, const Expr& i) {
    return n % round == 0 ? Expr() : i < MakeInt(n);
  };
  share.acts = [](const Expr&, const Expr&) { return Expr(); };
  return share;
}

// One axis of a layout's inverse: its value without the offset, and the digits read off it.
Expr DigitOf(const layout::DigitDecode& digit, const Expr& v) {
  Expr value = FloorDiv(v, MakeInt(digit.divisor));
  if (digit.modulus > 0) value = FloorMod(value, MakeInt(digit.modulus));
  return digit.flipped ? MakeInt(digit.iter.extent - 1) - value : value;
}

std::optional<Expr> ConditionOf(const layout::Guard& guard, const Expr& v) {
  using Kind = layout::Guard::Kind;
  switch (guard.kind) {
    case Kind::kMultiple:
      return Equal(FloorMod(v, MakeInt(guard.a)), MakeInt(0));
    case Kind::kAtLeast:
      return v >= MakeInt(0);
    case Kind::kBelow:
      return v < MakeInt(guard.a);
    case Kind::kDigit:
      return FloorMod(FloorDiv(v, MakeInt(guard.a)), MakeInt(guard.b)) < MakeInt(guard.c);
    case Kind::kEqual:
      return Equal(v, MakeInt(0));
    case Kind::kGreedy:
    case Kind::kMember:
      break;
  }
  return std::nullopt;
}

// What of an inverse is written into a program.
struct Digits {
  layout::Inverse inverse;
  std::vector<layout::Guard> guards;  // that the ranges of threads and steps do not imply

  const layout::AxisDecode* On(Axis axis) const {
    for (const layout::AxisDecode& decode : inverse.decodes()) {
      if (decode.axis == axis) return &decode;
    }
    return nullptr;
  }
  static Expr Value(const layout::AxisDecode& decode, const Expr& thread, const Expr& step) {
    return (decode.axis == Axis::kTx ? thread : step) - MakeInt(decode.offset);
  }
};

std::optional<Digits> DigitsOf(const Ownership& packed, ThreadRange threads) {
  const absl::StatusOr<layout::Layout> digits = packed.ToLayout();
  if (!digits.ok()) return std::nullopt;
  absl::StatusOr<layout::Inverse> inverse = layout::Inverse::Of(*digits);
  if (!inverse.ok()) return std::nullopt;
  Digits out = {*std::move(inverse), {}};
  for (const layout::AxisDecode& decode : out.inverse.decodes()) {
    if (decode.method != layout::AxisDecode::Method::kChain || decode.swizzle) return std::nullopt;
  }
  const auto by_thread =
      out.inverse.GuardsWithin(Axis::kTx, threads.first, threads.first + threads.count);
  const auto by_step = out.inverse.GuardsWithin(Axis::kM, 0, packed.slots());
  for (const layout::Guard& guard : by_thread) {
    if (std::find(by_step.begin(), by_step.end(), guard) == by_step.end()) continue;
    if (!ConditionOf(guard, MakeInt(0))) return std::nullopt;
    out.guards.push_back(guard);
  }
  return out;
}

// The digits of a layout.
std::optional<ThreadShare> ByDigits(const Ownership& loop, ThreadRange threads) {
  const Ownership packed = loop.Packed();
  const std::optional<Digits> found = DigitsOf(packed, threads);
  if (!found) return std::nullopt;
  ThreadShare share;
  share.steps = packed.slots();
  const auto sum = [digits = *found](bool in_replica, const Expr& thread, const Expr& step) {
    Expr total = MakeInt(0);
    for (const layout::AxisDecode& decode : digits.inverse.decodes()) {
      const Expr v = Digits::Value(decode, thread, step);
      for (const layout::DigitDecode& digit : decode.digits) {
        if (digit.in_replica == in_replica) {
          total = total + DigitOf(digit, v) * MakeInt(digit.place);
        }
      }
    }
    return total;
  };
  share.iteration = [sum](const Expr& thread, const Expr& step) {
    return sum(false, thread, step);
  };
  share.exists = [digits = *found, threads](const Expr& thread, const Expr& step, const Expr&) {
    Expr all;
    for (const layout::Guard& guard : digits.guards) {
      all = And(all, *ConditionOf(guard, Digits::Value(*digits.On(guard.axis), thread, step)));
    }
    if (digits.On(Axis::kTx) != nullptr || threads.count == 1) return all;
    return And(all, Equal(thread, MakeInt(0)));  // one thread has everything
  };
  share.acts = [sum, copies = packed.Copies()](const Expr& thread, const Expr& step) {
    return copies == 1 ? Expr() : Equal(sum(true, thread, step), MakeInt(0));
  };
  return share;
}

// The iterations of every thread, listed.
ThreadShare Listed(const Ownership& loop, ThreadRange threads, ConstantTables* tables) {
  std::vector<std::vector<int64_t>> lists(threads.count);
  for (int64_t i = 0; i < loop.size(); ++i) {
    const layout::ThreadSet& owners = loop.Owners(i);
    for (size_t t = owners._Find_first(); t < owners.size(); t = owners._Find_next(t)) {
      lists[t - threads.first].push_back(i);
    }
  }
  ThreadShare share;
  for (const auto& list : lists) {
    share.steps = std::max(share.steps, static_cast<int64_t>(list.size()));
  }
  std::vector<int64_t> iterations(threads.count * share.steps, -1), acts(iterations.size(), 0);
  for (int64_t t = 0; t < threads.count; ++t) {
    for (size_t s = 0; s < lists[t].size(); ++s) {
      iterations[t * share.steps + static_cast<int64_t>(s)] = lists[t][s];
      acts[t * share.steps + static_cast<int64_t>(s)] =
          FirstOwner(loop, lists[t][s]) == threads.first + t;
    }
  }
  const auto row = [first = threads.first](const Expr& thread, const Expr& step) {
    return std::vector<Expr>{thread - MakeInt(first), step};
  };
  const std::vector<int64_t> shape = {threads.count, share.steps};
  const ir::Buffer table = tables->Add("iterations", shape, std::move(iterations));
  share.iteration = [=](const Expr& thread, const Expr& step) {
    return ir::MakeLoad(table, row(thread, step));
  };
  share.exists = [](const Expr&, const Expr&, const Expr& i) { return i >= MakeInt(0); };
  share.acts = [](const Expr&, const Expr&) { return Expr(); };
  if (loop.Copies() > 1) {
    const ir::Buffer first = tables->Add("acts", shape, std::move(acts));
    share.acts = [=](const Expr& thread, const Expr& step) {
      return Equal(ir::MakeLoad(first, row(thread, step)), MakeInt(1));
    };
  }
  return share;
}

// Whether `slot_of` is the slot of every element that somebody holds.
template <typename F>
bool Fits(const Ownership& fragment, const F& slot_of) {
  for (int64_t x = 0; x < fragment.size(); ++x) {
    if (fragment.decided(x) && fragment.Slot(x) != slot_of(x)) return false;
  }
  return true;
}

}  // namespace

ir::Buffer ConstantTables::Add(const std::string& name, const std::vector<int64_t>& shape,
                               std::vector<int64_t> values) {
  std::vector<Expr> extents;
  for (const int64_t extent : shape) extents.push_back(MakeInt(extent));
  for (const ir::Buffer& table : tables_) {
    const bool same_shape = std::equal(extents.begin(), extents.end(), table->shape.begin(),
                                       table->shape.end(), ir::Same);
    if (same_shape && *table->values == values) return table;
  }
  ir::BufferNode node =
      *ir::MakeBuffer(absl::StrCat(name, tables_.size()), kInt32, extents, ir::Scope::kConstant);
  node.values = std::make_shared<const std::vector<int64_t>>(std::move(values));
  tables_.push_back(std::make_shared<const ir::BufferNode>(std::move(node)));
  return tables_.back();
}

std::vector<ir::Stmt> ConstantTables::Allocations() const {
  std::vector<ir::Stmt> stmts;
  for (const ir::Buffer& table : tables_) stmts.push_back(ir::MakeStmt<ir::Alloc>({}, table));
  return stmts;
}

ThreadShare ShareOf(const Ownership& loop, ThreadRange threads, ConstantTables* tables) {
  KILN_CHECK(loop.complete() && (loop.Threads() & ~threads.Set()).none());
  if (auto share = Replicated(loop, threads)) return *std::move(share);
  for (const int64_t width : kWidths) {
    if (auto share = DealtOut(loop, threads, width)) return *std::move(share);
  }
  if (auto share = ByDigits(loop, threads)) return *std::move(share);
  return Listed(loop, threads, tables);
}

std::function<Expr(const Expr&)> SlotsOf(const Ownership& fragment, const std::string& name,
                                         ConstantTables* tables) {
  if (Fits(fragment, [](int64_t x) { return x; })) return [](const Expr& flat) { return flat; };
  const int64_t threads = static_cast<int64_t>(fragment.Threads().count());
  for (const int64_t width : kWidths) {
    const int64_t round = threads * width;
    if (!Fits(fragment, [&](int64_t x) { return x / round * width + x % width; })) continue;
    return [=](const Expr& flat) {
      return FloorDiv(flat, MakeInt(round)) * MakeInt(width) + FloorMod(flat, MakeInt(width));
    };
  }
  if (const auto digits = fragment.ToLayout(); digits.ok()) {
    return [layout = *digits](const Expr& flat) {
      Expr slot = MakeInt(layout.offset(Axis::kM));
      int64_t place = layout.size();
      for (const layout::Iter& iter : layout.shard()) {
        place /= iter.extent;
        if (iter.axis != Axis::kM) continue;
        slot = slot + FloorMod(FloorDiv(flat, MakeInt(place)), MakeInt(iter.extent)) *
                          MakeInt(iter.stride);
      }
      return slot;
    };
  }
  std::vector<int64_t> slots;
  for (int64_t x = 0; x < fragment.size(); ++x) {
    slots.push_back(fragment.decided(x) ? fragment.Slot(x) : 0);
  }
  const ir::Buffer table = tables->Add(absl::StrCat(name, "_slots"), {fragment.size()}, slots);
  return [=](const Expr& flat) { return ir::MakeLoad(table, {flat}); };
}

}  // namespace kiln::passes
