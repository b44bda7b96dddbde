#include "coordinator/search/thresholds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>
#include <utility>

#include "compiler/base/status.h"

namespace kiln::search {
namespace {

using Mask = uint32_t;

// The configs of the least regret at a point.
Mask BestAt(const v1::RangePoint& point, int configs) {
  double least = std::numeric_limits<double>::infinity();
  for (int a = 0; a < configs; ++a) least = std::min(least, Regret(point, a));
  Mask best = 0;
  for (int a = 0; a < configs; ++a) {
    if (Regret(point, a) == least) best |= Mask{1} << a;
  }
  return best;
}

// Of the sequences that take at each point one of its configs, the one of the fewest changes, of
// equals the smallest. `allowed` has no empty mask.
std::vector<int> FewestChanges(const std::vector<Mask>& allowed, int configs, int* changes) {
  const size_t n = allowed.size();
  constexpr int kNever = std::numeric_limits<int>::max() / 2;
  // left[i][a]: changes from point i to the end when it runs a.
  std::vector<std::vector<int>> left(n, std::vector<int>(configs, kNever));
  for (size_t i = n; i-- > 0;) {
    for (int a = 0; a < configs; ++a) {
      if ((allowed[i] >> a & 1) == 0) continue;
      left[i][a] = i + 1 == n ? 0 : kNever;
      for (int next = 0; i + 1 < n && next < configs; ++next) {
        left[i][a] = std::min(left[i][a], left[i + 1][next] + (next == a ? 0 : 1));
      }
    }
  }
  std::vector<int> chosen;
  *changes = *std::min_element(left[0].begin(), left[0].end());
  int budget = *changes;
  for (size_t i = 0; i < n; ++i) {
    for (int a = 0; a < configs; ++a) {
      const int cost = left[i][a] + (i > 0 && a != chosen.back() ? 1 : 0);
      if (cost != budget) continue;
      budget -= i > 0 && a != chosen.back() ? 1 : 0;
      chosen.push_back(a);
      break;
    }
  }
  return chosen;
}

}  // namespace

std::vector<int64_t> DefaultPoints(int64_t low, int64_t high) {
  std::vector<int64_t> all = {low};
  for (int64_t size = 1; size < high && size > 0; size *= 2) {
    if (size > low) all.push_back(size);
  }
  if (high > low) all.push_back(high);
  const auto count = static_cast<int64_t>(all.size());
  if (count <= kDefaultPoints) return all;
  std::vector<int64_t> points;
  for (int64_t i = 0; i < kDefaultPoints; ++i) {
    const int64_t spread = kDefaultPoints - 1;
    points.push_back(all[(2 * i * (count - 1) + spread) / (2 * spread)]);
  }
  return points;
}

int64_t Between(int64_t low, int64_t high) {
  if (high - low < 2) return 0;
  const double middle = std::sqrt(static_cast<double>(low) * static_cast<double>(high));
  return std::clamp(static_cast<int64_t>(std::llround(middle)), low + 1, high - 1);
}

bool Slower(const v1::RangePoint& point, int a, int b) { return point.times(a).over(b) > 1; }

double Regret(const v1::RangePoint& point, int a) {
  double regret = 1;
  for (const double over : point.times(a).over()) regret = std::max(regret, over);
  return regret;
}

Steps Assign(const std::vector<v1::RangePoint>& points, int configs, int64_t low) {
  KILN_CHECK(!points.empty() && configs > 0 && configs <= kMaxVariants);
  std::vector<Mask> best;
  best.reserve(points.size());
  for (const v1::RangePoint& point : points) best.push_back(BestAt(point, configs));
  Steps out;
  int fewest = 0;
  int least = configs + 1;
  for (Mask used = 1; used < Mask{1} << configs; ++used) {
    const int size = std::popcount(used);
    if (size > least) continue;
    std::vector<Mask> allowed = best;
    for (Mask& mask : allowed) mask &= used;
    if (std::find(allowed.begin(), allowed.end(), Mask{0}) != allowed.end()) continue;
    int changes = 0;
    std::vector<int> chosen = FewestChanges(allowed, configs, &changes);
    if (size < least || std::tie(changes, chosen) < std::tie(fewest, out.chosen)) {
      least = size;
      fewest = changes;
      out.chosen = std::move(chosen);
    }
  }
  for (size_t i = 0; i < points.size(); ++i) {
    if (i > 0 && out.chosen[i] == out.chosen[i - 1]) continue;
    v1::DispatchStep& step = out.steps.emplace_back();
    step.set_first(i == 0 ? low : points[i - 1].size() + 1);
    step.set_variant(out.chosen[i]);
  }
  return out;
}

int ChosenAt(const Steps& steps, int64_t size) {
  int chosen = steps.steps.front().variant();
  for (const v1::DispatchStep& step : steps.steps) {
    if (step.first() <= size) chosen = step.variant();
  }
  return chosen;
}

int Single(const std::vector<v1::RangePoint>& points, int configs) {
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int a = 0; a < configs; ++a) {
    double sum = 0;
    for (const v1::RangePoint& point : points) sum += std::log(point.times(a).median_ns());
    if (sum >= least) continue;
    least = sum;
    best = a;
  }
  return best;
}

}  // namespace kiln::search
