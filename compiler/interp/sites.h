// Which parts of global memory the blocks of a program's launches touch, as boxes of elements.
// Private to compiler/interp.
#ifndef KILN_COMPILER_INTERP_SITES_H_
#define KILN_COMPILER_INTERP_SITES_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <unordered_set>
#include <vector>

#include "compiler/interp/execution.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/stmt.h"

namespace kiln::interp {

inline constexpr int64_t kMinusInfinity = std::numeric_limits<int64_t>::min() / 4;
inline constexpr int64_t kInfinity = std::numeric_limits<int64_t>::max() / 4;

// A box of elements, bounds inclusive.
struct ElementBox {
  std::array<int64_t, kMaxRank> low{}, high{};
  bool operator<(const ElementBox& o) const { return low != o.low ? low < o.low : high < o.high; }
};

inline bool Intersects(const ElementBox& a, const ElementBox& b, int rank) {
  for (int d = 0; d < rank; ++d) {
    if (a.high[d] < b.low[d] || b.high[d] < a.low[d]) return false;
  }
  return true;
}

inline ElementBox Hull(const ElementBox& a, const ElementBox& b, int rank) {
  ElementBox hull = a;
  for (int d = 0; d < rank; ++d) {
    hull.low[d] = std::min(a.low[d], b.low[d]);
    hull.high[d] = std::max(a.high[d], b.high[d]);
  }
  return hull;
}

// The elements of one buffer that somebody wants.
class Needed {
 public:
  explicit Needed(int rank) : rank_(rank) {}
  void Add(const ElementBox& box) {
    hull_ = boxes_.empty() ? box : Hull(hull_, box, rank_);
    boxes_.insert(box);
    if (boxes_.size() > kMaxBoxes) boxes_ = {hull_};
  }
  bool Touches(const ElementBox& box) const {
    if (boxes_.empty() || !Intersects(hull_, box, rank_)) return false;
    return std::any_of(boxes_.begin(), boxes_.end(),
                       [&](const ElementBox& b) { return Intersects(b, box, rank_); });
  }
  // The hull of what is wanted inside of `box`.
  std::optional<ElementBox> Within(const ElementBox& box) const {
    std::optional<ElementBox> found;
    if (boxes_.empty() || !Intersects(hull_, box, rank_)) return found;
    for (const ElementBox& b : boxes_) {
      if (!Intersects(b, box, rank_)) continue;
      ElementBox both = b;
      for (int d = 0; d < rank_; ++d) {
        both.low[d] = std::max(b.low[d], box.low[d]);
        both.high[d] = std::min(b.high[d], box.high[d]);
      }
      found = found ? Hull(*found, both, rank_) : both;
    }
    return found;
  }

 private:
  static constexpr size_t kMaxBoxes = 1 << 14;  // beyond, their hull

  int rank_;
  ElementBox hull_;
  std::set<ElementBox> boxes_;
};

// One dimension of an access as a function of the block ids.
struct Span {
  bool linear = false;
  int64_t per_block[3] = {0, 0, 0};
  int64_t low = 0, high = 0;  // at block 0, when linear
  ir::Expr min, extent;       // otherwise
};

struct Site {
  ir::Buffer buffer;
  std::vector<Span> spans;
  ir::Facts facts;
  bool atomic = false;
};

struct LaunchInfo {
  const ir::Launch* launch = nullptr;
  ir::Facts outer;              // what is known outside of it
  std::vector<int64_t> extent;  // of the grid
  bool every_block = false;     // under a host-level loop: no telling which run counts
  std::vector<Site> reads, writes;
};

// Collects the launches of a program and what their blocks read and write in global memory.
class Collector {
 public:
  explicit Collector(Execution* execution) : execution_(execution) {}

  void Run(const ir::Program& program) {
    ir::Facts facts;
    const auto fix = [&](const ir::Expr& var) {
      if (IsReal(var.dtype())) return;
      const int64_t value = execution_->IntValue(var);
      facts.SetBounds(var, {value, value});
    };
    for (const ir::Expr& dim : program.dims) fix(dim);
    for (const ir::Param& param : program.params) {
      if (param.kind == ir::Param::kScalar) fix(param.scalar);
    }
    Visit(program.body, &facts);
  }
  // Only `launch`, of which `outer` is known outside.
  void Run(const ir::Launch& launch, const ir::Facts& outer) { VisitLaunch(launch, outer); }

  std::vector<LaunchInfo> launches;
  std::vector<ir::Buffer> host_reads;  // outside of launches

 private:
  void Visit(const ir::Stmt& s, ir::Facts* facts);
  void VisitLaunch(const ir::Launch& x, const ir::Facts& outer);
  void VisitFor(const ir::For& x, const ir::Facts& outer);
  void Leaf(const ir::Stmt& s, const ir::Facts& facts);
  void AddRegion(const ir::Region& r, const ir::Facts& facts, bool write, bool atomic = false);
  void AddAccess(const ir::Buffer& b, const std::vector<ir::Expr>& indices, const ir::Facts& facts,
                 bool write);
  void AddLoads(const ir::Expr& e, const ir::Facts& facts);
  void Add(Site site, bool write);
  Span MakeSpan(const ir::Expr& min, const ir::Expr& extent, const ir::Facts& facts);
  bool DependsOnBlock(const ir::Expr& e);

  Execution* execution_;
  LaunchInfo* current_ = nullptr;
  int loops_ = 0;  // around a launch
  std::unordered_set<const ir::ExprNode*> block_dependent_;
};

// What a block touches through one site.
ElementBox BoxOf(const Site& site, const LaunchInfo& info, const int64_t (&block)[3]);

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_SITES_H_
