#include <algorithm>

#include "coordinator/search/strategies.h"

namespace kiln::search {
namespace {

constexpr int kSlates = 3;

class Recommended : public Searcher {
 public:
  explicit Recommended(const SearchLimits& limits) : limits_(limits) {}

  absl::string_view name() const override { return "recommended"; }

  std::vector<int> Next(const std::vector<Point>& points, int max) const override {
    int tried = 0;
    int failed = 0;
    for (const Point& point : points) {
      tried += point.state != Point::State::kUntried;
      failed += point.state == Point::State::kFailed;
    }
    int want = std::min(max, limits_.top_k - (tried - failed));
    want = std::min(want, kSlates * limits_.top_k - tried);
    want = Budget(limits_, tried, want);
    std::vector<int> next;
    for (int i = 0; i < static_cast<int>(points.size()); ++i) {
      if (static_cast<int>(next.size()) >= want) break;
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

std::unique_ptr<Searcher> NewRecommended(const SearchLimits& limits) {
  return std::make_unique<Recommended>(limits);
}

}  // namespace kiln::search
