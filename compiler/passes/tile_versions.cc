#include "compiler/passes/tile_versions.h"

#include <algorithm>

#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

bool UsesBuffer(const Stmt& s, const ir::Buffer& buffer) {
  bool uses = false;
  const auto region = [&](const ir::Region& r) { uses |= r.buffer == buffer; };
  ir::Walk(
      s,
      [&](const Stmt& x) {
        if (const auto* store = x.As<ir::Store>()) uses |= store->buffer == buffer;
        if (const auto* copy = x.As<ir::Copy>()) region(copy->src), region(copy->dst);
        if (const auto* fill = x.As<ir::Fill>()) region(fill->dst);
        if (const auto* reduce = x.As<ir::Reduce>()) region(reduce->src), region(reduce->dst);
        if (const auto* atomic = x.As<ir::Atomic>()) region(atomic->dst), region(atomic->src);
        if (const auto* gemm = x.As<ir::Gemm>()) {
          region(gemm->a), region(gemm->b), region(gemm->c), region(gemm->e);
        }
        return !uses;
      },
      [&](const Expr& e) {
        if (const auto* load = e.As<ir::Load>()) uses |= load->buffer == buffer;
        return !uses;
      });
  return uses;
}

// Reads of tiles become reads of one of their versions.
class Versions : public ir::Mutator {
 public:
  Versions(const TileVersions& tiles, Expr version) : tiles_(tiles), version_(std::move(version)) {}

 protected:
  Expr VisitExpr(const Expr& e) override {
    const auto* load = e.As<ir::Load>();
    if (load == nullptr || tiles_.count(load->buffer.get()) == 0) return RebuildExpr(e);
    std::vector<Expr> indices = MutateAll(load->indices);
    indices.insert(indices.begin(), version_);
    return ir::MakeLoad(tiles_.at(load->buffer.get()), std::move(indices),
                        load->predicate.defined() ? Mutate(load->predicate) : Expr());
  }

  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* gemm = s.As<ir::Gemm>()) {
      return ir::MakeStmt<ir::Gemm>(s->loc, Version(gemm->a), Version(gemm->b), Version(gemm->c),
                                    gemm->trans_a, gemm->trans_b, gemm->policy,
                                    Mutate(gemm->clear_accum),
                                    gemm->sparse() ? Version(gemm->e) : gemm->e, gemm->trans_e);
    }
    if (const auto* copy = s.As<ir::Copy>()) {
      return ir::MakeStmt<ir::Copy>(s->loc, Version(copy->src), Version(copy->dst),
                                    copy->annotations);
    }
    const auto* store = s.As<ir::Store>();
    if (store != nullptr && tiles_.count(store->buffer.get()) > 0) return Stored(s->loc, *store);
    const auto* fill = s.As<ir::Fill>();
    if (fill != nullptr && tiles_.count(fill->dst.buffer.get()) > 0) {
      return ir::MakeStmt<ir::Fill>(s->loc, Version(fill->dst), Mutate(fill->value));
    }
    if (const auto* reduce = s.As<ir::Reduce>()) {
      // The dimension that is reduced moves with the new first one.
      const bool moves = tiles_.count(reduce->src.buffer.get()) > 0;
      return ir::MakeStmt<ir::Reduce>(s->loc, reduce->op, Version(reduce->src),
                                      Version(reduce->dst), reduce->dim + (moves ? 1 : 0),
                                      reduce->clear);
    }
    return RebuildStmt(s);
  }

 private:
  Stmt Stored(SourceLoc loc, const ir::Store& store) {
    std::vector<Expr> indices = MutateAll(store.indices);
    indices.insert(indices.begin(), version_);
    return ir::MakeStmt<ir::Store>(
        loc, tiles_.at(store.buffer.get()), std::move(indices), Mutate(store.value),
        store.predicate.defined() ? Mutate(store.predicate) : Expr(), store.way);
  }

  ir::Region Version(const ir::Region& r) {
    const auto found = tiles_.find(r.buffer.get());
    if (found == tiles_.end()) return MutateRegion(r);
    ir::Region out{found->second, {{version_, MakeInt(1)}}};
    for (const ir::Range& range : r.ranges) {
      out.ranges.push_back({Mutate(range.min), Mutate(range.extent)});
    }
    return out;
  }

  const TileVersions& tiles_;
  const Expr version_;
};

}  // namespace

ir::Buffer VersionsOf(const ir::Buffer& tile, int64_t versions) {
  ir::BufferNode node = *tile;
  node.shape.insert(node.shape.begin(), MakeInt(versions));
  return std::make_shared<const ir::BufferNode>(node);
}

Stmt ReadVersion(const Stmt& s, const TileVersions& tiles, const Expr& version) {
  return Versions(tiles, version).Mutate(s);
}

bool Uses(const std::vector<Stmt>& stmts, const ir::Buffer& buffer) {
  return std::any_of(stmts.begin(), stmts.end(),
                     [&](const Stmt& s) { return UsesBuffer(s, buffer); });
}

bool Writes(const std::vector<Stmt>& stmts, const ir::Buffer& buffer) {
  bool writes = false;
  for (const Stmt& s : stmts) {
    ir::Walk(s, [&](const Stmt& x) {
      if (const auto* store = x.As<ir::Store>()) writes |= store->buffer == buffer;
      if (const auto* copy = x.As<ir::Copy>()) writes |= copy->dst.buffer == buffer;
      if (const auto* fill = x.As<ir::Fill>()) writes |= fill->dst.buffer == buffer;
      if (const auto* reduce = x.As<ir::Reduce>()) writes |= reduce->dst.buffer == buffer;
      if (const auto* gemm = x.As<ir::Gemm>()) writes |= gemm->c.buffer == buffer;
      if (const auto* atomic = x.As<ir::Atomic>()) {
        writes |= atomic->dst.buffer == buffer || atomic->src.buffer == buffer;
      }
      return !writes;
    });
  }
  return writes;
}

bool PlacedBy(const std::vector<Stmt>& stmts, const ir::Region& region) {
  return std::any_of(stmts.begin(), stmts.end(), [&](const Stmt& s) {
    const auto* bind = s.As<ir::Bind>();
    return bind != nullptr &&
           std::any_of(region.ranges.begin(), region.ranges.end(),
                       [&](const ir::Range& r) { return ir::Uses(r.min, bind->var); });
  });
}

}  // namespace kiln::passes
