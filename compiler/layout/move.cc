#include "compiler/layout/move.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/color.h"
#include "compiler/layout/injective.h"
#include "compiler/layout/integers.h"

namespace kiln::layout {
namespace {

constexpr int kLanes = 32;
constexpr int64_t kMaxPlacements = int64_t{1} << 22;

struct Place {
  int64_t thread = 0;
  int64_t slot = 0;
  auto operator<=>(const Place&) const = default;
};

using Registers = std::map<Place, int64_t>;          // place -> element
using Group = std::vector<int64_t>;                  // elements of one register, in order
using Groups = std::map<Group, std::vector<Place>>;  // where each group is

absl::StatusOr<Registers> RegistersOf(const Layout& layout) {
  KILN_ASSIGN_OR_RETURN(const auto collision, SearchCollision(layout));
  if (collision.has_value()) return Refuse(collision->ToWitness());
  for (const Axis axis : layout.axes()) {
    if (axis != Axis::kM && !IsThread(axis)) {
      return BadArgument(
          absl::StrCat("a register layout has thread axes and m, not ", NameOf(axis)));
    }
  }
  KILN_RETURN_IF_ERROR(SpanOfScopes(layout.axes()).status());
  if (layout.size() > kMaxPlacements / layout.copies()) {
    return absl::ResourceExhaustedError("a move of more than 2^22 placements");
  }
  Registers registers;
  std::vector<int64_t> values(layout.axes().size());
  for (int64_t x = 0; x < layout.size(); ++x) {
    for (int64_t q = 0; q < layout.copies(); ++q) {
      layout.Evaluate(x, q, values.data());
      Place place;
      for (size_t a = 0; a < values.size(); ++a) {
        const Axis axis = layout.axes()[a];
        (axis == Axis::kM ? place.slot : place.thread) +=
            values[a] * (axis == Axis::kM ? 1 : InfoOf(axis).threads);
      }
      registers.emplace(place, x);
    }
  }
  return registers;
}

// The aligned groups of n slots; nullopt when some group has a hole.
std::optional<Groups> GroupsOf(const Registers& registers, int n) {
  Groups groups;
  for (auto it = registers.begin(); it != registers.end();) {
    const Place start = it->first;
    if (FloorMod(start.slot, n) != 0) return std::nullopt;
    Group group;
    for (int i = 0; i < n; ++i, ++it) {
      if (it == registers.end() || it->first != Place{start.thread, start.slot + i}) {
        return std::nullopt;
      }
      group.push_back(it->second);
    }
    groups[group].push_back(start);
  }
  return groups;
}

bool AllFound(const Groups& wanted, const Groups& present) {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](const auto& entry) { return present.count(entry.first) > 0; });
}

struct Wanted {
  Place to;
  std::vector<Place> sources;  // within the warp
};

int64_t WarpOf(int64_t thread) { return FloorDiv(thread, kLanes); }
int LaneOf(int64_t thread) { return static_cast<int>(FloorMod(thread, kLanes)); }

struct Sorting {
  int64_t identical = 0;
  int64_t staying = 0;
  std::vector<RegisterMove> local;
  std::map<int64_t, std::vector<Wanted>> by_warp;
  bool crosses_warps = false;
};

Sorting SortOut(const Groups& present, const Groups& wanted) {
  Sorting sorting;
  for (const auto& [group, places] : wanted) {
    const std::vector<Place>& sources = present.at(group);
    for (const Place& to : places) {
      if (std::find(sources.begin(), sources.end(), to) != sources.end()) {
        ++sorting.identical;
        ++sorting.staying;
        continue;
      }
      Wanted want{to, {}};
      const Place* own = nullptr;
      for (const Place& s : sources) {
        if (s.thread == to.thread) own = &s;
        if (WarpOf(s.thread) == WarpOf(to.thread)) want.sources.push_back(s);
      }
      if (own != nullptr) {
        ++sorting.staying;
        sorting.local.push_back({own->thread, own->slot, to.thread, to.slot});
      } else if (want.sources.empty()) {
        sorting.crosses_warps = true;
      } else {
        sorting.by_warp[WarpOf(to.thread)].push_back(std::move(want));
      }
    }
  }
  return sorting;
}

