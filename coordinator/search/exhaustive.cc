#include <algorithm>

#include "coordinator/search/strategies.h"

namespace kiln::search {
namespace {

class Exhaustive : public Searcher {
 public:
  explicit Exhaustive(const SearchLimits& limits) : limits_(limits) {}

  absl::string_view name() const override { return "exhaustive"; }

  std::vector<int> Next(const std::vector<Point>& points, int max) const override {
    std::vector<int> untried;
    for (int i = 0; i < static_cast<int>(points.size()); ++i) {
      if (points[i].state == Point::State::kUntried) untried.push_back(i);
    }
    const int tried = static_cast<int>(points.size() - untried.size());
    const int want = std::max(0, Budget(limits_, tried, max));
    if (static_cast<int>(untried.size()) > want) untried.resize(want);
    return untried;
  }

  int Total(const std::vector<Point>& points) const override {
    return Budget(limits_, 0, static_cast<int>(points.size()));
  }

 private:
  const SearchLimits limits_;
};

}  // namespace

std::unique_ptr<Searcher> NewExhaustive(const SearchLimits& limits) {
  return std::make_unique<Exhaustive>(limits);
}

}  // namespace kiln::search
