#include "compiler/roofline/carver.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <queue>

namespace kiln::roofline {
namespace {

using Shape = std::vector<int64_t>;

constexpr size_t kVisitLimit = 2000;
constexpr int64_t kThreadCap = 1024;
constexpr int64_t kSmallTile = 32;   // TensorCorePolicy deepens K for tiles with such an extent
constexpr int64_t kFragment = 16;    // the only matrix instruction it knows is 16x16, K in 16s
constexpr int64_t kKSlabBytes = 64;  // TensorCorePolicy's K step, of one operand
constexpr int64_t kSmemGrain = 32;

int64_t Product(const Shape& s) {
  return std::accumulate(s.begin(), s.end(), int64_t{1}, std::multiplies<>());
}

Shape Divisors(int64_t n) {
  Shape out;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    out.push_back(d);
    if (d != n / d) out.push_back(n / d);
  }
  std::sort(out.begin(), out.end());
  return out;
}

Shape PrimeFactors(int64_t n) {
  Shape out;
  for (int64_t p = 2; p * p <= n; ++p) {
    while (n % p == 0) {
      out.push_back(p);
      n /= p;
    }
  }
  if (n > 1) out.push_back(n);
  return out;
}

bool IsPrime(int64_t n) { return n > 1 && PrimeFactors(n).size() == 1; }

// Contiguous run of `slice` inside `tensor`: trailing dimensions taken whole, and the next one.
int64_t CoalescedRun(const Shape& slice, const Shape& tensor) {
  int64_t run = 1;
  for (size_t d = slice.size(); d-- > 0;) {
    run *= slice[d];
    if (slice[d] != tensor[d]) break;
  }
  return run;
}

// Elements moved for a slice when runs shorter than a transaction waste the rest of it.
double Transferred(const Shape& slice, const Shape& tensor, double transaction) {
  const double run = static_cast<double>(CoalescedRun(slice, tensor));
  return transaction * static_cast<double>(Product(slice)) / std::min(transaction, run);
}

struct Tile {
  Shape extents;
  double traffic = 0;
  int64_t smem = 0;
  int64_t resident = 1;
  int64_t waves = 1;
  bool valid = true;
  double Priority() const { return (traffic + 1) * static_cast<double>(waves); }
};

class Policy {
 public:
  Policy(const CarverNode& node, const CarverDevice& device, bool tensor_core)
      : node_(node), dev_(device), tensor_core_(tensor_core) {
    if (tensor_core && (device.sm == 80 || device.sm == 90)) stages_ = 2;
  }

  std::vector<CarverHint> Emit(int top_k);

 private:
  int64_t Extent(int axis) const {
    const int s = static_cast<int>(node_.space.size());
    return axis < s ? node_.space[axis] : node_.reduce[axis - s];
  }
  Shape TensorShape(const CarverTensor& t) const {
    Shape out;
    for (int a : t.axes) out.push_back(Extent(a));
    return out;
  }
  // The slice of an input that a tile needs; an empty rstep means the whole reduction.
  Shape Slice(const CarverTensor& t, const Shape& tile, const Shape& rstep) const {
    const int s = static_cast<int>(node_.space.size());
    Shape out;
    for (int a : t.axes) {
      if (a < s) {
        out.push_back(std::min(tile[a], node_.space[a]));
      } else {
        out.push_back(rstep.empty() ? Extent(a) : std::min(Extent(a), rstep[a - s]));
      }
    }
    return out;
  }

  Shape StepCandidates(int64_t extent) const;
  Shape SeedSteps() const;
  double SeedScore(const Shape& steps) const;
  double Traffic(const Shape& tile) const;
  int64_t Smem(const Shape& tile, const Shape& rstep) const;
  Tile Measure(const Shape& tile, const Shape& rstep) const;
  std::vector<Tile> SearchTiles(const Shape& rstep) const;
  bool ShapeIsValid(const Tile& t) const;
  Shape ExpandSteps(const Tile& t, const Shape& rstep) const;
  Shape BlockSizes(const Tile& t, const Shape& rstep) const;
  std::optional<CarverHint> Assign(const Tile& t, const Shape& rstep, int64_t threads) const;
  bool AssignWarps(const Tile& t, int64_t threads, CarverHint& hint) const;
  bool AssignThreads(const Tile& t, const Shape& rstep, int64_t threads, CarverHint& hint) const;
  double ThreadScore(const Shape& tile, const Shape& threads) const;
  void Vectorize(const Shape& tile, const Shape& rstep, int64_t threads, CarverHint& hint) const;
  int64_t Panel() const;

