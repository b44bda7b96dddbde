#include "compiler/layout/ownership.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/factor.h"
#include "compiler/layout/pack.h"
#include "compiler/layout/scopes.h"
#include "compiler/layout/table.h"

namespace kiln::layout {
namespace {

constexpr int64_t kMaxSlots = int64_t{1} << 24;

int64_t FirstOf(const ThreadSet& threads) { return static_cast<int64_t>(threads._Find_first()); }

Coord Place(int64_t thread, int64_t slot) { return Coord({{Axis::kTx, thread}, {Axis::kM, slot}}); }
Coord Thread(int64_t thread) { return Coord({{Axis::kTx, thread}}); }

absl::Status CheckAxes(const Layout& fused) {
  for (const Axis axis : fused.axes()) {
    if (axis == Axis::kTx || axis == Axis::kM) continue;
    return BadArgument(
        absl::StrCat("a fragment's layout is on the threads of the block and on slots "
                     "(m), not on ",
                     NameOf(axis)));
  }
  const auto [low, high] = fused.Range(Axis::kTx);
  if (low < 0 || high >= kMaxThreads) {
    return BadArgument(
        absl::StrCat("threads ", low, "..", high, " are not within 0..", kMaxThreads - 1));
  }
  const auto [first, last] = fused.Range(Axis::kM);
  if (first < 0 || last >= kMaxSlots) {
    return BadArgument(
        absl::StrCat("slots ", first, "..", last, " are not within 0..", kMaxSlots - 1));
  }
  return absl::OkStatus();
}

}  // namespace

ThreadSet ThreadRange::Set() const {
  ThreadSet set;
  for (int64_t t = first; t < first + count; ++t) set.set(t);
  return set;
}

std::string ToString(const ThreadSet& threads) {
  std::string text;
  for (int64_t t = 0; t < kMaxThreads; ++t) {
    if (!threads[t]) continue;
    int64_t last = t;
    while (last + 1 < kMaxThreads && threads[last + 1]) ++last;
    absl::StrAppend(&text, text.empty() ? "" : ",", t);
    if (last > t) absl::StrAppend(&text, last > t + 1 ? ".." : ",", last);
    t = last;
  }
  return text.empty() ? "nobody" : text;
}

Ownership::Ownership(int64_t size) : set_of_(size, -1), slot_(size, 0), undecided_(size) {}

int32_t Ownership::Intern(const ThreadSet& threads) {
  // Hashing a set costs more than comparing two: most sets were met a moment ago.
  int32_t& recent = recent_[threads._Find_first() % recent_.size()];
  if (recent < static_cast<int32_t>(sets_.size()) && sets_[recent] == threads) return recent;
  const auto [it, added] = set_ids_.try_emplace(threads, static_cast<int32_t>(sets_.size()));
  if (added) sets_.push_back(threads);
  recent = it->second;
  return recent;
}

void Ownership::Set(int64_t x, const ThreadSet& threads, int64_t slot) {
  KILN_CHECK(threads.any() && slot >= 0 && slot < kMaxSlots);
  Put(x, Intern(threads), slot);
}

const ThreadSet& Ownership::Owners(int64_t x) const {
  static const ThreadSet nobody;
  return set_of_[x] < 0 ? nobody : sets_[set_of_[x]];
}

// One owner each.
void Ownership::PutAlone(const std::vector<int64_t>& threads, const std::vector<int64_t>& slots) {
  std::vector<int32_t> ids(kMaxThreads, -1);
  for (int64_t x = 0; x < size(); ++x) {
    int32_t& id = ids[threads[x]];
    if (id < 0) id = Intern(ThreadSet().set(threads[x]));
    Put(x, id, slots[x]);
  }
}

absl::StatusOr<Ownership> Ownership::Of(const Layout& layout, int64_t size) {
  if (size < 0 || size > layout.size()) {
    return BadArgument(
        absl::StrCat("the layout has ", layout.size(), " elements, ", size, " are asked for"));
  }
  KILN_ASSIGN_OR_RETURN(const Layout fused, FuseThreadAxes(layout));
  KILN_RETURN_IF_ERROR(CheckAxes(fused));
  const auto& axes = fused.axes();
  const auto index = [&](Axis axis) {
    return static_cast<size_t>(std::find(axes.begin(), axes.end(), axis) - axes.begin());
  };
  const size_t tx = index(Axis::kTx), m = index(Axis::kM);
  std::vector<int64_t> at(axes.size() + 1, 0);  // one more, always 0, for an axis that is absent
  Ownership result(size);
  if (fused.copies() == 1) {
    result.PutAlone(fused.Column(Axis::kTx), fused.Column(Axis::kM));
    if (const auto collision = FindCollision(result)) return Refuse(*collision);
    return result;
  }
  for (int64_t x = 0; x < size; ++x) {
    ThreadSet owners;
    int64_t slot = -1;
    for (int64_t copy = 0; copy < fused.copies(); ++copy) {
      fused.Evaluate(x, copy, at.data());
      if (slot >= 0 && at[m] != slot) {
        return Refuse({"the copies of one element have different slots", x, x,
                       Place(FirstOf(owners), slot), Place(at[tx], at[m])});
      }
      slot = at[m];
      owners.set(at[tx]);
    }
    result.Set(x, owners, slot);
  }
  if (const auto collision = FindCollision(result)) return Refuse(*collision);
  return result;
}

Ownership Ownership::Replicated(int64_t size, ThreadRange threads) {
  Ownership result(size);
  const ThreadSet all = threads.Set();
  for (int64_t x = 0; x < size; ++x) result.Set(x, all, x);
  return result;
}

Ownership Ownership::Planned(int64_t size, ThreadRange threads, int64_t width) {
  KILN_CHECK(threads.count > 0 && width > 0);
  Ownership result(size);
  std::vector<ThreadSet> one(threads.count);
  for (int64_t t = 0; t < threads.count; ++t) one[t].set(threads.first + t);
  for (int64_t x = 0; x < size; ++x) {
    const int64_t group = x / width;
    result.Set(x, one[group % threads.count], group / threads.count * width + x % width);
  }
  return result;
}

Ownership Ownership::PlannedRows(int64_t rows, int64_t columns, ThreadRange threads, int64_t width,
                                 int64_t across, int64_t down) {
  KILN_CHECK(columns % (across * width) == 0 && rows % down == 0 && across * down <= threads.count);
  Ownership result(rows * columns);
  std::vector<ThreadSet> one(threads.count);
  for (int64_t t = 0; t < threads.count; ++t) one[t].set(threads.first + t);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t x = 0; x < columns; ++x) {
      const int64_t group = x / width;
      const int64_t slot = r / down * (columns / across) + group / across * width + x % width;
      result.Set(r * columns + x, one[r % down * across + group % across], slot);
    }
  }
  return result;
}

