// How many threads have arrived at each barrier of a block. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_BARRIER_STATE_H_
#define KILN_COMPILER_LANG_BARRIER_STATE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/lang/follow_barriers.h"

namespace kiln::lang {

class BarrierState {
 public:
  // How many phases of its barrier end with it.
  int64_t Arrive(const BarrierEvent& arrival) {
    const auto [place, is_new] = arrived_.try_emplace(KeyOf(arrival), 0);
    int64_t& arrived = place->second;
    if (is_new) order_.emplace_back(KeyOf(arrival), CountOf(arrival));
    const int64_t before = arrived / CountOf(arrival);
    arrived += arrival.amount;
    return arrived / CountOf(arrival) - before;
  }
  bool IsOver(const BarrierEvent& wait) const {
    return ArrivedAt(wait) / CountOf(wait) % 2 != wait.amount;
  }
  // That the phase which is not over has arrivals.
  bool HasBegun(const BarrierEvent& event) const { return ArrivedAt(event) % CountOf(event) != 0; }
  // What waits see of the arrivals: how many threads have arrived in this phase and the one before
  // it, of each barrier that was ever arrived at, in the order of their first arrivals.
  std::vector<int64_t> InPhases() const {
    std::vector<int64_t> places;
    for (const auto& [key, count] : order_) places.push_back(arrived_.at(key) % (2 * count));
    return places;
  }
  // "barrier 0 of 'full' (64 threads have arrived, 128 make a phase, and parity 0 waits for phase
  // 0)", of a wait that is not over.
  std::string Tell(const BarrierEvent& wait) const {
    const int64_t arrived = ArrivedAt(wait), count = CountOf(wait);
    return absl::StrCat("barrier ", wait.which, " of '", wait.barrier->name, "' (", arrived,
                        " threads have arrived, ", count, " make a phase, and parity ", wait.amount,
                        " waits for phase ", arrived / count, ")");
  }

 private:
  using Key = std::pair<const ir::BufferNode*, int64_t>;

  static Key KeyOf(const BarrierEvent& event) { return {event.barrier.get(), event.which}; }
  static int64_t CountOf(const BarrierEvent& event) {
    return (*event.barrier->values)[static_cast<size_t>(event.which)];
  }
  int64_t ArrivedAt(const BarrierEvent& event) const {
    const auto known = arrived_.find(KeyOf(event));
    return known == arrived_.end() ? 0 : known->second;
  }

  std::map<Key, int64_t> arrived_;
  std::vector<std::pair<Key, int64_t>> order_;  // with their counts
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_BARRIER_STATE_H_
