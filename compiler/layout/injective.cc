#include "compiler/layout/injective.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/layout/integers.h"

namespace kiln::layout {
namespace {

constexpr size_t kMaxStates = size_t{1} << 20;   // remembered partial sums
constexpr int64_t kMaxSteps = int64_t{1} << 24;  // tried differences

// A digit of the shard or of the replica that moves the axis at hand.
struct Digit {
  int64_t extent;
  int64_t stride;
  size_t index;  // shard iters first, then replica iters
};

// Depth-first over the differences of one axis. `must_differ` digits: a solution needs a nonzero
// difference in one of them (all of them when empty is not asked for).
class DifferenceSearch {
 public:
  DifferenceSearch(std::vector<Digit> digits, size_t must_end)
      : digits_(std::move(digits)), must_end_(must_end) {
    std::stable_sort(digits_.begin(), digits_.end(),
                     [](const Digit& a, const Digit& b) { return Magnitude(a) > Magnitude(b); });
    reach_.assign(digits_.size() + 1, 0);
    gcd_.assign(digits_.size() + 1, 0);
    must_below_.assign(digits_.size() + 1, false);
    for (size_t k = digits_.size(); k-- > 0;) {
      reach_[k] = reach_[k + 1] + Magnitude(digits_[k]) * (digits_[k].extent - 1);
      gcd_[k] = std::gcd(gcd_[k + 1], Magnitude(digits_[k]));
      must_below_[k] = must_below_[k + 1] || digits_[k].index < must_end_;
    }
    difference_.assign(digits_.size(), 0);
  }

  bool Find() { return Step(0, 0, false); }
  bool gave_up() const { return failed_.size() >= kMaxStates || steps_ >= kMaxSteps; }

  // Difference of digit `index` in the solution found.
  int64_t of(size_t index) const {
    for (size_t k = 0; k < digits_.size(); ++k) {
      if (digits_[k].index == index) return difference_[k];
    }
    return 0;
  }

 private:
  static int64_t Magnitude(const Digit& d) { return d.stride < 0 ? -d.stride : d.stride; }

  // Completes a partial sum with digits k, k+1, ...; `differs` once a required digit is nonzero.
  bool Step(size_t k, int64_t sum, bool differs) {
    if (k == digits_.size()) return sum == 0 && differs;
    if (!differs && !must_below_[k]) return false;
    if (sum > reach_[k] || sum < -reach_[k]) return false;
    if (gcd_[k] == 0 ? sum != 0 : sum % gcd_[k] != 0) return false;
    const auto state = std::make_pair(2 * k + differs, sum);
    if (gave_up() || failed_.count(state) > 0) return false;
    const Digit& digit = digits_[k];
    const int64_t limit = digit.extent - 1;
    int64_t low = -limit;
    int64_t high = limit;
    if (digit.stride != 0) {  // |sum + d * stride| <= reach of the rest
      const int64_t step = Magnitude(digit);
      const int64_t towards = digit.stride > 0 ? -sum : sum;
      low = std::max(low, -FloorDiv(reach_[k + 1] - towards, step));
      high = std::min(high, FloorDiv(reach_[k + 1] + towards, step));
    } else {  // moves nothing: any difference will do
      low = 0;
      high = digit.index < must_end_ && limit > 0 ? 1 : 0;
    }
    for (int64_t d = high; d >= low && !gave_up(); --d) {
      ++steps_;
      difference_[k] = d;
      if (Step(k + 1, sum + d * digit.stride, differs || (d != 0 && digit.index < must_end_))) {
        return true;
      }
    }
    difference_[k] = 0;
    failed_.insert(state);
    return false;
  }

  std::vector<Digit> digits_;
  size_t must_end_;
  std::vector<int64_t> reach_, gcd_;
  std::vector<bool> must_below_;
  std::vector<int64_t> difference_;
  std::set<std::pair<size_t, int64_t>> failed_;
  int64_t steps_ = 0;
};

int64_t FlatOf(const std::vector<Iter>& iters, const std::vector<int64_t>& digits, size_t first) {
  int64_t flat = 0;
  for (size_t k = 0; k < iters.size(); ++k) flat = flat * iters[k].extent + digits[first + k];
  return flat;
}

// `required`: digits before this index count as a difference (all digits, or the shard's alone).
absl::StatusOr<std::optional<Collision>> Search(const Layout& layout, size_t required) {
  std::vector<Iter> all = layout.shard();
  all.insert(all.end(), layout.replica().begin(), layout.replica().end());
  std::set<Axis> axes;
  for (const Iter& iter : all) axes.insert(iter.axis);
  std::vector<int64_t> difference(all.size(), 0);
  bool found = false;
  // Digits of other axes may all stay equal, so a solution on one axis is one of the whole.
  for (const Axis axis : axes) {
    std::vector<Digit> digits;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].axis == axis && all[i].extent > 1) {
        digits.push_back({all[i].extent, all[i].stride, i});
      }
    }
    DifferenceSearch search(digits, required);
    if (!search.Find()) {
      if (!search.gave_up()) continue;
      return absl::ResourceExhaustedError(
          absl::StrCat("injectivity on ", NameOf(axis), ": no answer after 2^24 steps"));
    }
    for (const Digit& d : digits) difference[d.index] = search.of(d.index);
    found = true;
    break;
  }
  if (!found) return std::optional<Collision>();
  std::vector<int64_t> one(all.size()), two(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    one[i] = std::max<int64_t>(difference[i], 0);
    two[i] = std::max<int64_t>(-difference[i], 0);
  }
  const size_t shards = layout.shard().size();
  Collision collision;
  collision.element = FlatOf(layout.shard(), one, 0);
  collision.other = FlatOf(layout.shard(), two, 0);
  collision.copy = FlatOf(layout.replica(), one, shards);
  collision.other_copy = FlatOf(layout.replica(), two, shards);
  std::vector<int64_t> values(layout.axes().size());
  layout.Evaluate(collision.element, collision.copy, values.data());
  for (size_t a = 0; a < values.size(); ++a) collision.at.Set(layout.axes()[a], values[a]);
  return std::optional<Collision>(std::move(collision));
}

}  // namespace

Witness Collision::ToWitness() const {
  Witness witness;
  witness.reason = element == other ? absl::StrCat("not injective: copies ", copy, " and ",
                                                   other_copy, " of one element coincide")
                                    : "not injective: two elements share a place";
  witness.element = element;
  witness.other = other;
  witness.at = at;
  witness.other_at = at;
  return witness;
}

absl::StatusOr<std::optional<Collision>> SearchCollision(const Layout& layout) {
  return Search(layout, layout.shard().size() + layout.replica().size());
}

std::optional<Collision> FindCollision(const Layout& layout) {
  auto collision = SearchCollision(layout);
  KILN_CHECK(collision.ok());
  return *std::move(collision);
}

std::optional<Collision> FindSharedPoint(const Layout& layout) {
  auto collision = Search(layout, layout.shard().size());
  KILN_CHECK(collision.ok());
  return *std::move(collision);
}

}  // namespace kiln::layout
