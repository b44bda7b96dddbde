#include "compiler/roofline/traffic.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace kiln::roofline {
namespace {

class Misses {
 public:
  Misses(const Demand& demand, const CacheView& cache) : d_(demand), cache_(cache) {}

  std::vector<Num> Run() {
    FillBodies();
    std::vector<Num> out;
    for (size_t a = 0; a < d_.accesses.size(); ++a) out.push_back(Of(static_cast<int>(a)));
    return out;
  }

 private:
  double ElementBytes(const Access& a) const {
    return static_cast<double>(d_.tensors[a.tensor].dtype.bytes());
  }

  // body_[l] = distinct bytes that one iteration of loop l touches.
  void FillBodies() {
    const size_t loops = d_.loops.size();
    std::vector<int> launch(loops, -1);
    std::vector<bool> grid_inside(loops, false);
    std::set<std::tuple<int, int, int>> counted;  // (loop, tensor, footprint): one region, once
    body_.assign(loops, d_.tape->Const(0));
    for (const Access& a : d_.accesses) {
      for (size_t depth = 0; depth < a.loops.size(); ++depth) {
        const int loop = a.loops[depth];
        const Num f = a.footprint[depth + 1];
        launch[loop] = a.launch;
        if (!counted.emplace(loop, a.tensor, f.id()).second) continue;
        body_[loop] = body_[loop] + f * ElementBytes(a);
      }
    }
    std::vector<Num> onchip(d_.launches.size(), d_.tape->Const(0));
    for (const LocalBuffer& b : d_.buffers) onchip[b.launch] = onchip[b.launch] + b.bytes;
    for (const LoopLevel& l : d_.loops) {
      if (l.grid && l.parent >= 0) grid_inside[l.parent] = true;
    }
    for (size_t l = 0; l < loops; ++l) {
      if (cache_.holds_onchip && launch[l] >= 0) body_[l] = body_[l] + onchip[launch[l]];
      const bool concurrent = !d_.loops[l].grid || !grid_inside[l];
      if (concurrent) body_[l] = body_[l] * cache_.sharers;
    }
  }

  Num Fits(int loop) const { return Le(body_[loop], cache_.bytes); }

  // Of the earlier accesses that touch a region in one iteration of a loop: which way their paths
  // go on below that loop, a loop or kEnds. Two ways are as good as all.
  struct Ways {
    int first = 0;
    bool several = false;
  };
  using Region = std::tuple<int, int, int, int>;  // tensor, launch, loop, footprint in that loop
  static constexpr int kEnds = -1;

  static int WayOf(const Access& a, size_t depth) {
    return depth < a.loops.size() ? a.loops[depth] : kEnds;
  }

  Region RegionOf(const Access& a, size_t depth) const {
    return {a.tensor, a.launch, a.loops[depth - 1], a.footprint[depth].id()};
  }

  // 0 where an earlier access, whose path parts from this one's below a loop that fits, has just
  // brought the same region in. Call in the order of the accesses.
  Num FirstTouch(const Access& a) {
    const Num one = d_.tape->Const(1), zero = d_.tape->Const(0);
    Num first = one;
    for (size_t depth = 1; depth <= a.loops.size(); ++depth) {
      const int way = WayOf(a, depth);
      const auto [it, fresh] = earlier_.try_emplace(RegionOf(a, depth), Ways{way, false});
      if (fresh) continue;
      Ways& ways = it->second;
      const bool parts = way == kEnds || ways.several || ways.first != way;
      if (parts) first = Select(Fits(a.loops[depth - 1]), zero, first);
      ways.several = ways.several || ways.first != way;
    }
    return first;
  }

  Num Of(int index) {
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
    return bytes * probability * FirstTouch(a);
  }

  const Demand& d_;
  const CacheView cache_;
  std::vector<Num> body_;
  std::map<Region, Ways> earlier_;
};

}  // namespace

std::vector<Num> MissBytes(const Demand& demand, const CacheView& cache) {
  return Misses(demand, cache).Run();
}

}  // namespace kiln::roofline
