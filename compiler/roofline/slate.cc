#include "compiler/roofline/slate.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kiln::roofline {
namespace {

// A candidate more than this much slower than the best is never on the slate, but for the default.
constexpr double kReach = 1.6;
constexpr double kTie = 1.12;          // ways to run a block that differ less are worth a try
constexpr double kSame = 1.002;        // prices that tell nothing
constexpr int64_t kAlike = 16;         // candidates of such that are looked at
constexpr int64_t kPool = 3000;        // candidates looked at
constexpr double kLikePenalty = 0.12;  // of an identical config; falls to 0 at kLikeDistance
constexpr double kLikeDistance = 1.6;  // in doublings, summed over the axes

// How much a step along an axis makes another kernel: tiles decide, a swizzle hardly.
double Weight(Role role) {
  switch (role) {
    case Role::kPanel:
    case Role::kOption:
      return 0.3;
    case Role::kThreads:
    case Role::kStages:
      return 0.5;
    case Role::kInert:
      return 0;
    default:
      return 1;
  }
}

// Weighted doublings between two configs, summed over the axes.
double Distance(const std::vector<double>& a, const std::vector<double>& b,
                const std::vector<double>& weight) {
  double d = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) {
      if (std::isnan(a[i]) != std::isnan(b[i])) d += weight[i];
      continue;
    }
    if (a[i] == b[i]) continue;
    d += weight[i] * (a[i] > 0 && b[i] > 0 ? std::fabs(std::log2(a[i] / b[i])) : 1.0);
  }
  return d;
}

class Slate {
 public:
  Slate(const PricedSpace& space, int top_k) : space_(space) {
    size_ = static_cast<size_t>(std::min<int64_t>(top_k, space.legal()));
    const double best = space.PredictedAt(0);
    for (int64_t r = 0; r < std::min(space.legal(), kPool); ++r) {
      if (space.PredictedAt(r) > kReach * best && pool_.size() >= size_) break;
      pool_.push_back(space.Coordinates(r));
    }
    like_.assign(pool_.size(), 0);
    for (const Axis& a : space.axes()) weight_.push_back(Weight(a.role));
  }

  bool Full() const { return out_.size() >= size_; }

  void Add(int64_t rank, std::string why) {
    if (Full() || !chosen_.insert(rank).second) return;
    out_.push_back({rank, std::move(why)});
    const std::vector<double> at =
        rank < static_cast<int64_t>(pool_.size()) ? pool_[rank] : space_.Coordinates(rank);
    for (size_t i = 0; i < pool_.size(); ++i) {
      const double d = Distance(at, pool_[i], weight_);
      like_[i] = std::max(like_[i], 1.0 - std::min(1.0, d / kLikeDistance));
    }
  }

  // The best prediction after the penalty; false where all that are looked at have a seat.
  bool AddNext() {
    int64_t best = -1;
    double best_score = 0;
    for (size_t i = 0; i < pool_.size(); ++i) {
      if (chosen_.count(static_cast<int64_t>(i)) > 0) continue;
      const double score =
          space_.PredictedAt(static_cast<int64_t>(i)) * (1.0 + kLikePenalty * like_[i]);
      if (best < 0 || score < best_score) {
        best = static_cast<int64_t>(i);
        best_score = score;
      }
    }
    if (best < 0) return false;
    Add(best, "");
    return true;
  }

  template <typename P>
  int64_t FirstWhere(P&& wanted) const {
    for (size_t i = 0; i < pool_.size(); ++i) {
      if (wanted(static_cast<int64_t>(i))) return static_cast<int64_t>(i);
    }
    return -1;
  }

  size_t size() const { return size_; }
  size_t filled() const { return out_.size(); }
  const std::vector<std::vector<double>>& pool() const { return pool_; }
  std::vector<SlateEntry> Take() { return std::move(out_); }

 private:
  const PricedSpace& space_;
  size_t size_ = 0;
  std::vector<std::vector<double>> pool_;  // coordinates by rank
  std::vector<double> weight_;             // by axis
  std::vector<double> like_;               // likeness to the nearest chosen one, 0..1
  std::set<int64_t> chosen_;
  std::vector<SlateEntry> out_;
};

int AxisOf(const std::vector<Axis>& axes, Role role) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].role == role && !axes[i].numbers.empty()) return static_cast<int>(i);
  }
  return -1;
}

// Of the configs that are priced as the best, the first of which no thread may lack registers, as
// what is counted of them may be too few; the best, where all are doubtful.
int64_t First(const PricedSpace& space) {
  const int64_t looked = std::min(space.legal(), kAlike);
  for (int64_t r = 0; r < looked && space.PredictedAt(r) <= kSame * space.PredictedAt(0); ++r) {
    if (!space.MayLackRegisters(r)) return r;
  }
  return 0;
}

// A seat for the best config with each open pass option the other way, where that may be as good.
void AddOptions(const PricedSpace& space, Slate& slate) {
  const std::vector<std::vector<double>>& pool = slate.pool();
  for (size_t option = 0; option < space.axes().size(); ++option) {
    if (space.axes()[option].role != Role::kOption || !space.axes()[option].open) continue;
    const int64_t other = slate.FirstWhere([&](int64_t r) {
      for (size_t i = 0; i < pool[0].size(); ++i) {
        const bool same = pool[0][i] == pool[r][i] || std::isnan(pool[0][i]);
        if (same == (i == option)) return false;
      }
      return space.PredictedAt(r) <= kTie * space.PredictedAt(0);
    });
    if (other >= 0) {
      slate.Add(other, absl::StrCat("Here for the other way of ", space.axes()[option].name, "."));
    }
  }
}

}  // namespace

std::vector<SlateEntry> ChooseSlate(const PricedSpace& space, int top_k, const Config& fallback) {
  if (space.legal() == 0 || top_k <= 0) return {};
  Slate slate(space, top_k);
  slate.Add(First(space), "");
  const size_t half = slate.size() / 2;
  while (slate.filled() < half && slate.AddNext()) {
  }
  if (slate.size() >= 6) {
    const int m = AxisOf(space.axes(), Role::kTileM), n = AxisOf(space.axes(), Role::kTileN);
    if (m >= 0 && n >= 0) {
      const bool wide = slate.pool()[0][n] >= slate.pool()[0][m];
      const int64_t other = slate.FirstWhere(
          [&](int64_t r) { return (slate.pool()[r][n] >= slate.pool()[r][m]) != wide; });
      if (other >= 0) slate.Add(other, "Here for the other tile aspect.");
    }
    const std::string bound = space.BoundBy(0);
    int64_t looked = 0;
    const int64_t other =
        slate.FirstWhere([&](int64_t r) { return ++looked <= 400 && space.BoundBy(r) != bound; });
    if (other >= 0) slate.Add(other, "Here because another resource binds it.");
    AddOptions(space, slate);
    const int64_t own = space.RankOf(fallback);
    if (own >= 0) slate.Add(own, "The kernel's own default.");
  }
  while (!slate.Full() && slate.AddNext()) {
  }
  return slate.Take();
}

}  // namespace kiln::roofline
