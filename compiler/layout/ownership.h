// Who holds each element of a tile in registers: what layout inference reasons about.
//
// Element x of a tile of n elements is held by the set Owners(x) of threads of the block, in the
// same slot (register number) in each of them. Unlike a Layout this has no digits, so any
// assignment can be said, ragged ones too (229 elements over 128 threads), and every question is
// decided exactly by looking at all elements. Equal sets are stored once; every function here is
// linear in the elements, times the words of a set only where sets are first met.
//
// An element may also be undecided: nobody owns it yet. The element order is the row-major flat
// index. Threads are those of the block (axis tx).
#ifndef KILN_COMPILER_LAYOUT_OWNERSHIP_H_
#define KILN_COMPILER_LAYOUT_OWNERSHIP_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

inline constexpr int64_t kMaxThreads = 1024;  // of a block
using ThreadSet = std::bitset<kMaxThreads>;

// Threads [first, first + count).
struct ThreadRange {
  int64_t first = 0, count = 0;
  ThreadSet Set() const;
  bool operator==(const ThreadRange&) const = default;
};
// "0..63", "0,16,32,48", "64..127,200".
std::string ToString(const ThreadSet& threads);

class Ownership {
 public:
  Ownership() = default;             // no elements
  explicit Ownership(int64_t size);  // all undecided

  // The first `size` elements of a layout whose thread axes form a chain of the block (tx, or
  // warpid and laneid, ...) and whose slots are on m. Refused when a copy has another slot or
  // another element's place; InvalidArgument for other axes, a size past the layout's, threads
  // outside [0, kMaxThreads) or slots outside [0, 2^24).
  static absl::StatusOr<Ownership> Of(const Layout& layout, int64_t size);

  // Everybody holds everything: slot x.
  static Ownership Replicated(int64_t size, ThreadRange threads);

  // Groups of `width` neighbours dealt out to the threads in turn: element x goes to thread
  // (x / width) mod count, slot (x / width / count) * width + x mod width. Never collides, whatever
  // the size.
  static Ownership Planned(int64_t size, ThreadRange threads, int64_t width);

  // Rows of `columns` elements that do not divide evenly among all threads: `across` threads share
  // a row, in groups of `width` neighbours dealt out in turn, and `down` such teams take the rows
  // in turn, so that a slot is of the same row, counted from the team's first, in every thread.
  // KILN_CHECKs that columns are a multiple of across * width, rows one of down, and that there are
  // enough threads.
  static Ownership PlannedRows(int64_t rows, int64_t columns, ThreadRange threads, int64_t width,
                               int64_t across, int64_t down);

  int64_t size() const { return static_cast<int64_t>(set_of_.size()); }
  bool decided(int64_t x) const { return set_of_[x] >= 0; }
  bool complete() const { return undecided_ == 0; }
  bool any_decided() const { return undecided_ < size(); }
  const ThreadSet& Owners(int64_t x) const;  // empty where undecided
  int64_t Slot(int64_t x) const { return slot_[x]; }
  int64_t slots() const { return slots_; }  // registers a thread: one past the largest slot
  int64_t Copies() const;                   // the most owners that an element has
  ThreadSet Threads() const;                // all that own something

  // Decides element x. Slot >= 0.
  void Set(int64_t x, const ThreadSet& threads, int64_t slot);

  // Set(x, other.Owners(y), other.Slot(y)) for a decided y, without looking at the threads again:
  // `ids` is empty at first, and of these two objects.
  void SetAs(int64_t x, const Ownership& other, int64_t y, std::vector<int32_t>* ids) {
    Put(x, InternAs(other, other.set_of_[y], ids), other.slot_[y]);
  }

  // The same owners with slots given out anew: in element order each takes the lowest that is free
  // in all its owners. As few registers as the first element order allows.
  Ownership Packed() const;

  // Slots as they were given, unless they collide or waste registers: then Packed().
  Ownership Settled() const;

  // Element i of the result has the owners and slot of element access[i]. Undecided where access[i]
  // is. KILN_CHECKs the range.
  Ownership Pullback(absl::Span<const int64_t> access) const;

  // What `threads` own of it; undecided where that is nothing.
  Ownership Within(const ThreadSet& threads) const;

  // The tile with dimension `dim` of `shape` folded: an element belongs to everybody who owns one
  // of its parts. Packed slots; undecided where a part is.
  Ownership Reduced(absl::Span<const int64_t> shape, int dim) const;

  // The owners as a Layout on tx and m, where there are digits for it; refused with the element
  // that does not fit otherwise.
  absl::StatusOr<Layout> ToLayout() const;

  bool operator==(const Ownership& other) const;  // same owners and slots everywhere

 private:
  int32_t Intern(const ThreadSet& threads);
  int32_t InternAs(const Ownership& other, int32_t set, std::vector<int32_t>* ids) {
    if (ids->size() < other.sets_.size()) ids->resize(other.sets_.size(), -1);
    int32_t& id = (*ids)[set];
    if (id < 0) id = Intern(other.sets_[set]);
    return id;
  }
  void Put(int64_t x, int32_t set, int64_t slot) {
    if (set_of_[x] < 0) --undecided_;
    set_of_[x] = set;
    slot_[x] = static_cast<int32_t>(slot);
    slots_ = slots_ > slot ? slots_ : slot + 1;
  }
  void PutAlone(const std::vector<int64_t>& threads, const std::vector<int64_t>& slots);
  bool Disjoint() const;  // no thread is in two of the sets
  Ownership PackedApart() const;

  std::vector<ThreadSet> sets_;
  std::unordered_map<ThreadSet, int32_t> set_ids_;
  std::array<int32_t, 256> recent_ = {};  // ids, by first thread
  std::vector<int32_t> set_of_;           // -1: undecided
  std::vector<int32_t> slot_;
  int64_t slots_ = 0;
  int64_t undecided_ = 0;

  friend class OwnerRelation;
  friend std::optional<Witness> FindCollision(const Ownership& o);
};

// Two elements on one (thread, slot): element, other, at = that place. nullopt when there are none.
std::optional<Witness> FindCollision(const Ownership& o);

// Iteration i of a loop touches element access[i] of a buffer. Reading is right when every thread
// that runs i holds the element; writing, when exactly those do. Iterations whose element is
// undecided agree with everything. The witness: element = i, other = access[i], `at` a thread that
// runs i (or holds the element) and `other_at` one on the other side.
std::optional<Witness> FindReadMismatch(const Ownership& loop, absl::Span<const int64_t> access,
                                        const Ownership& buffer);
std::optional<Witness> FindWriteMismatch(const Ownership& loop, absl::Span<const int64_t> access,
                                         const Ownership& buffer);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_OWNERSHIP_H_
