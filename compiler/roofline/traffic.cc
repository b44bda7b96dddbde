#include "compiler/roofline/traffic.h"

#include <algorithm>

namespace kiln::roofline {
namespace {

class Misses {
 public:
  Misses(const Demand& demand, const CacheView& cache) : d_(demand), cache_(cache) {}

  std::vector<Num> Run() {
    for (size_t l = 0; l < d_.loops.size(); ++l) body_.push_back(BodyBytes(static_cast<int>(l)));
    std::vector<Num> out;
    for (size_t a = 0; a < d_.accesses.size(); ++a) out.push_back(Of(static_cast<int>(a)));
    return out;
  }

 private:
  double ElementBytes(const Access& a) const {
    return static_cast<double>(d_.tensors[a.tensor].dtype.bytes());
  }

  // Depth of `loop` on the access's path, or -1.
  static int DepthOf(const Access& a, int loop) {
    const auto it = std::find(a.loops.begin(), a.loops.end(), loop);
    return it == a.loops.end() ? -1 : static_cast<int>(it - a.loops.begin());
  }

  bool InnermostGrid(int loop) const {
    if (!d_.loops[loop].grid) return false;
    for (const LoopLevel& l : d_.loops) {
      if (l.grid && l.parent == loop) return false;
    }
    return true;
  }

  // Distinct bytes that one iteration of `loop` touches.
  Num BodyBytes(int loop) const {
    Num bytes = d_.tape->Const(0);
    std::vector<std::pair<int, Num>> counted;  // (tensor, footprint): one region, counted once
    int launch = -1;
    for (const Access& a : d_.accesses) {
      const int depth = DepthOf(a, loop);
      if (depth < 0) continue;
      launch = a.launch;
      const Num f = a.footprint[depth + 1];
      const bool seen = std::any_of(counted.begin(), counted.end(), [&](const auto& c) {
        return c.first == a.tensor && c.second.same_as(f);
      });
      if (seen) continue;
      counted.emplace_back(a.tensor, f);
      bytes = bytes + f * ElementBytes(a);
    }
    if (cache_.holds_onchip) {
      for (const LocalBuffer& b : d_.buffers) {
        if (b.launch == launch) bytes = bytes + b.bytes;
      }
    }
    const bool concurrent = !d_.loops[loop].grid || InnermostGrid(loop);
    return concurrent ? bytes * cache_.sharers : bytes;
  }

  Num Fits(int loop) const { return Le(body_[loop], cache_.bytes); }

  // 0 where an earlier access has just brought the same region in.
  Num FirstTouch(int index) const {
    const Access& a = d_.accesses[index];
    const Num one = d_.tape->Const(1), zero = d_.tape->Const(0);
    Num first = one;
    for (int j = 0; j < index; ++j) {
      const Access& b = d_.accesses[j];
      if (b.tensor != a.tensor || b.launch != a.launch) continue;
      size_t common = 0;
      while (common < a.loops.size() && common < b.loops.size() &&
             a.loops[common] == b.loops[common]) {
        ++common;
      }
      if (common == 0 || !a.footprint[common].same_as(b.footprint[common])) continue;
      first = Select(Fits(a.loops[common - 1]), zero, first);
    }
    return first;
  }

  Num Of(int index) const {
    const Access& a = d_.accesses[index];
    Num bytes = a.elements * ElementBytes(a);
    Num trips = d_.tape->Const(1);
    Num in_step = d_.tape->Const(cache_.in_step);
    for (size_t i = a.loops.size(); i-- > 0;) {
      const Num trip = d_.loops[a.loops[i]].trip;
      const Num growth = Min(a.footprint[i] / Max(a.footprint[i + 1], 1.0), trip);
      Num apart = trip;
      if (d_.loops[a.loops[i]].grid && cache_.in_step > 1) {
        apart = Max(growth, trip / Min(trip, Max(in_step, 1.0)));
        in_step = in_step / trip;
      }
      bytes = bytes * Select(Fits(a.loops[i]), growth, apart);
      trips = trips * trip;
    }
    const Num probability = d_.ops[a.op].count / Max(trips, 1e-9);
    return bytes * probability * FirstTouch(index);
  }

  const Demand& d_;
  const CacheView cache_;
  std::vector<Num> body_;
};

}  // namespace

std::vector<Num> MissBytes(const Demand& demand, const CacheView& cache) {
  return Misses(demand, cache).Run();
}

}  // namespace kiln::roofline
