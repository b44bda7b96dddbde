#include "compiler/roofline/access.h"

#include <algorithm>

namespace kiln::roofline {
namespace {

Num Abs(Num a) { return Max(a, 0.0 - a); }

// How far below its start an index goes that moves by `step` an iteration: 0 where it ascends.
Num Descent(Num step, Num iterations) { return Min(step, step * 0.0) * (iterations - 1.0); }

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
  std::vector<size_t> elsewhere;  // depths of loops each of whose turns may be at another place
};

void AddElsewhere(const AccessSpec& spec, const std::vector<const ir::ExprNode*>& vars,
                  const std::vector<LoopLevel>& loops, std::vector<size_t>* depths) {
  for (size_t d = 0; d < spec.loops.size(); ++d) {
    if (std::find(vars.begin(), vars.end(), loops[spec.loops[d]].var) == vars.end()) continue;
    if (std::find(depths->begin(), depths->end(), d) == depths->end()) depths->push_back(d);
  }
}

// An index that is not affine is another one wherever it may be: each iteration of the loops that
// it depends on has elements of its own, as long as there are some.
DimFacts Unknown(const AccessSpec& spec, const AccessDim& dim, Num size,
                 const std::vector<LoopLevel>& loops, const Symbols& symbols, bool* exact) {
  *exact = false;
  Num extent = dim.extent;
  for (const InnerAxis& axis : spec.inner) extent = extent * axis.extent;
  DimFacts f{size, Min(extent, size), size * 0.0, {}, {}};
  AddElsewhere(spec, symbols.LoopsIn(dim.min), loops, &f.elsewhere);
  return f;
}

DimFacts FactsOf(const AccessSpec& spec, const AccessDim& dim, Num size,
                 const std::vector<LoopLevel>& loops, const Symbols& symbols, bool* exact) {
  const auto affine = symbols.AffineOf(dim.min);
  if (!affine) return Unknown(spec, dim, size, loops, symbols, exact);
  DimFacts f{size, dim.extent, affine->constant, {}, {}};
  for (const auto& [var, coefficient] : affine->terms) {
    const auto axis = std::find_if(spec.inner.begin(), spec.inner.end(),
                                   [&, v = var](const InnerAxis& a) { return a.var == v; });
    if (axis != spec.inner.end()) {
      f.extent = f.extent + Abs(coefficient) * (axis->extent - 1.0);
      f.offset = f.offset + Descent(coefficient, axis->extent);
      continue;
    }
    bool found = false;
    for (size_t d = 0; d < spec.loops.size(); ++d) {
      const LoopLevel& l = loops[spec.loops[d]];
      if (l.var != var) continue;
      f.outer.push_back({var, d, Abs(coefficient) * l.scale, l.trip, l.most});
      f.offset = f.offset + Descent(coefficient * l.scale, l.most);
      found = true;
    }
    if (!found) return Unknown(spec, dim, size, loops, symbols, exact);
    AddElsewhere(spec, symbols.LoopsOfStart(var), loops, &f.elsewhere);
  }
  *exact = *exact && f.elsewhere.empty();
  return f;
}

// Mean, over the loops outside `from_depth`, of the distinct indices inside the tensor that one
// execution and the loops from there inwards touch.
Num FootprintOfDim(const DimFacts& f, size_t from_depth, const AccessSpec& spec,
                   const std::vector<LoopLevel>& loops, bool* exact) {
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
  for (const size_t depth : f.elsewhere) {
    if (depth < from_depth) continue;
    span = span * loops[spec.loops[depth]].trip;
    count = count * loops[spec.loops[depth]].trip;
  }
  return MeanClipped(f.offset, step, trip, Min(Min(span, count), f.size), f.size);
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
  Num elements = tape->Const(1), reached = tape->Const(1), fits = tape->Const(1);
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    facts.push_back(FactsOf(spec, spec.dims[d], sizes[d], all_loops, symbols, &a.exact));
    elements =
        elements * FootprintOfDim(facts.back(), spec.loops.size(), spec, all_loops, &a.exact);
    reached = reached * facts.back().extent;
    fits = And(fits, Le(facts.back().extent, facts.back().size));
    a.dim_loop.push_back(-1);
    for (const OuterTerm& t : facts.back().outer) {
      a.dim_loop.back() = std::max(a.dim_loop.back(), spec.loops[t.depth]);
    }
  }
  a.elements = Min(elements, iterations);
  a.reached = Select(fits, Min(reached, iterations), a.elements);

  for (size_t depth = 0; depth <= spec.loops.size(); ++depth) {
    Num f = tape->Const(1), most = iterations;
    for (const DimFacts& d : facts) f = f * FootprintOfDim(d, depth, spec, all_loops, &a.exact);
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
