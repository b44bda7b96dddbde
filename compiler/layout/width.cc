// Vector widths of banks.h.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/banks.h"
#include "compiler/layout/injective.h"
#include "compiler/layout/integers.h"
#include "compiler/layout/regroup.h"
#include "compiler/layout/table.h"

namespace kiln::layout {
namespace {

constexpr int64_t kMaxPlacements = int64_t{1} << 22;

int64_t FloorPowerOfTwo(int64_t n) { return n < 1 ? 1 : int64_t{1} << Log2(n); }

// Largest power of two that divides n; 2^60 for zero.
int64_t TwoPart(int64_t n) { return n == 0 ? kMaxReach : n & -n; }

// Digits in the order in which the groups run, fastest last: the run of unit-stride digits at the
// fast end, then everything else must be aligned to the group.
int64_t AffineWidth(const std::vector<Iter>& order, const Layout& memory, int64_t limit) {
  int64_t run = 1;
  size_t k = order.size();
  while (k > 0 && (order[k - 1].extent == 1 ||
                   (order[k - 1].stride == run && order[k - 1].axis == Axis::kM))) {
    run *= order[--k].extent;
  }
  int64_t width =
      std::min({FloorPowerOfTwo(limit), TwoPart(run), TwoPart(memory.offset(Axis::kM))});
  for (size_t i = 0; i < k; ++i) width = std::min(width, TwoPart(order[i].stride));
  for (const Iter& iter : memory.replica()) {
    if (iter.extent > 1 && iter.axis == Axis::kM) width = std::min(width, TwoPart(iter.stride));
  }
  return width;
}

absl::Status CheckMemory(const Layout& memory) {
  for (const Axis axis : memory.axes()) {
    if (axis != Axis::kM) {
      return BadArgument(absl::StrCat("a memory layout has the axis m only, not ", NameOf(axis)));
    }
  }
  return absl::OkStatus();
}

// (thread coordinate, slot) of every element, sorted, against the addresses.
struct Access {
  std::vector<int64_t> thread;
  int64_t slot;
  int64_t address;
};

std::vector<Access> AccessesOf(const Layout& owner, const Layout& memory) {
  std::vector<Access> accesses;
  std::vector<int64_t> values(owner.axes().size()), address(memory.axes().size());
  for (int64_t x = 0; x < owner.size(); ++x) {
    for (int64_t q = 0; q < owner.copies(); ++q) {
      owner.Evaluate(x, q, values.data());
      memory.Evaluate(x, 0, address.data());
      Access a{{}, 0, address.empty() ? 0 : address[0]};
      for (size_t i = 0; i < values.size(); ++i) {
        if (owner.axes()[i] == Axis::kM) {
          a.slot = values[i];
        } else {
          a.thread.push_back(values[i]);
        }
      }
      accesses.push_back(std::move(a));
    }
  }
  std::sort(accesses.begin(), accesses.end(), [](const Access& a, const Access& b) {
    return a.thread != b.thread ? a.thread < b.thread : a.slot < b.slot;
  });
  return accesses;
}

bool WidthHolds(const std::vector<Access>& accesses, int64_t v) {
  for (size_t i = 0; i < accesses.size(); i += v) {
    const Access& first = accesses[i];
    if (first.slot % v != 0 || first.address % v != 0) return false;
    if (i + v > accesses.size()) return false;
    for (int64_t j = 1; j < v; ++j) {
      const Access& a = accesses[i + j];
      if (a.thread != first.thread || a.slot != first.slot + j || a.address != first.address + j) {
        return false;
      }
    }
  }
  return true;
}

int64_t WidthByTable(const Layout& owner, const Layout& memory, int64_t limit) {
  const std::vector<Access> accesses = AccessesOf(owner, memory);
  for (int64_t v = FloorPowerOfTwo(limit); v > 1; v /= 2) {
    if (WidthHolds(accesses, v)) return v;
  }
  return 1;
}

// Memory digits ordered by the owner: other axes first, then slots from the largest stride to the
// smallest; nullopt unless the slots are 0, 1, 2, ... without holes.
std::optional<std::vector<Iter>> OrderedBySlot(const Layout& owner, const Layout& memory) {
  const auto refined = Refine(TileLayout(owner), TileLayout(memory));
  if (!refined.ok() || owner.offset(Axis::kM) != 0 || owner.copies() != 1) return std::nullopt;
  std::vector<std::pair<int64_t, Iter>> slots;
  std::vector<Iter> order;
  for (size_t k = 0; k < refined->first.shard().size(); ++k) {
    const Iter& own = refined->first.shard()[k];
    const Iter& mem = refined->second.shard()[k];
    if (own.axis == Axis::kM && own.stride > 0) {
      slots.emplace_back(own.stride, mem);
    } else if (own.axis == Axis::kM && own.stride < 0) {
      return std::nullopt;
    } else if (own.stride != 0) {
      order.push_back(mem);
    } else if (own.extent > 1) {
      return std::nullopt;
    }
  }
  std::sort(slots.begin(), slots.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  int64_t dense = 1;
  for (const auto& [stride, iter] : slots) {
    if (stride != dense) return std::nullopt;
    dense *= iter.extent;
  }
  for (size_t k = slots.size(); k-- > 0;) order.push_back(slots[k].second);
  return order;
}

// A swizzle keeps aligned runs of 2^M whole, so up to there it changes no answer.
bool Settled(const Layout& memory, int64_t width, int64_t limit) {
  const SwizzleLayout* s = memory.swizzle(Axis::kM);
  return s == nullptr || width < s->run() || (width == s->run() && 2 * width > limit);
}

}  // namespace

int64_t ContiguousWidth(const Layout& memory, int64_t max_elements, int64_t base_alignment) {
  const int64_t limit = std::min({max_elements, TwoPart(base_alignment), TwoPart(memory.size())});
  const int64_t width = AffineWidth(Canonical(memory).shard(), memory, limit);
  if (Settled(memory, width, limit)) return width;
  if (memory.size() > kMaxPlacements) return memory.swizzle(Axis::kM)->run();
  return WidthByTable(*Layout::FromIters({{memory.size(), 1, Axis::kM}}), memory, limit);
}

absl::StatusOr<int64_t> VectorWidth(const Layout& owner, const Layout& memory, int64_t max_elements,
                                    int64_t base_alignment) {
  KILN_RETURN_IF_ERROR(CheckMemory(memory));
  if (memory.copies() != 1) return BadArgument("a memory layout with copies has no vector width");
  if (owner.size() != memory.size()) return BadArgument("owner and memory differ in size");
  KILN_ASSIGN_OR_RETURN(const auto collision, SearchCollision(owner));
  if (collision.has_value()) return Refuse(collision->ToWitness());
  const int64_t limit = std::min(max_elements, TwoPart(base_alignment));
  const auto order = OrderedBySlot(owner, memory);
  if (order.has_value()) {
    const int64_t width =
        AffineWidth(*order, memory, std::min(limit, TwoPart(owner.size(Axis::kM))));
    if (Settled(memory, width, limit)) return width;
  }
  if (owner.size() > kMaxPlacements / owner.copies()) {
    return absl::ResourceExhaustedError("a vector width over more than 2^22 placements");
  }
  return WidthByTable(owner, memory, limit);
}

}  // namespace kiln::layout
