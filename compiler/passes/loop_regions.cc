#include "compiler/passes/loop_regions.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/stage.h"
#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::MakeStmt;
using ir::Region;
using ir::Stmt;

bool IsTile(const Region& r) {
  return r.buffer->scope == ir::Scope::kShared || r.buffer->scope == ir::Scope::kFragment;
}

bool IsFragment(const Region& r) { return r.buffer->scope == ir::Scope::kFragment; }

class Looper : public FactsMutator {
 public:
  explicit Looper(const ir::Program& program) : program_(program) {}
  const absl::Status& status() const { return status_; }

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* copy = s.As<ir::Copy>()) {
      if (!IsOpen(copy->dst)) return s;
      return Element(s, copy->dst, copy->src, [&](const Region& dst, const Region& src) {
        return MakeStmt<ir::Store>(s->loc, dst.buffer, Indices(dst),
                                   ir::MakeCast(dst.buffer->dtype, Loaded(src)));
      });
    }
    if (const auto* fill = s.As<ir::Fill>()) {
      if (!IsOpen(fill->dst)) return s;
      std::vector<Stmt> before;
      const Expr value = ir::Settle(fill->value, Is(fill->dst.buffer), s->loc, &before);
      before.push_back(Element(s, fill->dst, fill->dst, [&](const Region& dst, const Region&) {
        return MakeStmt<ir::Store>(s->loc, dst.buffer, Indices(dst),
                                   ir::MakeCast(dst.buffer->dtype, value));
      }));
      return ir::MakeSeq(std::move(before), s->loc);
    }
    const auto* atomic = s.As<ir::Atomic>();
    if (atomic != nullptr && !atomic->value.defined()) {
      if (!IsOpen(atomic->dst)) return s;
      return Element(s, atomic->dst, atomic->src, [&](const Region& dst, const Region& src) {
        return MakeStmt<ir::Atomic>(s->loc, atomic->op, dst, Region{},
                                    ir::MakeCast(dst.buffer->dtype, Loaded(src)), atomic->way);
      });
    }
    if (const auto* reduce = s.As<ir::Reduce>()) Require(reduce->src, s->loc, "reduction");
    if (const auto* scan = s.As<ir::Scan>()) Require(scan->src, s->loc, "scan");
    return FactsMutator::VisitStmt(s);
  }

 private:
  bool IsKnown(const Expr& extent) const {
    return ir::ConstInt(extent) || ir::ConstInt(facts_.Simplify(extent));
  }

  bool HasUnknown(const Region& r) const {
    return std::any_of(r.ranges.begin(), r.ranges.end(),
                       [&](const ir::Range& range) { return !IsKnown(range.extent); });
  }

  // What goes to a thread's own tile is a serial loop of that thread's, of any extent.
  bool IsOpen(const Region& dst) const {
    return (IsTile(dst) || dst.buffer->scope == ir::Scope::kGlobal) && HasUnknown(dst);
  }

  void Require(const Region& r, SourceLoc loc, const char* what) {
    if (status_.ok() && HasUnknown(r)) status_ = ExtentOfRunTime(program_, loc, what);
  }

  static ir::BufferTest Is(const ir::Buffer& buffer) {
    return [&buffer](const ir::Buffer& other) { return other == buffer; };
  }

  static std::vector<Expr> Indices(const Region& element) {
    std::vector<Expr> indices;
    for (const ir::Range& range : element.ranges) indices.push_back(range.min);
    return indices;
  }

  static Expr Loaded(const Region& element) {
    return ir::MakeLoad(element.buffer, Indices(element));
  }

  static Region At(const Region& region, const std::vector<int>& dims,
                   const std::vector<Expr>& offsets) {
    Region element{region.buffer, {}};
    for (const Expr& index : RegionIndices(region, dims, offsets)) {
      element.ranges.push_back({index, MakeInt(1)});
    }
    return element;
  }

  // `make` of an element of `written`, and of the one of `read` that belongs to it, for all of
  // them.
  Stmt Element(const Stmt& s, const Region& written, const Region& read,
               const std::function<Stmt(const Region&, const Region&)>& make) {
    std::vector<Stmt> stmts;
    const Region dst = ir::Settle(written, Is(written.buffer), s->loc, &stmts);
    const Region src = ir::Settle(read, Is(written.buffer), s->loc, &stmts);
    const std::vector<int> to = NonUnitDims(dst), from = NonUnitDims(src);
    if (to.size() != from.size()) return s;  // lower-copies says so
    const bool by_dst = IsFragment(dst) || (!IsFragment(src) && (IsTile(dst) || !IsTile(src)));
    const Region& tile = by_dst ? dst : src;
    const std::vector<int>& dims = by_dst ? to : from;
    Region here = tile;  // the element of it that an iteration is about
    std::vector<ir::Axis> axes;
    std::vector<Expr> offsets, inside;
    for (const int d : dims) {
      const ir::Range range = tile.ranges[d];
      const Expr var = ir::MakeVar(absl::StrCat("i", axes.size()), range.extent.dtype());
      const bool whole = IsTile(tile) && !IsKnown(range.extent);
      axes.push_back({var, MakeInt(0, var.dtype()), whole ? tile.buffer->shape[d] : range.extent});
      offsets.push_back(whole ? var - range.min : var);
      here.ranges[d] = {whole ? var : range.min + var, MakeInt(1)};
      if (!whole) continue;
      inside.push_back(var >= range.min);
      inside.push_back(offsets.back() < range.extent);
    }
    const Region there = by_dst ? At(src, from, offsets) : At(dst, to, offsets);
    Stmt body = by_dst ? make(here, there) : make(there, here);
    for (size_t i = inside.size(); i-- > 0;) {
      body = MakeStmt<ir::If>(s->loc, inside[i], std::move(body));
    }
    stmts.push_back(MakeStmt<ir::For>(s->loc, ir::ForKind::kParallel, std::move(axes), body));
    return ir::MakeSeq(std::move(stmts), s->loc);
  }

  const ir::Program& program_;
  absl::Status status_;
};

}  // namespace

absl::Status ExtentOfRunTime(const ir::Program& program, SourceLoc loc, const char* what) {
  return ir::ErrorAt(program, loc,
                     absl::StrCat("a ", what,
                                  " of a region of which only the run knows how large "
                                  "it is"),
                     "fill a tile of constant shape with what changes nothing (T.fill), copy the "
                     "region into it, and go over all of the tile");
}

absl::StatusOr<ir::Program> LoopRegions(const ir::Program& program, const PassContext&) {
  ir::Program result = program;
  Looper looper(program);
  result.body = looper.Mutate(program.body);
  KILN_RETURN_IF_ERROR(looper.status());
  return result;
}

}  // namespace kiln::passes
