#include "coordinator/core/range.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "coordinator/search/race.h"
#include "coordinator/search/thresholds.h"
#include "proto/dispatch.h"

namespace kiln::core {
namespace {

constexpr int kMaxWaves = 6;
constexpr double kNear = 1.2;       // ratio of two sizes between which a step may end unmeasured
constexpr double kNearEdge = 1.05;  // the same behind a measured edge
constexpr size_t kMaxPairs = 300;   // samples of two configs that are compared

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

v1::VariantTime TimeOf(const std::vector<double>& samples) {
  v1::VariantTime time;
  const double median = MedianOf(samples);
  std::vector<double> away;
  for (const double sample : samples) away.push_back(std::abs(sample - median));
  time.set_median_ns(median);
  time.set_mad_ns(MedianOf(std::move(away)));
  return time;
}

std::vector<double> Head(const std::vector<double>& samples) {
  return {samples.begin(), samples.begin() + std::min(samples.size(), kMaxPairs)};
}

// Whether tiles of the usual heights have no rest there, as far as they are not higher.
bool OfWholeTiles(int64_t size) { return size % 64 == 0 || (size & (size - 1)) == 0; }

void SortPoints(v1::RangeTable* table) {
  std::sort(table->mutable_points()->begin(), table->mutable_points()->end(),
            [](const v1::RangePoint& a, const v1::RangePoint& b) { return a.size() < b.size(); });
}

void AddPoints(const std::vector<int64_t>& sizes, int wave, v1::RangeTable* table) {
  for (const int64_t size : sizes) {
    v1::RangePoint* point = table->add_points();
    point->set_size(size);
    point->set_wave(wave);
  }
  SortPoints(table);
}

// The points that satisfy `wanted`, of those that are not refused.
template <typename Wanted>
std::vector<v1::RangePoint> Some(const v1::RangeTable& table, const Wanted& wanted) {
  std::vector<v1::RangePoint> out;
  for (const v1::RangePoint& point : table.points()) {
    if (!point.refused() && wanted(point)) out.push_back(point);
  }
  return out;
}

bool HasPoint(const v1::RangeTable& table, int64_t size) {
  return std::any_of(table.points().begin(), table.points().end(),
                     [&](const v1::RangePoint& point) { return point.size() == size; });
}

}  // namespace

v1::SweepSpec SpecAt(const v1::SweepRow& range, const v1::RangeTable& table, RangeStep step,
                     int64_t size) {
  v1::SweepSpec spec = range.spec();
  const std::string name = spec.range().name();
  const int tuned = spec.range().points_size();
  spec.clear_range();
  *spec.mutable_arguments() = range.inputs().arguments();
  (*spec.mutable_runtime_values())[name] = absl::StrCat(size);
  spec.set_name(absl::StrCat(range.spec().name(), " ", name, "=", size));
  spec.set_deadline_seconds(0);
  // The budget is for all sizes together.
  spec.set_max_seconds(step == RangeStep::kTune ? spec.max_seconds() / tuned : 0);
  if (step == RangeStep::kTune) return spec;
  spec.set_name(absl::StrCat(spec.name(), step == RangeStep::kCompare ? " compared" : " proved"));
  spec.set_objective(v1::SweepSpec::COMPARE);
  spec.set_strategy("exhaustive");
  spec.set_max_candidates(0);
  spec.clear_auto_tunables();
  spec.clear_tunables();
  spec.clear_configs();
  if (step == RangeStep::kCompare) {
    *spec.mutable_configs() = table.compared();
  } else {
    spec.add_configs(table.single());
    *spec.mutable_dispatch() = table.dispatch();
  }
  return spec;
}

v1::RangeTable EmptyTable(const v1::ShapeRange& range) {
  v1::RangeTable table;
  for (const int64_t size : range.points()) {
    v1::RangePoint* point = table.add_points();
    point->set_size(size);
    point->set_tuned(true);
  }
  return table;
}

v1::RangePoint* PointAt(v1::RangeTable* table, int64_t size) {
  for (v1::RangePoint& point : *table->mutable_points()) {
    if (point.size() == size) return &point;
  }
  KILN_CHECK(false);
  return nullptr;
}

void StartComparison(v1::RangeTable* table) {
  std::map<std::string, int> wins;
  std::vector<int64_t> between;
  for (int i = 0; i < table->points_size(); ++i) {
    const v1::RangePoint& point = table->points(i);
    if (!point.winner().empty()) ++wins[point.winner()];
    const int64_t middle = i == 0 ? 0 : search::Between(table->points(i - 1).size(), point.size());
    if (middle != 0) between.push_back(middle);
  }
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [config, count] : wins) order.emplace_back(-count, config);
  std::sort(order.begin(), order.end());
  if (order.size() > search::kMaxVariants) order.resize(search::kMaxVariants);
  std::vector<std::string> compared;
  for (auto& [count, config] : order) compared.push_back(std::move(config));
  std::sort(compared.begin(), compared.end());
  table->mutable_compared()->Assign(compared.begin(), compared.end());
  AddPoints(between, 0, table);
}