int64_t Ownership::Copies() const {
  size_t most = 0;
  for (const ThreadSet& set : sets_) most = std::max(most, set.count());
  return static_cast<int64_t>(most);
}

ThreadSet Ownership::Threads() const {
  ThreadSet all;
  for (const ThreadSet& set : sets_) all |= set;
  return all;
}

bool Ownership::Disjoint() const {
  ThreadSet all;
  for (const ThreadSet& set : sets_) {
    if ((all & set).any()) return false;
    all |= set;
  }
  return true;
}

// Packed() where no set's slots stand in another's way.
Ownership Ownership::PackedApart() const {
  Ownership result(size());
  std::vector<int32_t> ids, next(sets_.size(), 0);
  for (int64_t x = 0; x < size(); ++x) {
    const int32_t set = set_of_[x];
    if (set >= 0) result.Put(x, result.InternAs(*this, set, &ids), next[set]++);
  }
  return result;
}

Ownership Ownership::Packed() const {
  if (Disjoint()) return PackedApart();
  Ownership result(size());
  std::vector<int32_t> next(kMaxThreads,
                            0);  // where all owners of an element agree, the common case
  std::vector<ThreadSet> taken;  // by slot
  for (int64_t x = 0; x < size(); ++x) {
    if (!decided(x)) continue;
    const ThreadSet& owners = Owners(x);
    size_t slot = static_cast<size_t>(next[FirstOf(owners)]);
    while (slot < taken.size() && (taken[slot] & owners).any()) ++slot;
    if (slot >= taken.size()) taken.resize(slot + 1);
    taken[slot] |= owners;
    result.Set(x, owners, static_cast<int64_t>(slot));
    // Slots below `next` of a thread are all taken, so the search may start there.
    auto& start = next[FirstOf(owners)];
    while (static_cast<size_t>(start) < taken.size() && taken[start][FirstOf(owners)]) ++start;
  }
  return result;
}

