#include "compiler/passes/layout_cost.h"

#include <algorithm>

#include "compiler/layout/banks.h"

namespace kiln::passes {
namespace {

using layout::Ownership;
using layout::ThreadSet;

constexpr int64_t kWarp = 32;
constexpr int64_t kSegmentBytes = 32;
constexpr int64_t kMostRegisters = 4 * 255;  // of 32 bits for one fragment, in one thread

// Whether iterations [i, i + run) are one thread's, from a multiple of their number.
bool OneRun(const Ownership& loop, int64_t i, int64_t run) {
  if (i % run != 0 || i + run > loop.size()) return false;
  for (int64_t k = 1; k < run; ++k) {
    if (loop.Owners(i + k) != loop.Owners(i)) return false;
  }
  return true;
}

// Iterations [first, first + length) in one instruction of a thread.
struct Run {
  int64_t first = 0;
  int length = 1;
};

// What each thread runs, in order.
std::vector<std::vector<Run>> RunsOf(const Operation& op, const Ownership& loop) {
  std::vector<std::vector<Run>> by_thread(layout::kMaxThreads);
  for (int64_t i = 0; i < op.iterations;) {
    int64_t length = op.vector_width;
    while (length > 1 && !OneRun(loop, i, length)) length /= 2;
    const ThreadSet& owners = loop.Owners(i);
    for (size_t t = owners._Find_first(); t < owners.size(); t = owners._Find_next(t)) {
      by_thread[t].push_back({i, static_cast<int>(length)});
    }
    i += length;
  }
  return by_thread;
}

// One request: what the lanes of a warp run at the same time.
int64_t Segments(const MemoryTraffic& traffic, const std::vector<Run>& lanes) {
  std::vector<int64_t> touched;
  for (const Run& run : lanes) {
    const int64_t from = traffic.places[run.first] * traffic.bytes;
    const int64_t last = from + run.length * traffic.bytes - 1;
    for (int64_t s = from / kSegmentBytes; s <= last / kSegmentBytes; ++s) touched.push_back(s);
  }
  std::sort(touched.begin(), touched.end());
  return std::unique(touched.begin(), touched.end()) - touched.begin();
}

int64_t Wavefronts(const MemoryTraffic& traffic, const std::vector<Run>& lanes) {
  int width = 1;
  std::vector<int64_t> addresses;
  for (const Run& run : lanes) {
    addresses.push_back(traffic.places[run.first] * traffic.bytes);
    width = std::max(width, run.length * traffic.bytes);
  }
  return layout::Wavefronts(addresses, std::min(width, static_cast<int>(kVectorBytes)));
}

void AddTraffic(const std::vector<MemoryTraffic>& traffics,
                const std::vector<std::vector<Run>>& by_thread, LayoutPrice* price) {
  std::vector<Run> lanes;
  for (size_t warp = 0; warp < by_thread.size(); warp += kWarp) {
    size_t turns = 0;
    for (size_t t = warp; t < warp + kWarp; ++t) turns = std::max(turns, by_thread[t].size());
    for (size_t turn = 0; turn < turns; ++turn) {
      lanes.clear();
      for (size_t t = warp; t < warp + kWarp; ++t) {
        if (turn < by_thread[t].size()) lanes.push_back(by_thread[t][turn]);
      }
      for (const MemoryTraffic& traffic : traffics) {
        (traffic.shared ? price->wavefronts : price->segments) +=
            traffic.shared ? Wavefronts(traffic, lanes) : Segments(traffic, lanes);
      }
    }
  }
}

// Halving the contributions to a result until one is left takes log2 of their number of rounds, and
// a thread takes part for one result after the other.
int64_t Rounds(const Operation& op, const Ownership& parts) {
  const int64_t folded = op.extents[op.reduced_dim];
  int64_t inner = 1;
  for (size_t d = op.reduced_dim + 1; d < op.extents.size(); ++d) inner *= op.extents[d];
  std::vector<int64_t> by_thread(layout::kMaxThreads, 0);
  for (int64_t row = 0; row < parts.size() / folded; ++row) {
    const int64_t first = row / inner * folded * inner + row % inner;
    ThreadSet answering;  // one thread for each part
    for (int64_t k = 0; k < folded; ++k) {
      const ThreadSet& owners = parts.Owners(first + k * inner);
      if (owners.any()) answering.set(owners._Find_first());
    }
    int64_t rounds = 0;
    while ((size_t{1} << rounds) < answering.count()) ++rounds;
    for (size_t t = answering._Find_first(); t < answering.size(); t = answering._Find_next(t)) {
      by_thread[t] += rounds;
    }
  }
  return *std::max_element(by_thread.begin(), by_thread.end());
}

}  // namespace

LayoutPrices::LayoutPrices(const LayoutProblem& problem, std::vector<int> component,
                           LayoutCost cost)
    : problem_(problem), component_(std::move(component)), cost_(cost) {
  for (const int o : component_) {
    traffic_.emplace_back();
    if (cost != LayoutCost::kTraffic) continue;
    for (const MemoryAccess& access : problem.operations[o].accesses) {
      std::optional<MemoryTraffic> traffic = TrafficOf(access);
      if (traffic) traffic_.back().push_back(*std::move(traffic));
    }
  }
}

LayoutPrice LayoutPrices::Of(const std::vector<Ownership>& fragments,
                             const std::vector<Ownership>& loops) const {
  LayoutPrice price;
  std::vector<bool> counted(problem_.fragments.size(), false);
  for (size_t n = 0; n < component_.size(); ++n) {
    const Operation& op = problem_.operations[component_[n]];
    if (cost_ == LayoutCost::kTraffic) {
      const std::vector<std::vector<Run>> by_thread = RunsOf(op, loops[component_[n]]);
      size_t most = 0;
      for (const std::vector<Run>& runs : by_thread) most = std::max(most, runs.size());
      price.instructions += static_cast<int64_t>(most);
      AddTraffic(traffic_[n], by_thread, &price);
      if (op.kind == OperationKind::kReduce) price.rounds += Rounds(op, loops[component_[n]]);
    }
    for (const int f : FragmentsOf(op)) {
      if (counted[f]) continue;
      counted[f] = true;
      const int64_t slots = fragments[f].Settled().slots();
      price.registers += slots;
      if (cost_ == LayoutCost::kRegisters) continue;
      const int64_t words = (slots * problem_.fragments[f].buffer->dtype.bytes() + 3) / 4;
      price.overflow += std::max<int64_t>(0, words - kMostRegisters);
    }
  }
  return price;
}

}  // namespace kiln::passes
