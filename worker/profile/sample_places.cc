#include "worker/profile/sample_places.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "compiler/base/rng.h"

namespace kiln::worker {
namespace {

constexpr int kClusters = 6;
constexpr int64_t kClusterWidth = 16;  // of the box in the last two dimensions
constexpr int64_t kClusterRun = 256;   // elements of a cluster in a vector

// The longest dimension but the last: blocks of most kernels cover a stretch of it and one index of
// the shorter ones, such as batches and heads.
struct RowAxis {
  int64_t extent = 1;
  int64_t inner = 1;  // elements of the dimensions between it and the last one
};
RowAxis LongestAxis(const std::vector<int64_t>& shape) {
  RowAxis found;
  int64_t inner = 1;
  for (size_t d = shape.empty() ? 0 : shape.size() - 1; d-- > 0;) {
    if (shape[d] > found.extent) found = {shape[d], inner};
    inner *= shape[d];
  }
  return found;
}

}  // namespace

std::vector<std::vector<int64_t>> SampleClusters(const std::vector<int64_t>& shape, int samples,
                                                 uint64_t seed) {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  if (elements <= samples) {
    std::vector<int64_t> all(static_cast<size_t>(elements));
    std::iota(all.begin(), all.end(), int64_t{0});
    return {all};
  }
  Rng random(seed);
  int64_t columns = shape.back();
  const RowAxis axis = LongestAxis(shape);
  int64_t rows = axis.extent;
  int64_t planes = elements / (rows * columns);
  int64_t height = std::min(rows, kClusterWidth);
  int64_t width = std::min(columns, shape.size() > 1 ? kClusterWidth : kClusterRun);
  int per_cluster = std::max(1, samples / kClusters);
  std::vector<std::vector<int64_t>> clusters;
  // The first corner, the last one, two places inside, the other corners.
  for (const int cluster : {0, 3, 4, 5, 1, 2}) {
    bool corner = cluster < 4;
    int64_t row = (cluster & 1) != 0 ? rows - height : 0;
    int64_t column = (cluster & 2) != 0 ? columns - width : 0;
    int64_t plane = (cluster & 1) != 0 ? planes - 1 : 0;
    if (!corner) {
      row = static_cast<int64_t>(random.Below(static_cast<uint64_t>(rows - height + 1)));
      column = static_cast<int64_t>(random.Below(static_cast<uint64_t>(columns - width + 1)));
      plane = static_cast<int64_t>(random.Below(static_cast<uint64_t>(planes)));
    }
    std::set<int64_t> picked;
    if (cluster == 0) picked.insert(0);
    if (cluster == 3) picked.insert(elements - 1);
    for (int i = 0; i < per_cluster; ++i) {
      int64_t r = row + static_cast<int64_t>(random.Below(static_cast<uint64_t>(height)));
      int64_t c = column + static_cast<int64_t>(random.Below(static_cast<uint64_t>(width)));
      // Planes count the dimensions before the rows' and those between rows and columns.
      const int64_t before = plane / axis.inner, within = plane % axis.inner;
      picked.insert(((before * rows + r) * axis.inner + within) * columns + c);
    }
    clusters.emplace_back(picked.begin(), picked.end());
  }
  return clusters;
}

std::vector<int64_t> SpreadElements(const std::vector<int64_t>& shape, int samples, uint64_t seed) {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  const int64_t columns = shape.empty() ? 1 : shape.back();
  const int64_t rows = elements / columns;
  // Any stretch of this sequence covers the plane evenly: the powers of the plastic number.
  constexpr double kStepRow = 0.7548776662466927, kStepColumn = 0.5698402909980532;
  Rng random(seed);
  double row = random.Uniform(), column = random.Uniform();
  std::vector<int64_t> picked;
  std::set<int64_t> seen;
  for (int i = 0; i < samples; ++i) {
    row = std::fmod(row + kStepRow, 1.0);
    column = std::fmod(column + kStepColumn, 1.0);
    int64_t r = std::min(rows - 1, static_cast<int64_t>(row * static_cast<double>(rows)));
    int64_t c = std::min(columns - 1, static_cast<int64_t>(column * static_cast<double>(columns)));
    // Partial tiles are at the ends.
    if (i % 4 == 1) c = columns - 1;
    if (i % 4 == 3) r = rows - 1;
    if (seen.insert(r * columns + c).second) picked.push_back(r * columns + c);
  }
  return picked;
}

std::vector<int64_t> FewOfRuns(const std::vector<int64_t>& elements, size_t most) {
  std::vector<int64_t> few;
  const size_t step = std::max<size_t>(1, elements.size() / most);
  for (size_t i = 0; i < elements.size(); i += step) few.push_back(elements[i]);
  std::vector<std::pair<int64_t, int64_t>> runs;  // length, first element
  for (size_t i = 0; i < elements.size(); ++i) {
    if (i == 0 || elements[i] != elements[i - 1] + 1) runs.emplace_back(0, elements[i]);
    ++runs.back().first;
  }
  const auto shortest = static_cast<ptrdiff_t>(std::min(most, runs.size()));
  std::partial_sort(runs.begin(), runs.begin() + shortest, runs.end());
  for (auto run = runs.begin(); run != runs.begin() + shortest; ++run) {
    few.push_back(run->second);
    few.push_back(run->second + run->first - 1);
  }
  std::sort(few.begin(), few.end());
  few.erase(std::unique(few.begin(), few.end()), few.end());
  return few;
}

}  // namespace kiln::worker
