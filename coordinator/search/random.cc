#include <algorithm>
#include <numeric>

#include "compiler/base/rng.h"
#include "coordinator/search/strategies.h"

namespace kiln::search {
namespace {

class Random : public Searcher {
 public:
  explicit Random(const SearchLimits& limits) : limits_(limits) {}

  absl::string_view name() const override { return "random"; }

  std::vector<int> Next(const std::vector<Point>& points, int max) const override {
    // The order is drawn over configs, not over ranks: another recommender's ranking of the same
    // space gives the same sample.
    std::vector<int> order(points.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return points[a].config < points[b].config; });
    Rng(limits_.seed).Shuffle(&order);
    int tried = 0;
    for (const Point& point : points) tried += point.state != Point::State::kUntried;
    const int want = Budget(limits_, tried, max);
    std::vector<int> next;
    for (int i : order) {
      if (static_cast<int>(next.size()) >= want) break;
      if (points[i].state == Point::State::kUntried) next.push_back(i);
    }
    return next;
  }

  int Total(const std::vector<Point>& points) const override {
    return Budget(limits_, 0, static_cast<int>(points.size()));
  }

 private:
  const SearchLimits limits_;
};

}  // namespace

std::unique_ptr<Searcher> NewRandom(const SearchLimits& limits) {
  return std::make_unique<Random>(limits);
}

}  // namespace kiln::search
