#include "compiler/roofline/access.h"

#include <algorithm>

namespace kiln::roofline {
namespace {

Num Abs(Num a) { return Max(a, 0.0 - a); }

struct OuterTerm {
  const ir::ExprNode* var;
  size_t depth;  // position in AccessSpec::loops
  Num step;      // elements an iteration moves
  Num trip, most;
};

struct DimFacts {
  Num size;
  Num extent;  // of one execution, inner axes included
  Num offset;
  std::vector<OuterTerm> outer;
};

DimFacts Unknown(Num size, Num extent) { return {size, Min(extent, size), size * 0.0, {}}; }

// nullopt-like: `exact` is cleared and the whole dimension is assumed when the index is not affine.
DimFacts FactsOf(const AccessSpec& spec, const AccessDim& dim, Num size, Num iterations,
                 const std::vector<LoopLevel>& loops, const Symbols& symbols, bool* exact) {
  const auto affine = symbols.AffineOf(dim.min);
  if (!affine) {
    *exact = false;
    return Unknown(size, iterations);
  }
  DimFacts f{size, dim.extent, affine->constant, {}};
  for (const auto& [var, coefficient] : affine->terms) {
    const auto axis = std::find_if(spec.inner.begin(), spec.inner.end(),
                                   [&, v = var](const InnerAxis& a) { return a.var == v; });
    if (axis != spec.inner.end()) {
      f.extent = f.extent + Abs(coefficient) * (axis->extent - 1.0);
      continue;
    }
    bool found = false;
    for (size_t d = 0; d < spec.loops.size(); ++d) {
      const LoopLevel& l = loops[spec.loops[d]];
      if (l.var != var) continue;
      f.outer.push_back({var, d, Abs(coefficient) * l.scale, l.trip, l.most});
      found = true;
    }
    if (!found) {
      *exact = false;
      return Unknown(size, iterations);
    }
  }
  return f;
}

// Mean, over the loops outside `from_depth`, of the distinct indices inside the tensor that one
// execution and the loops from there inwards touch.
Num FootprintOfDim(const DimFacts& f, size_t from_depth, bool* exact) {
  const Num one = f.size * 0.0 + 1.0;
  Num span = f.extent, count = f.extent, step = one, trip = one;
  const ir::ExprNode* outside = nullptr;
  for (const OuterTerm& t : f.outer) {
    if (t.depth >= from_depth) {
      span = span + t.step * (t.most - 1.0);
      count = count * t.most;
      continue;
    }
    // Nested tile loops over one dimension: one loop with the finest step when they nest without
    // gaps, which is how kernels write them. An axis that a swizzle splits in two always does.
    if (outside != nullptr && outside != t.var) *exact = false;
    step = outside == nullptr ? t.step : Min(step, t.step);
    trip = trip * t.trip;
    outside = t.var;
  }
  return MeanClipped(f.offset, step, trip, Min(span, count), f.size);
}

}  // namespace

Num MeanClipped(Num offset, Num step, Num trip, Num extent, Num size) {
  // Iterations from the first one that reaches past the end lose part of their extent.
  const Num room = size - offset - extent;  // a start of at most this much fits whole
  const Num whole = Max(Min(FloorDiv(room, step) + 1.0, trip), 0.0);
  const Num cut = trip - whole;
  // Of the cut ones those that start inside keep size - start.
  const Num inside = Max(Min(CeilDiv(size - offset, step), trip), 0.0);
  const Num partial = Max(inside - whole, 0.0);
  const Num kept = partial * (size - offset) - step * (partial * (whole + inside - 1.0) * 0.5);
  return Max((whole * extent + Select(Lt(cut * 0.0, cut), kept, kept * 0.0)) / trip, 0.0);
}

Access MeasureAccess(const AccessSpec& spec, const std::vector<Num>& sizes,
                     const std::vector<LoopLevel>& all_loops, const Symbols& symbols) {
  Tape* const tape = symbols.tape();
  Access a;
  a.loops = spec.loops;
  Num iterations = tape->Const(1);
  for (const AccessDim& d : spec.dims) iterations = iterations * d.extent;
  for (const InnerAxis& i : spec.inner) iterations = iterations * i.extent;

  std::vector<DimFacts> facts;
  Num elements = tape->Const(1);
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    facts.push_back(
        FactsOf(spec, spec.dims[d], sizes[d], iterations, all_loops, symbols, &a.exact));
    elements = elements * FootprintOfDim(facts.back(), spec.loops.size(), &a.exact);
    a.dim_loop.push_back(-1);
    for (const OuterTerm& t : facts.back().outer) {
      a.dim_loop.back() = std::max(a.dim_loop.back(), spec.loops[t.depth]);
    }
  }
  a.elements = Min(elements, iterations);

  for (size_t depth = 0; depth <= spec.loops.size(); ++depth) {
    Num f = tape->Const(1), most = iterations;
    for (const DimFacts& d : facts) f = f * FootprintOfDim(d, depth, &a.exact);
    for (size_t i = depth; i < spec.loops.size(); ++i) most = most * all_loops[spec.loops[i]].trip;
    a.footprint.push_back(Min(f, most));
  }

  const double bytes = static_cast<double>(spec.buffer->dtype.bytes());
  Num run = tape->Const(1);
  Num covered = tape->Const(1);  // 1 while every inner dimension is taken whole
  const bool strided =
      !spec.buffer->strides.empty() && !ir::IsConst(spec.buffer->strides.back(), 1);
  for (size_t d = facts.size(); d-- > 0 && !strided;) {
    const Num extent = Min(facts[d].extent, facts[d].size);
    run = Select(covered, run * extent, run);
    covered = And(covered, Le(facts[d].size, extent));
  }
  a.run_bytes = run * bytes;
  return a;
}

}  // namespace kiln::roofline
