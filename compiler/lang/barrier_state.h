// How many threads have arrived at each barrier of a block. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_BARRIER_STATE_H_
#define KILN_COMPILER_LANG_BARRIER_STATE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/stmt.h"
#include "compiler/lang/follow_barriers.h"

namespace kiln::lang {

class BarrierState {
 public:
  struct Ended {
    int64_t phases = 0;  // of its barrier, with an arrival
    int64_t rest = 0;    // threads of it that belong to the phase after those
  };
  Ended Arrive(const BarrierEvent& arrival) {
    const auto [place, is_new] = arrived_.try_emplace(KeyOf(arrival), 0);
    int64_t& arrived = place->second;
    if (is_new) order_.emplace_back(KeyOf(arrival), CountOf(arrival));
    const int64_t before = arrived / CountOf(arrival);
    arrived += arrival.amount;
    const int64_t phases = arrived / CountOf(arrival) - before;
    return {phases, phases == 0 ? 0 : arrived % CountOf(arrival)};
  }
  bool IsOver(const BarrierEvent& wait) const {
    return ArrivedAt(wait) / CountOf(wait) % 2 != wait.amount;
  }
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

// InvalidArgument: an arrival whose threads belong to two phases.
inline absl::Status CheckArrival(const ir::Program& program, const BarrierEvent& arrival,
                                 const BarrierState::Ended& ended) {
  if (ended.rest == 0) return absl::OkStatus();
  return ir::ErrorAt(program, arrival.stmt->loc,
                     absl::StrCat("an arrival of ", arrival.amount, " threads at barrier ",
                                  arrival.which, " of '", arrival.barrier->name,
                                  "', whose phase ends before the last ", ended.rest, " of them"),
                     "let arrive_count be the number of threads that arrive in a phase");
}

// InvalidArgument, for a wait that is not over and never will be. `who` waits (empty: it goes
// without saying), and what others do.
inline absl::Status NeverEnds(const ir::Program& program, const BarrierEvent& wait,
                              const BarrierState& state, const std::string& who,
                              const std::string& others) {
  return ir::ErrorAt(
      program, wait.stmt->loc,
      absl::StrCat("this wait ", who.empty() ? "" : absl::StrCat("of ", who, " "), "for ",
                   state.Tell(wait), " never ends", others),
      "let every phase that is waited for get its arrivals: as many threads as arrive_count says, "
      "before they wait for what comes after it; the wait's parity is that of the phase, 0 for the "
      "first");
}

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_BARRIER_STATE_H_