using Rounds = std::vector<std::vector<RegisterMove>>;

// One lane to one lane in every round: exactly as many rounds as the busiest lane has moves.
Rounds Unicast(const std::vector<RegisterMove>& moves) {
  std::vector<Edge> edges;
  for (const RegisterMove& m : moves) {
    edges.push_back({LaneOf(m.from_thread), LaneOf(m.to_thread)});
  }
  const std::vector<int> colors = ColorEdges(edges, kLanes);
  Rounds rounds(MaxDegree(edges, kLanes));
  for (size_t i = 0; i < moves.size(); ++i) rounds[colors[i]].push_back(moves[i]);
  return rounds;
}

// A published register may be read by many lanes: each round, lanes publish what serves the most.
Rounds Multicast(const std::vector<RegisterMove>& moves) {
  std::map<Place, std::vector<RegisterMove>> left;
  for (const RegisterMove& m : moves) left[{m.from_thread, m.from_slot}].push_back(m);
  Rounds rounds;
  while (!left.empty()) {
    std::vector<RegisterMove> round;
    std::set<int64_t> sending, receiving;
    std::map<int64_t, int> pending;  // registers that a lane still has to publish
    for (const auto& [place, list] : left) ++pending[place.thread];
    std::vector<Place> order;
    for (const auto& [place, list] : left) order.push_back(place);
    std::stable_sort(order.begin(), order.end(), [&](const Place& a, const Place& b) {
      if (pending[a.thread] != pending[b.thread]) return pending[a.thread] > pending[b.thread];
      return left[a].size() > left[b].size();
    });
    for (const Place& place : order) {
      if (sending.count(place.thread) > 0) continue;
      std::vector<RegisterMove> rest;
      for (const RegisterMove& m : left[place]) {
        if (receiving.insert(m.to_thread).second) {
          sending.insert(place.thread);
          round.push_back(m);
        } else {
          rest.push_back(m);
        }
      }
      left[place] = std::move(rest);
    }
    for (auto it = left.begin(); it != left.end();) {
      it = it->second.empty() ? left.erase(it) : std::next(it);
    }
    rounds.push_back(std::move(round));
  }
  return rounds;
}

// Rounds of one warp, and the bound below which no choice can go.
Rounds WarpRounds(const std::vector<Wanted>& wanted, int* lower_bound) {
  std::vector<std::vector<int>> candidates;
  for (const Wanted& w : wanted) {
    std::vector<int> lanes;
    for (const Place& s : w.sources) lanes.push_back(LaneOf(s.thread));
    candidates.push_back(std::move(lanes));
  }
  const std::vector<int> chosen = BalanceLeftEnds(candidates, kLanes);
  std::vector<RegisterMove> moves;
  std::set<Place> published;
  std::vector<int> received(kLanes);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto source = std::find_if(wanted[i].sources.begin(), wanted[i].sources.end(),
                                     [&](const Place& s) { return LaneOf(s.thread) == chosen[i]; });
    moves.push_back({source->thread, source->slot, wanted[i].to.thread, wanted[i].to.slot});
    published.insert(*source);
    ++received[LaneOf(wanted[i].to.thread)];
  }
  Rounds rounds = Unicast(moves);
  const int busiest = *std::max_element(received.begin(), received.end());
  const bool shared = published.size() < moves.size();
  *lower_bound = shared ? busiest : static_cast<int>(rounds.size());
  if (shared && static_cast<int>(rounds.size()) > busiest) {
    Rounds other = Multicast(moves);
    if (other.size() < rounds.size()) rounds = std::move(other);
  }
  return rounds;
}