// Where no thread is in two sets, a set takes as many slots as it has elements.
Ownership Ownership::Settled() const {
  if (FindCollision(*this)) return Packed();
  if (Disjoint()) {
    std::vector<int64_t> elements(sets_.size());
    for (const int32_t set : set_of_) {
      if (set >= 0) ++elements[set];
    }
    const auto most = std::max_element(elements.begin(), elements.end());
    return most == elements.end() || *most == slots() ? *this : PackedApart();
  }
  Ownership packed = Packed();
  return packed.slots() < slots() ? packed : *this;
}

Ownership Ownership::Pullback(absl::Span<const int64_t> access) const {
  Ownership result(static_cast<int64_t>(access.size()));
  std::vector<int32_t> ids(sets_.size(), -1);
  for (size_t i = 0; i < access.size(); ++i) {
    const int64_t x = access[i];
    KILN_CHECK(x >= 0 && x < size());
    if (!decided(x)) continue;
    int32_t& id = ids[set_of_[x]];
    if (id < 0) id = result.Intern(sets_[set_of_[x]]);
    result.Put(static_cast<int64_t>(i), id, slot_[x]);
  }
  return result;
}

Ownership Ownership::Within(const ThreadSet& threads) const {
  if ((Threads() & ~threads).none()) return *this;
  constexpr int32_t kUnmet = -2, kNobody = -1;
  Ownership part(size());
  std::vector<int32_t> ids(sets_.size(), kUnmet);
  for (int64_t x = 0; x < size(); ++x) {
    if (!decided(x)) continue;
    int32_t& id = ids[set_of_[x]];
    if (id == kUnmet) {
      const ThreadSet owners = Owners(x) & threads;
      id = owners.any() ? part.Intern(owners) : kNobody;
    }
    if (id != kNobody) part.Put(x, id, Slot(x));
  }
  return part;
}

Ownership Ownership::Reduced(absl::Span<const int64_t> shape, int dim) const {
  int64_t inner = 1, outer = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<int>(d) < dim) outer *= shape[d];
    if (static_cast<int>(d) > dim) inner *= shape[d];
  }
  const int64_t extent = shape[dim];
  KILN_CHECK(outer * extent * inner == size());
  Ownership result(outer * inner);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      ThreadSet owners;
      bool known = true;
      for (int64_t k = 0; k < extent && known; ++k) {
        const int64_t x = (o * extent + k) * inner + i;
        known = decided(x);
        owners |= Owners(x);
      }
      if (known && extent > 0) result.Set(o * inner + i, owners, 0);
    }
  }
  return result.Packed();
}

absl::StatusOr<Layout> Ownership::ToLayout() const {
  if (!complete()) return Refuse({"an element has no owner yet", -1, -1, {}, {}});
  const int64_t n = size(), copies = Copies();
  std::vector<int64_t> members, first, count;  // of each set: where its threads begin, how many
  for (const ThreadSet& set : sets_) {
    first.push_back(static_cast<int64_t>(members.size()));
    for (size_t t = set._Find_first(); t < set.size(); t = set._Find_next(t)) {
      members.push_back(static_cast<int64_t>(t));
    }
    count.push_back(static_cast<int64_t>(members.size()) - first.back());
  }
  std::vector<int64_t> columns(2 * copies * n);  // m, then tx; copy by copy
  for (int64_t x = 0; x < n; ++x) {
    const int64_t* const owners = &members[first[set_of_[x]]];
    if (count[set_of_[x]] != copies) {
      return Refuse({"elements have different numbers of owners", 0, x, Thread(FirstOf(Owners(0))),
                     Thread(owners[0])});
    }
    for (int64_t c = 0; c < copies; ++c) {
      columns[c * n + x] = Slot(x);
      columns[(copies + c) * n + x] = owners[c];
    }
  }
  KILN_ASSIGN_OR_RETURN(const Table table,
                        Table::FromColumns(n, copies, {Axis::kM, Axis::kTx}, std::move(columns)));
  return Factor(table, {.swizzles = false});
}

bool Ownership::operator==(const Ownership& other) const {
  if (size() != other.size()) return false;
  for (int64_t x = 0; x < size(); ++x) {
    if (decided(x) != other.decided(x)) return false;
    if (decided(x) && (Slot(x) != other.Slot(x) || Owners(x) != other.Owners(x))) return false;
  }
  return true;
}