  const CarverNode& node_;
  const CarverDevice& dev_;
  const bool tensor_core_;
  int stages_ = 1;
};

Shape Policy::StepCandidates(int64_t extent) const {
  if (tensor_core_) {
    Shape out;
    for (int64_t d : Divisors(extent / kFragment)) out.push_back(d * kFragment);
    return out;
  }
  if (IsPrime(extent) && extent > 64) {
    Shape out;
    for (int64_t p = 1; p < extent; p *= 2) out.push_back(p);
    out.push_back(extent);
    return out;
  }
  return Divisors(extent);
}

// How well each input's runs match a read transaction at the unit tile.
double Policy::SeedScore(const Shape& steps) const {
  const Shape unit(node_.space.size(), 1);
  double score = 0;
  for (const CarverTensor& t : node_.inputs) {
    const double run = static_cast<double>(CoalescedRun(Slice(t, unit, steps), TensorShape(t)));
    const double want = static_cast<double>(dev_.read_transaction) / t.dtype.bytes();
    score += 2 * run * want / (run * run + want * want);
  }
  return score;
}

Shape Policy::SeedSteps() const {
  if (tensor_core_) {
    Shape out;
    const int64_t basic = kKSlabBytes / std::max<int64_t>(1, node_.inputs[0].dtype.bytes());
    for (int64_t k : node_.reduce) {
      if (k % kFragment != 0) {
        out.push_back(k < basic ? kFragment : basic);
      } else if (k % basic == 0) {
        out.push_back(basic);
      } else {
        out.push_back(kFragment);  // the climb over multiples of 16 starts, and ends, here
      }
    }
    return out;
  }
  std::vector<Shape> candidates;
  for (int64_t extent : node_.reduce) candidates.push_back(StepCandidates(extent));
  std::vector<size_t> at(candidates.size(), 0);
  const auto steps = [&](const std::vector<size_t>& index) {
    Shape out;
    for (size_t i = 0; i < index.size(); ++i) out.push_back(candidates[i][index[i]]);
    return out;
  };
  double best = SeedScore(steps(at));
  while (true) {
    int move = -1;
    for (size_t i = 0; i < at.size(); ++i) {
      if (at[i] + 1 >= candidates[i].size()) continue;
      auto next = at;
      ++next[i];
      const double score = SeedScore(steps(next));
      if (score > best) {
        best = score;
        move = static_cast<int>(i);
      }
    }
    if (move < 0) return steps(at);
    ++at[move];
  }
}

// Bytes that one block moves over the whole reduction. The store's tile is clipped to the first
// input's shape, dimension by dimension: a slip of the original that is part of the rule.
double Policy::Traffic(const Shape& tile) const {
  double bytes = 0;
  for (const CarverTensor& t : node_.inputs) {
    const double b = static_cast<double>(t.dtype.bytes());
    bytes += Transferred(Slice(t, tile, {}), TensorShape(t), dev_.read_transaction / b) * b;
  }
  Shape store = tile;
  if (!node_.inputs.empty()) {
    const Shape first = TensorShape(node_.inputs[0]);
    if (first.size() < store.size()) store.resize(first.size());
    for (size_t d = 0; d < store.size(); ++d) store[d] = std::min(store[d], first[d]);
  }
  Shape whole = node_.space;
  whole.resize(store.size());
  const double b = static_cast<double>(node_.out.bytes());
  return bytes + Transferred(store, whole, dev_.write_transaction / b) * b;
}

// Only inputs of a reduction are kept in shared memory.
int64_t Policy::Smem(const Shape& tile, const Shape& rstep) const {
  if (node_.reduce.empty()) return 0;
  int64_t bytes = 0;
  for (const CarverTensor& t : node_.inputs) {
    const int64_t b = Product(Slice(t, tile, rstep)) * t.dtype.bytes();
    bytes += (b + kSmemGrain - 1) / kSmemGrain * kSmemGrain;
  }
  return bytes;
}

Tile Policy::Measure(const Shape& tile, const Shape& rstep) const {
  Tile t;
  t.extents = tile;
  t.traffic = Traffic(tile);
  t.smem = Smem(tile, rstep) * stages_;
  const int64_t regs =
      static_cast<int64_t>(2.0 * static_cast<double>(Product(tile)) * node_.out.bits / 32.0);
  if (t.smem > dev_.smem_cap || regs > dev_.reg_cap) {
    t.valid = false;
    return t;
  }
  t.resident = std::min({dev_.max_smem_usage / std::max<int64_t>(t.smem, 1),
                         dev_.reg_cap / std::max<int64_t>(regs, 1), dev_.sm_partition});
  int64_t grid = 1;
  for (size_t d = 0; d < tile.size(); ++d) grid *= (node_.space[d] + tile[d] - 1) / tile[d];
  const int64_t slots = t.resident * dev_.cores;
  t.waves = (grid + slots - 1) / slots;
  return t;
}

// Best-first growth over the lattice of divisors (and small powers of two), valid tiles only.
std::vector<Tile> Policy::SearchTiles(const Shape& rstep) const {
  std::vector<Shape> steps;
  for (int64_t n : node_.space) {
    Shape s = Divisors(n);
    const Shape divisors = s;
    for (int64_t extra : {2, 4, 8, 16, 32}) {
      if (extra > divisors.front() && extra < divisors.back() &&
          std::find(divisors.begin(), divisors.end(), extra) == divisors.end()) {
        s.push_back(extra);
      }
    }
    std::sort(s.begin(), s.end());
    steps.push_back(std::move(s));
  }
  std::map<Shape, size_t> visited;
  std::vector<Tile> tiles;  // in order of visits
  using Entry = std::pair<double, Shape>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  const auto add = [&](const Shape& tile) {
    if (!visited.emplace(tile, tiles.size()).second) return;
    tiles.push_back(Measure(tile, rstep));
    if (tiles.back().valid) queue.emplace(tiles.back().Priority(), tile);
  };
  add(Shape(node_.space.size(), 1));
  while (!queue.empty() && tiles.size() <= kVisitLimit) {
    const Shape tile = queue.top().second;
    queue.pop();
    for (size_t d = tile.size(); d-- > 0;) {
      const auto at = std::find(steps[d].begin(), steps[d].end(), tile[d]);
      if (at + 1 == steps[d].end()) continue;
      Shape next = tile;
      next[d] = *(at + 1);
      add(next);
    }
  }
  std::erase_if(tiles, [](const Tile& t) { return !t.valid; });
  std::stable_sort(tiles.begin(), tiles.end(),
                   [](const Tile& a, const Tile& b) { return a.Priority() < b.Priority(); });
  return tiles;
}

bool Policy::ShapeIsValid(const Tile& t) const {
  if (!tensor_core_) return true;
  const size_t n = t.extents.size();
  for (size_t d = 0; d < n; ++d) {
    if (d + 2 >= n && t.extents[d] < kFragment) return false;
    if (node_.space[d] % t.extents[d] != 0) return false;
  }
  return true;
}

Shape Policy::ExpandSteps(const Tile& t, const Shape& rstep) const {
  if (node_.reduce.empty()) return rstep;
  if (tensor_core_) {
    const bool small =
        std::any_of(t.extents.begin(), t.extents.end(), [](int64_t e) { return e <= kSmallTile; });
    if (!small) return rstep;
  }
  const int64_t limit = std::min(dev_.max_smem_usage / t.resident, dev_.smem_cap);
  std::vector<Shape> candidates;
  std::vector<size_t> at;
  for (size_t i = 0; i < rstep.size(); ++i) {
    Shape c = StepCandidates(node_.reduce[i]);
    std::erase_if(c, [&](int64_t v) { return v % rstep[i] != 0; });
    if (c.empty()) return rstep;
    candidates.push_back(std::move(c));
    at.push_back(0);
  }
  const auto steps = [&](const std::vector<size_t>& index) {
    Shape out;
    for (size_t i = 0; i < index.size(); ++i) out.push_back(candidates[i][index[i]]);
    return out;
  };
  while (true) {
    int move = -1;
    double best = -1;
    for (size_t i = 0; i < at.size(); ++i) {
      if (at[i] + 1 >= candidates[i].size()) continue;
      auto next = at;
      ++next[i];
      double score = 0;
      for (const CarverTensor& in : node_.inputs) {
        score +=
            static_cast<double>(CoalescedRun(Slice(in, t.extents, steps(next)), TensorShape(in)));
      }
      if (score > best) {
        best = score;
        move = static_cast<int>(i);
      }
    }
    if (move < 0) return steps(at);
    auto next = at;
    ++next[move];
    // One stage only is tested, whatever the pipeline: the original forgets the others.
    if (Smem(t.extents, steps(next)) > limit) return steps(at);
    at = next;
  }
}

Shape Policy::BlockSizes(const Tile& t, const Shape& rstep) const {
  const int64_t area = Product(t.extents);
  Shape sizes;
  if (area < dev_.warp_size * dev_.sm_partition) {
    for (int64_t d : Divisors(area * Product(rstep))) {
      if (d <= kThreadCap && d % area == 0) sizes.push_back(d);
    }
  } else {
    for (int64_t d : Divisors(area)) {
      if (d <= kThreadCap) sizes.push_back(d);
    }
  }
  const auto score = [&](int64_t n) {
    const double warps = static_cast<double>((n + dev_.warp_size - 1) / dev_.warp_size);
    const double want = static_cast<double>(dev_.sm_partition);
    const double idle =
        1.0 - static_cast<double>(n) / (warps * static_cast<double>(dev_.warp_size));
    return std::pair(std::max(warps / want, want / warps), idle);
  };
  std::stable_sort(sizes.begin(), sizes.end(),
                   [&](int64_t a, int64_t b) { return score(a) < score(b); });
  return sizes;
}

bool Policy::AssignWarps(const Tile& t, int64_t threads, CarverHint& hint) const {
  if (threads % dev_.warp_size != 0) return false;
  const int64_t warps = threads / dev_.warp_size;
  const size_t n = t.extents.size();
  Shape warp(n, 1);
  warp[n - 2] = warp[n - 1] = kFragment;
  int64_t fragments = 1;
  for (size_t d = 0; d < n; ++d) fragments *= t.extents[d] / warp[d];
  if (fragments < warps || fragments % warps != 0) return false;
  const Shape factors = PrimeFactors(fragments / warps);
  for (auto f = factors.rbegin(); f != factors.rend(); ++f) {
    int best = -1;
    double best_score = 0;
    for (size_t d = 0; d < n; ++d) {
      if (t.extents[d] % (warp[d] * *f) != 0) continue;
      warp[d] *= *f;
      Shape grid(n);
      for (size_t i = 0; i < n; ++i) grid[i] = (t.extents[i] + warp[i] - 1) / warp[i];
      double score = 0;
      for (const CarverTensor& in : node_.inputs) {
        score += static_cast<double>(Product(Slice(in, grid, {}))) / dev_.bandwidth_read;
      }
      warp[d] /= *f;
      if (best < 0 || score < best_score) {
        best = static_cast<int>(d);
        best_score = score;
      }
    }
    if (best < 0) return false;
    warp[best] *= *f;
  }
  hint.warp = warp;
  return true;
}

// Bytes a thread reads and writes, each over its bandwidth.
double Policy::ThreadScore(const Shape& tile, const Shape& threads) const {
  Shape each(tile.size());
  for (size_t i = 0; i < tile.size(); ++i) each[i] = (tile[i] + threads[i] - 1) / threads[i];
  double score = 0;
  for (const CarverTensor& in : node_.inputs) {
    score += static_cast<double>(Product(Slice(in, each, Shape(node_.reduce.size(), 1)))) /
             dev_.bandwidth_read;
  }
  return score + Transferred(each, node_.space, 8) / dev_.bandwidth_write;
}

bool Policy::AssignThreads(const Tile& t, const Shape& rstep, int64_t threads,
                           CarverHint& hint) const {
  Shape space(t.extents.size(), 1), reduce(rstep.size(), 1);
  const Shape factors = PrimeFactors(threads);
  for (auto f = factors.rbegin(); f != factors.rend(); ++f) {
    int best = -1;
    double best_score = 0;
    for (size_t d = 0; d < space.size(); ++d) {
      if (t.extents[d] % (space[d] * *f) != 0) continue;
      space[d] *= *f;
      const double score = ThreadScore(t.extents, space);
      space[d] /= *f;
      if (best < 0 || score < best_score) {
        best = static_cast<int>(d);
        best_score = score;
      }
    }
    if (best >= 0) {
      space[best] *= *f;
      continue;
    }
    bool placed = false;
    for (size_t r = reduce.size(); r-- > 0 && !placed;) {
      if (rstep[r] % (reduce[r] * *f) != 0) continue;
      reduce[r] *= *f;
      placed = true;
    }
    if (!placed) return false;
  }
  hint.thread = space;
  hint.reduce_thread = reduce;
  return true;
}

void Policy::Vectorize(const Shape& tile, const Shape& rstep, int64_t threads,
                       CarverHint& hint) const {
  for (const CarverTensor& in : node_.inputs) {
    int width = 1;
    if (!node_.reduce.empty()) {
      const Shape slice = Slice(in, tile, rstep);
      int64_t last = 1;
      for (size_t d = slice.size(); d-- > 0 && last == 1;) last = slice[d];
      for (int v : {16, 8, 4, 2}) {
        if (width == 1 && v * in.dtype.bits <= 128 && last % v == 0 &&
            Product(slice) % (threads * v) == 0) {
          width = v;
        }
      }
    }
    hint.vectorize.push_back(width);
  }
}

// Blocks of one column panel, when the inputs overflow the L2. The generation is compared as text,
// so that "100" and "120" count as older than "80".
int64_t Policy::Panel() const {
  if (!tensor_core_) return 0;
  if (std::to_string(dev_.sm) < "80") return 0;
  double bytes = 0;
  for (const CarverTensor& t : node_.inputs) {
    bytes += static_cast<double>(Product(TensorShape(t)) * t.dtype.bytes());
  }
  if (bytes < static_cast<double>(dev_.l2_bytes)) return 0;
  return static_cast<int64_t>(std::sqrt(static_cast<double>(dev_.cores)));
}

std::optional<CarverHint> Policy::Assign(const Tile& t, const Shape& rstep, int64_t threads) const {
  CarverHint hint;
  hint.block = t.extents;
  hint.rstep = rstep;
  hint.threads = threads;
  hint.pipeline_stage = stages_;
  hint.use_async = stages_ == 2;
  hint.tensor_core = tensor_core_;
  hint.priority = t.Priority();
  hint.panel = Panel();
  const bool ok =
      tensor_core_ ? AssignWarps(t, threads, hint) : AssignThreads(t, rstep, threads, hint);
  if (!ok) return std::nullopt;
  Vectorize(t.extents, rstep, threads, hint);
  return hint;
}

std::vector<CarverHint> Policy::Emit(int top_k) {
  std::vector<CarverHint> out;
  const Shape seed = SeedSteps();
  for (const Tile& t : SearchTiles(seed)) {
    if (static_cast<int>(out.size()) >= top_k) break;
    if (!ShapeIsValid(t)) continue;
    const Shape rstep = ExpandSteps(t, seed);
    for (int64_t threads : BlockSizes(t, rstep)) {
      if (auto hint = Assign(t, rstep, threads)) {
        out.push_back(*std::move(hint));
        break;  // one thread count a tile
      }
    }
  }
  return out;
}

bool TypesTensorize(DType in, DType accum, int sm) {
  const bool f16 = in == kFloat16, bf16 = in == kBFloat16;
  const bool f8 = in.code == TypeCode::kE4M3 || in.code == TypeCode::kE5M2;
  const bool to_half_or_float = accum == kFloat16 || accum == kFloat32;
  if (sm >= 70 && sm <= 75) return f16 && to_half_or_float;
  if (sm < 80 || sm > 90) return false;
  if (f16) return to_half_or_float;
  if (bf16) return accum == kFloat32;
  if (in == kInt8) return accum == kInt32;
  return f8 && sm >= 89 && accum == kFloat32;
}

}  // namespace

CarverDevice CarverDeviceOf(const target::Arch& arch) {
  CarverDevice d;
  d.cores = arch.cores;
  d.l2_bytes = arch.llc.bytes;
  const std::string digits = arch.name.rfind("sm_", 0) == 0 ? arch.name.substr(3) : "";
  d.sm = digits.empty() ? 0 : std::atoi(digits.c_str());
  return d;
}

bool CarverTensorizes(const CarverNode& node, const CarverDevice& device) {
  if (!node.contraction || node.space.size() < 2 || node.reduce.size() != 1) return false;
  const DType in = node.inputs[0].dtype;
  if (!TypesTensorize(in, node.accum, device.sm)) return false;
  const size_t n = node.space.size();
  const int64_t least_k = in.bits <= 8 ? 32 : 16;
  return node.space[n - 2] >= 16 && node.space[n - 1] >= 16 && node.reduce[0] >= least_k;
}

std::vector<CarverHint> EmitCarver(const CarverNode& node, const CarverDevice& device, int top_k) {
  if (CarverTensorizes(node, device)) {
    auto hints = Policy(node, device, true).Emit(top_k);
    if (!hints.empty()) return hints;
  }
  return Policy(node, device, false).Emit(top_k);
}

}  // namespace kiln::roofline
