// What the layout algebra costs on 131,072 elements, 8 digits and 3 axes, on one thread.
//
//   layout_bench              prints "name milliseconds bar ok|short" lines; exits 1 when one is
//   short
//
// Bars are twice the times of a throw-away prototype of the same algorithms on one core.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "compiler/base/status.h"
#include "compiler/layout/contain.h"
#include "compiler/layout/factor.h"
#include "compiler/layout/injective.h"
#include "compiler/layout/inverse.h"
#include "compiler/layout/regroup.h"
#include "compiler/layout/slice.h"
#include "compiler/layout/table.h"
#include "compiler/layout/text.h"
#include "compiler/layout/tile.h"

namespace kiln::layout {
namespace {

constexpr int kRuns = 9;

bool all_ok = true;

void Report(const char* name, double bar_ms, const std::function<void()>& body) {
  double best = 1e30;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  const bool ok = best <= bar_ms;
  all_ok = all_ok && ok;
  std::printf("layout_%s_ms %.3f %.3f %s\n", name, best, bar_ms, ok ? "ok" : "short");
}

// The place of each cell of the bounding box, or -1: the inverse as one dense array.
int64_t DenseInverse(const Table& table, const Layout& layout) {
  std::vector<int64_t> low, stride;
  int64_t volume = 1;
  for (const Axis axis : table.axes()) {
    low.push_back(layout.Range(axis).first);
    stride.push_back(volume);
    volume *= layout.Range(axis).second - low.back() + 1;
  }
  std::vector<int32_t> owner(volume, -1);
  for (int64_t x = 0; x < table.size(); ++x) {
    int64_t cell = 0;
    for (size_t a = 0; a < low.size(); ++a) cell += (table.column(a, 0)[x] - low[a]) * stride[a];
    owner[cell] = static_cast<int32_t>(x);
  }
  return std::count(owner.begin(), owner.end(), -1);
}

void Run() {
  const Layout layout =
      MustParse("S[(4,8,4,8,4,4,2,4):(64,8@laneid,2@warpid,1@laneid,16,4,8@warpid,1)]");
  const Layout plain = MustParse("S[(4,8,4,8,4,4,2,4)]");
  KILN_CHECK(layout.size() == 131072 && layout.axes().size() == 3);
  const Table table = *Table::Of(layout);
  Report("table_131072", 2 * 2.9, [&] { KILN_CHECK(Table::Of(layout)->size() == 131072); });
  Report("factor_131072", 2 * 3.6, [&] { KILN_CHECK(Factor(table).ok()); });
  Report("injective_131072", 2 * 1.8, [&] { KILN_CHECK(IsInjective(layout)); });
  const Inverse inverse = *Inverse::Of(layout);
  Report("decode_131072", 2 * 3.4, [&] {
    int64_t values[3];
    for (int64_t x = 0; x < table.size(); ++x) {
      for (size_t a = 0; a < 3; ++a) values[a] = table.column(a, 0)[x];
      const auto found = inverse(values);
      KILN_CHECK(found.has_value() && found->first == x);
    }
  });
  // Gaps on every axis: a bounding box of 3.8 million cells.
  const Layout sparse =
      MustParse("S[(4,8,4,8,4,4,2,4):(256,16@laneid,4@warpid,2@laneid,64,16,16@warpid,4)]");
  const Table sparse_table = *Table::Of(sparse);
  Report("dense_inverse_131072", 2 * 8.5,
         [&] { KILN_CHECK(DenseInverse(sparse_table, sparse) > 3000000); });
  const Layout replicated = MustParse(
      "S[(4,8,4,8,4,4,2,4):(64,8@laneid,2@warpid,1@laneid,16,4,8@warpid,1)] + R[4:64@laneid]");
  Report("contain_symbolic", 2.0, [&] { KILN_CHECK(Contains(replicated, layout)); });
  Report("canonical_group_slice", 2.0, [&] {
    KILN_CHECK(Group(layout, {1024, 128}).ok());
    KILN_CHECK(Slice(layout, {1024, 128}, {{0, 512}, {32, 32}}).ok());
    KILN_CHECK(Canonical(plain).shard().size() == 1);
  });
  // Far beyond any table: 2^40 elements.
  const Layout huge = MustParse("S[(1048576,1024,1024):(1048576,1@tx,1024)]");
  Report("injective_2e40", 2.0, [&] { KILN_CHECK(IsInjective(huge)); });
  const Layout million = MustParse("S[(64,128,128):(1@tx,128,1)]");
  Report("factor_2e20", 16 * 3.6, [&] { KILN_CHECK(Factor(*Table::Of(million)).ok()); });
}

}  // namespace
}  // namespace kiln::layout

int main() {
  kiln::layout::Run();
  return kiln::layout::all_ok ? 0 : 1;
}