namespace {

// Whether two elements have one set and one slot.
bool MeetInASlot(const std::vector<int32_t>& set_of, const std::vector<int32_t>& slot,
                 int64_t slots, int64_t sets) {
  std::vector<bool> taken(slots * sets);
  for (size_t x = 0; x < set_of.size(); ++x) {
    if (set_of[x] < 0) continue;
    const int64_t place = int64_t{set_of[x]} * slots + slot[x];
    if (taken[place]) return true;
    taken[place] = true;
  }
  return false;
}

}  // namespace

std::optional<Witness> FindCollision(const Ownership& o) {
  const auto sets = static_cast<int64_t>(o.sets_.size());
  if (sets * o.slots() <= kMaxSlots && o.Disjoint() &&
      !MeetInASlot(o.set_of_, o.slot_, o.slots(), sets)) {
    return std::nullopt;
  }
  std::vector<ThreadSet> taken(o.slots());
  for (int64_t x = 0; x < o.size(); ++x) {
    if (!o.decided(x)) continue;
    const int64_t slot = o.Slot(x);
    const ThreadSet both = taken[slot] & o.Owners(x);
    if (both.none()) {
      taken[slot] |= o.Owners(x);
      continue;
    }
    const int64_t thread = FirstOf(both);
    int64_t first = 0;
    while (o.Slot(first) != slot || !o.Owners(first)[thread]) ++first;
    return Witness{"two elements share a thread and a slot", first, x, Place(thread, slot),
                   Place(thread, slot)};
  }
  return std::nullopt;
}

// Answers "a inside b" and "a equals b" once for every pair of sets that meets.
class OwnerRelation {
 public:
  OwnerRelation(const Ownership& loop, const Ownership& buffer) : loop_(loop), buffer_(buffer) {}

  std::optional<Witness> Find(absl::Span<const int64_t> access, bool equal) {
    KILN_CHECK(static_cast<int64_t>(access.size()) == loop_.size());
    for (size_t i = 0; i < access.size(); ++i) {
      const int32_t a = loop_.set_of_[i], b = buffer_.set_of_[access[i]];
      if (a < 0 || b < 0 || PairOf(a, b) == last_pair_ || Holds(a, b, equal)) continue;
      return Explain(static_cast<int64_t>(i), access[i]);
    }
    return std::nullopt;
  }

 private:
  static int64_t PairOf(int32_t a, int32_t b) { return (static_cast<int64_t>(a) << 32) | b; }

  bool Holds(int32_t a, int32_t b, bool equal) {
    const int64_t pair = PairOf(a, b);
    const auto [it, added] = known_.try_emplace(pair, false);
    if (added) {
      const ThreadSet &runs = loop_.sets_[a], &holds = buffer_.sets_[b];
      it->second = (runs & ~holds).none() && (!equal || runs == holds);
    }
    if (it->second) last_pair_ = pair;
    return it->second;
  }

  Witness Explain(int64_t i, int64_t x) const {
    const ThreadSet &runs = loop_.Owners(i), &holds = buffer_.Owners(x);
    const ThreadSet outside = runs & ~holds;
    if (outside.any()) {
      return {absl::StrCat("iteration ", i, " runs on thread ", FirstOf(outside), ", but element ",
                           x, " is held by ", ToString(holds)),
              i, x, Thread(FirstOf(outside)), Thread(FirstOf(holds))};
    }
    const int64_t stale = FirstOf(holds & ~runs);
    return {absl::StrCat("element ", x, " is also held by thread ", stale, ", but iteration ", i,
                         " writes it on ", ToString(runs), " alone"),
            i, x, Thread(FirstOf(runs)), Thread(stale)};
  }

  const Ownership& loop_;
  const Ownership& buffer_;
  std::unordered_map<int64_t, bool> known_;
  int64_t last_pair_ = -1;  // the last one that holds
};

std::optional<Witness> FindReadMismatch(const Ownership& loop, absl::Span<const int64_t> access,
                                        const Ownership& buffer) {
  return OwnerRelation(loop, buffer).Find(access, /*equal=*/false);
}

std::optional<Witness> FindWriteMismatch(const Ownership& loop, absl::Span<const int64_t> access,
                                         const Ownership& buffer) {
  return OwnerRelation(loop, buffer).Find(access, /*equal=*/true);
}

}  // namespace kiln::layout