MovePlan ShufflePlan(const Sorting& sorting) {
  MovePlan plan;
  plan.kind = MovePlan::Kind::kShuffle;
  for (const auto& [warp, wanted] : sorting.by_warp) {
    int bound = 0;
    const Rounds rounds = WarpRounds(wanted, &bound);
    plan.rounds_lower_bound = std::max(plan.rounds_lower_bound, bound);
    if (rounds.size() > plan.rounds.size()) plan.rounds.resize(rounds.size());
    for (size_t r = 0; r < rounds.size(); ++r) {
      plan.rounds[r].insert(plan.rounds[r].end(), rounds[r].begin(), rounds[r].end());
    }
  }
  return plan;
}

// The widest access of consecutive elements in consecutive slots that a whole layout allows.
int AccessWidth(const Registers& registers, int element_bytes, int64_t columns) {
  for (int n = 16 / element_bytes; n > 1; n /= 2) {
    if (columns % n != 0) continue;
    const auto groups = GroupsOf(registers, n);
    if (!groups.has_value()) continue;
    const bool consecutive = std::all_of(groups->begin(), groups->end(), [n](const auto& entry) {
      const Group& g = entry.first;
      for (int i = 1; i < n; ++i) {
        if (g[i] != g[0] + i) return false;
      }
      return g[0] % n == 0;
    });
    if (consecutive) return n;
  }
  return 1;
}

// Requests of all warps; with `once`, an element's second and later copies stay away.
std::vector<Request> RequestsOf(const Registers& registers, int width, bool once) {
  std::set<int64_t> seen;
  std::map<std::pair<int64_t, int64_t>, Request> requests;
  for (const auto& [place, element] : registers) {
    if (FloorMod(place.slot, width) != 0 || (once && !seen.insert(element).second)) continue;
    Request& r = requests[{WarpOf(place.thread), place.slot}];
    if (r.elements.empty()) r.elements.assign(kLanes, kInactive);
    r.elements[LaneOf(place.thread)] = element;
    r.elements_per_lane = width;
  }
  std::vector<Request> list;
  for (auto& [key, request] : requests) list.push_back(std::move(request));
  return list;
}

}  // namespace

absl::string_view NameOf(MovePlan::Kind kind) {
  static constexpr absl::string_view kNames[] = {"none", "registers", "shuffle", "shared"};
  return kNames[static_cast<int>(kind)];
}

absl::StatusOr<MovePlan> PlanMove(const Layout& from, const Layout& to, int element_bits,
                                  int64_t columns) {
  if (from.size() != to.size() || columns < 1 || from.size() % columns != 0) {
    return BadArgument(absl::StrCat("a move between ", from.size(), " and ", to.size(),
                                    " elements in rows of ", columns));
  }
  if (element_bits < 8 || element_bits > 64 || !IsPowerOfTwo(element_bits)) {
    return BadArgument(absl::StrCat("a move of elements of ", element_bits, " bits"));
  }
  KILN_ASSIGN_OR_RETURN(const Registers present, RegistersOf(from));
  KILN_ASSIGN_OR_RETURN(const Registers wanted, RegistersOf(to));
  for (int group = std::max(1, 32 / element_bits); group >= 1; group /= 2) {
    const auto sources = GroupsOf(present, group);
    const auto targets = GroupsOf(wanted, group);
    if (!sources.has_value() || !targets.has_value() || !AllFound(*targets, *sources)) continue;
    const Sorting sorting = SortOut(*sources, *targets);
    if (sorting.crosses_warps) continue;
    MovePlan plan = ShufflePlan(sorting);
    if (sorting.by_warp.empty()) {
      plan.kind = sorting.local.empty() ? MovePlan::Kind::kNone : MovePlan::Kind::kRegisters;
    }
    plan.group = group;
    plan.local = sorting.local;
    plan.staying = sorting.staying * group;
    return plan;
  }
  MovePlan plan;
  plan.kind = MovePlan::Kind::kShared;
  const int bytes = element_bits / 8;
  plan.store_elements = AccessWidth(present, bytes, columns);
  plan.load_elements = AccessWidth(wanted, bytes, columns);
  plan.shared = BestShared(RequestsOf(present, plan.store_elements, true),
                           RequestsOf(wanted, plan.load_elements, false), columns, bytes, true);
  return plan;
}

}  // namespace kiln::layout
