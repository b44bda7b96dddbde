#include "compiler/passes/product_results.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/shared_tiles.h"
#include "compiler/target/legality.h"

namespace kiln::passes {
namespace {

void ForProducts(const ir::Launch& launch, const std::function<void(const ir::Gemm&)>& visit) {
  ir::Walk(launch.body, [&](const ir::Stmt& s) {
    if (const auto* gemm = s.As<ir::Gemm>()) visit(*gemm);
    return true;
  });
}

}  // namespace

bool HoldsSums(const ir::Launch& launch) {
  bool holds = false;
  ForProducts(launch,
              [&](const ir::Gemm& gemm) { holds |= gemm.c.buffer->scope == ir::Scope::kTensor; });
  return holds;
}

int64_t WidestResult(const ir::Launch& launch) {
  int64_t most = 0;
  ForProducts(launch, [&](const ir::Gemm& gemm) {
    int64_t sums = 1;
    for (const ir::Range& range : gemm.c.ranges) sums *= ir::ConstInt(range.extent).value_or(1);
    most = std::max(most, sums);
  });
  return most;
}

int64_t SpanOfResults(const ir::Program& program, const ir::Launch& launch, int64_t threads,
                      const target::Arch& gpu) {
  int64_t span = 1;
  ForProducts(launch, [&](const ir::Gemm& gemm) {
    const std::optional<target::GemmQuery> query = QueryOf(program, gemm, {0, threads});
    if (query) span = query->n / target::ChooseGemm(gpu, *query).grid.columns;
  });
  return span;
}

}  // namespace kiln::passes