void NoteTimes(const v1::RangeTable& table, const Samples& samples, uint64_t seed,
               v1::RangePoint* point) {
  const int n = table.compared_size();
  std::vector<std::vector<double>> over(n, std::vector<double>(n, 1));
  for (int a = 0; a < n; ++a) {
    for (int b = a + 1; b < n; ++b) {
      const search::Interval ratio =
          search::PairedRatio(Head(samples.at(table.compared(a))),
                              Head(samples.at(table.compared(b))), seed + a * n + b);
      over[a][b] = ratio.low;
      over[b][a] = 1 / ratio.high;
    }
  }
  point->clear_times();
  for (int a = 0; a < n; ++a) {
    v1::VariantTime* time = point->add_times();
    *time = TimeOf(samples.at(table.compared(a)));
    time->mutable_over()->Assign(over[a].begin(), over[a].end());
  }
}

void NoteProof(const v1::Measurement& dispatched, const v1::Measurement& single, uint64_t seed,
               v1::RangePoint* point) {
  const auto samples = [](const v1::Measurement& m) {
    return Head({m.samples_ns().begin(), m.samples_ns().end()});
  };
  point->set_dispatched_ns(dispatched.median_ns());
  point->set_single_ns(single.median_ns());
  const search::Interval ratio = search::PairedRatio(samples(dispatched), samples(single), seed);
  point->set_ratio_low(ratio.low);
  point->set_ratio_high(ratio.high);
}

void Refuse(int64_t size, const std::string& why, v1::RangeTable* table) {
  v1::RangePoint* point = PointAt(table, size);
  point->set_refused(true);
  point->set_failure(why);
}

void Drop(const std::string& config, const std::string& why, v1::RangeTable* table) {
  const auto& compared = table->compared();
  const auto found = std::find(compared.begin(), compared.end(), config);
  if (found == compared.end()) return;
  const int index = static_cast<int>(found - compared.begin());
  table->mutable_compared()->DeleteSubrange(index, 1);
  table->add_dropped(absl::StrCat(config, ": ", why));
  for (v1::RangePoint& point : *table->mutable_points()) {
    if (point.times().empty()) continue;
    point.mutable_times()->DeleteSubrange(index, 1);
    for (v1::VariantTime& time : *point.mutable_times()) {
      auto* over = time.mutable_over();
      over->erase(over->begin() + index);
    }
  }
}

int Refine(v1::RangeTable* table, int wave) {
  const int configs = table->compared_size();
  const int room = search::kMaxMeasuredPoints - table->points_size();
  if (wave + 1 >= kMaxWaves || room <= 0) return 0;
  const std::vector<v1::RangePoint> all = Some(*table, [](const auto&) { return true; });
  std::vector<int64_t> more;
  const auto add = [&](int64_t size) {
    const bool known = std::find(more.begin(), more.end(), size) != more.end();
    // What is there already is not asked again, were it refused.
    if (!known && !HasPoint(*table, size)) more.push_back(size);
  };
  const auto between = [&](size_t upper) {
    const int64_t middle = search::Between(all[upper - 1].size(), all[upper].size());
    if (middle != 0) add(middle);
  };
  // The steps before this wave, where it shows them to be wrong.
  const auto seen = [&](const v1::RangePoint& p) { return p.tuned() || p.wave() < wave; };
  const std::vector<v1::RangePoint> before = Some(*table, seen);
  const search::Steps old = search::Assign(before, configs, before.front().size());
  const int single = search::Single(all, configs);
  for (size_t i = 0; i < all.size(); ++i) {
    if (seen(all[i])) continue;
    if (!search::Slower(all[i], search::ChosenAt(old, all[i].size()), single)) continue;
    if (i > 0) between(i);
    if (i + 1 < all.size()) between(i + 1);
  }
  // The ends of the steps as they are now. The first size behind a point is the dearest for what
  // runs up to the next: one row more than whole tiles, perhaps a wave more. It is measured where a
  // step begins, and where the best single config may be faster there; and where another is, how
  // far that goes. A size of whole tiles may be the cheapest for what runs up to it: where a step
  // ends at one, the size before it is measured too.
  const search::Steps now = search::Assign(all, configs, all.front().size());
  for (size_t i = 1; i < all.size(); ++i) {
    const int runs = now.chosen[i];
    const bool step = runs != now.chosen[i - 1];
    const bool may_lose =
        runs != single && all[i].times(runs).median_ns() > all[i - 1].times(single).median_ns();
    if (!step && !may_lose) continue;
    const int64_t first = all[i - 1].size() + 1;
    // Behind an edge, and not one of which the size before was asked for later.
    const bool at_edge = i >= 2 && all[i - 2].size() + 1 == all[i - 1].size() &&
                         all[i - 2].wave() <= all[i - 1].wave();
    const bool new_edge = !at_edge && first < all[i].size() && !HasPoint(*table, first);
    if (new_edge) add(first);
    const int64_t last = all[i - 1].size() - 1;
    const bool ends =
        step && new_edge && OfWholeTiles(last + 1) && i >= 2 && last > all[i - 2].size();
    if (ends) add(last);
    const double apart =
        static_cast<double>(all[i].size()) / static_cast<double>(all[i - 1].size());
    if (step && apart > (at_edge ? kNearEdge : kNear)) between(i);
  }
  if (static_cast<int>(more.size()) > room) more.resize(room);
  AddPoints(more, wave + 1, table);
  return static_cast<int>(more.size());
}

