#include "compiler/passes/lower_pair_gemm.h"

#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

struct Span {
  Expr min;
  int64_t extent;
};

int64_t Extent(const ir::Region& region, int from_last) {
  return *ir::ConstInt(region.ranges[region.ranges.size() - 1 - from_last].extent);
}

ir::Region Part(const ir::Region& region, const Span& rows, const Span& columns) {
  ir::Region part = region;
  const size_t n = part.ranges.size();
  part.ranges[n - 2] = {region.ranges[n - 2].min + rows.min, MakeInt(rows.extent)};
  part.ranges[n - 1] = {region.ranges[n - 1].min + columns.min, MakeInt(columns.extent)};
  return part;
}

// f over [0, n) in steps of `size`, with one smaller step at the end.
Stmt Steps(const char* name, int64_t n, int64_t size, SourceLoc loc,
           const std::function<Stmt(const Span&)>& f) {
  std::vector<Stmt> nest;
  if (n >= size) {
    nest.push_back(SerialLoop(name, MakeInt(n / size), loc, [&](const Expr& i) {
      return f({i * MakeInt(size), size});
    }));
  }
  if (n % size != 0) nest.push_back(f({MakeInt(n / size * size), n % size}));
  return ir::MakeSeq(std::move(nest), loc);
}

}  // namespace

Stmt LowerPairGemm(const ir::PairGemm& gemm) {
  const SourceLoc loc = gemm.loc;
  const int64_t pairs = Extent(gemm.b, 1);
  const auto blocks = [&](const Span& k) {
    const Span k_elements{k.min * MakeInt(2), 2 * k.extent};
    const auto panels = [&](const Span& all_rows) {
      return Steps("p", Extent(gemm.c, 0), kPairColumns, loc, [&](const Span& columns) {
        return Steps("c", all_rows.extent, kPairRows, loc, [&](const Span& chunk) {
          const Span rows{all_rows.min + chunk.min, chunk.extent};
          return ir::MakeStmt<ir::PairGemm>(loc, Part(gemm.a, rows, k_elements),
                                            Part(gemm.b, k, columns), Part(gemm.c, rows, columns));
        });
      });
    };
    // What is left of the rows has panels of its own: the shape of the tiles changes once.
    const int64_t m = Extent(gemm.c, 1), whole_rows = m / kPairRows * kPairRows;
    std::vector<Stmt> parts;
    if (whole_rows > 0) parts.push_back(panels({MakeInt(0), whole_rows}));
    if (m != whole_rows) parts.push_back(panels({MakeInt(whole_rows), m - whole_rows}));
    return ir::MakeSeq(std::move(parts), loc);
  };
  const int64_t whole = pairs / kPairStep * kPairStep;
  std::vector<Stmt> nest;
  if (whole > 0) nest.push_back(Steps("k", whole, kPairDepth, loc, blocks));
  if (pairs != whole) nest.push_back(blocks({MakeInt(whole), pairs - whole}));
  return ir::MakeSeq(std::move(nest), loc);
}

}  // namespace kiln::passes
