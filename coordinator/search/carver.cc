#include <algorithm>

#include "coordinator/search/strategies.h"

namespace kiln::search {
namespace {

class Carver : public Searcher {
 public:
  explicit Carver(const SearchLimits& limits) : limits_(limits) {}

  absl::string_view name() const override { return "carver"; }

  std::vector<int> Next(const std::vector<Point>& points, int max) const override {
    std::vector<int> next;
    for (int i = 0; i < Total(points) && static_cast<int>(next.size()) < max; ++i) {
      if (points[i].state == Point::State::kUntried) next.push_back(i);
    }
    return next;
  }

  int Total(const std::vector<Point>& points) const override {
    return Budget(limits_, 0, std::min<int>(limits_.top_k, static_cast<int>(points.size())));
  }

 private:
  const SearchLimits limits_;
};

}  // namespace

std::unique_ptr<Searcher> NewCarver(const SearchLimits& limits) {
  return std::make_unique<Carver>(limits);
}

}  // namespace kiln::search