void SetDispatch(const v1::ShapeRange& range, v1::RangeTable* table) {
  const int configs = table->compared_size();
  const std::vector<v1::RangePoint> all = Some(*table, [](const auto&) { return true; });
  const search::Steps steps = search::Assign(all, configs, range.low());
  table->set_single(table->compared(search::Single(all, configs)));
  v1::Dispatch* dispatch = table->mutable_dispatch();
  dispatch->Clear();
  dispatch->set_dimension(range.name());
  dispatch->set_low(range.low());
  dispatch->set_high(range.high());
  std::map<int, int> variant_of;  // config -> variant, in the order of first use
  for (const v1::DispatchStep& step : steps.steps) {
    const auto [it, first] = variant_of.emplace(step.variant(), dispatch->variants_size());
    if (first) dispatch->add_variants(table->compared(step.variant()));
    v1::DispatchStep* add = dispatch->add_steps();
    add->set_first(step.first());
    add->set_variant(it->second);
  }
}

bool Mend(const v1::ShapeRange& range, v1::RangeTable* table) {
  const auto index = [&](const std::string& config) {
    const auto& compared = table->compared();
    return static_cast<int>(std::find(compared.begin(), compared.end(), config) - compared.begin());
  };
  const int single = index(table->single());
  v1::RangeTable mended = *table;
  for (v1::RangePoint& point : *mended.mutable_points()) {
    const int chosen = index(VariantAt(table->dispatch(), point.size()));
    if (!ProvedSlower(point) || chosen == single) continue;
    v1::VariantTime* time = point.mutable_times(chosen);
    time->set_over(single, std::max(time->over(single), point.ratio_low()));
  }
  SetDispatch(range, &mended);
  if (mended.dispatch().SerializeAsString() == table->dispatch().SerializeAsString()) return false;
  for (v1::RangePoint& point : *mended.mutable_points()) {
    point.clear_dispatched_ns();
    point.clear_single_ns();
    point.clear_ratio_low();
    point.clear_ratio_high();
  }
  *table = std::move(mended);
  return true;
}

void CountSizes(const v1::RangeTable& table, int* done, int* total) {
  *done = *total = 0;
  for (const v1::RangePoint& point : table.points()) {
    if (point.tuned()) {
      ++*total;
      *done += !point.winner().empty() || !point.failure().empty();
    }
    if (point.refused()) continue;
    *total += 2;
    *done += !point.times().empty();
    *done += point.dispatched_ns() > 0;
  }
}

double ShareDone(const v1::RangeTable& table, double weight, double tuning) {
  int done = 0, total = 0, tuned = 0, known = 0;
  CountSizes(table, &done, &total);
  for (const v1::RangePoint& point : table.points()) {
    tuned += point.tuned();
    known += point.tuned() && (!point.winner().empty() || !point.failure().empty());
  }
  // Before the comparison begins the sizes between are not there yet.
  const double all = total + (weight - 1) * tuned + (known < tuned ? 2.0 * (tuned - 1) : 0);
  return all > 0 ? (done + (weight - 1) * known + weight * tuning) / all : 0;
}

std::string RefusedText(const v1::ShapeRange& range, const v1::RangeTable& table) {
  std::vector<std::string> sizes;
  for (const v1::RangePoint& point : table.points()) {
    if (point.refused()) sizes.push_back(absl::StrCat(range.name(), "=", point.size()));
  }
  if (sizes.empty()) return "";
  return absl::StrCat("the kernel does not take ", absl::StrJoin(sizes, ", "));
}

std::string SlowerText(const v1::RangeTable& table) {
  std::vector<std::string> slower;
  for (const v1::RangePoint& point : table.points()) {
    if (!ProvedSlower(point)) continue;
    slower.push_back(absl::StrFormat("%s=%d (%.3f times)", table.dispatch().dimension(),
                                     point.size(), point.dispatched_ns() / point.single_ns()));
  }
  if (slower.empty()) return "";
  std::string text = absl::StrCat("slower than the best single config at ", slower.size(), " of ",
                                  Some(table, [](const auto&) { return true; }).size(), " sizes: ");
  for (size_t i = 0; i < slower.size(); ++i) absl::StrAppend(&text, i > 0 ? ", " : "", slower[i]);
  return text;
}

}  // namespace kiln::core
