#include "compiler/lang/tensor_tiles.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::lang {
namespace {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

constexpr size_t kMatrix = 2;  // dimensions of a tile

bool IsElementLoop(const Stmt& s) {
  const auto* loop = s.As<ir::For>();
  return loop != nullptr &&
         (loop->loop == ir::ForKind::kParallel || loop->loop == ir::ForKind::kVectorized);
}

// What holds statements of which each is done by itself.
bool IsControl(const Stmt& s) {
  switch (s.kind()) {
    case ir::StmtKind::kSeq:
    case ir::StmtKind::kIf:
    case ir::StmtKind::kWhile:
    case ir::StmtKind::kOnThreads:
    case ir::StmtKind::kLaunch:
      return true;
    default:
      return s.kind() == ir::StmtKind::kFor && !IsElementLoop(s);
  }
}

bool Names(const Stmt& s, const ir::BufferNode* buffer) {
  for (const auto& used : {ir::BuffersRead(s), ir::BuffersWritten(s)}) {
    for (const Buffer& b : used) {
      if (b.get() == buffer) return true;
    }
  }
  return false;
}

// Which tile of `buffer` the places before its matrix name; undefined: several.
Expr TileAt(const ir::Region& r) {
  Expr tile = ir::MakeInt(0);
  for (size_t d = 0; d + kMatrix < r.ranges.size(); ++d) {
    if (!ir::IsConst(r.ranges[d].extent, 1)) return {};
    tile = tile * ir::MakeCast(kInt32, r.buffer->shape[d]) + ir::MakeCast(kInt32, r.ranges[d].min);
  }
  return tile;
}

Expr TileAt(const Buffer& b, const std::vector<Expr>& indices) {
  ir::Region r{b, {}};
  for (const Expr& index : indices) r.ranges.push_back({index, ir::MakeInt(1)});
  return TileAt(r);
}

int64_t TilesOf(const Buffer& b) {
  int64_t tiles = 1;
  for (size_t d = 0; d + kMatrix < b->shape.size(); ++d) {
    tiles *= ir::ConstInt(b->shape[d]).value_or(1);
  }
  return tiles;
}

bool IsWholeMatrix(const ir::Region& r) {
  for (size_t d = r.ranges.size() - kMatrix; d < r.ranges.size(); ++d) {
    if (!ir::IsConst(r.ranges[d].min, 0)) return false;
    if (!ir::Same(r.ranges[d].extent, r.buffer->shape[d])) return false;
  }
  return true;
}

// The tiles of a buffer that `s`, no control, names, each place once.
std::vector<Expr> TilesIn(const Stmt& s, const ir::BufferNode* buffer) {
  std::vector<Expr> tiles;
  const auto add = [&](const Expr& tile) {
    for (const Expr& known : tiles) {
      if (known.defined() && tile.defined() && ir::Same(known, tile)) return;
    }
    tiles.push_back(tile);
  };
  ir::Walk(
      s,
      [&](const Stmt& x) {
        for (const ir::Region* r : TileRegions(x)) {
          if (r->buffer.get() == buffer) add(TileAt(*r));
        }
        const auto* store = x.As<ir::Store>();
        if (store != nullptr && store->buffer.get() == buffer) {
          add(TileAt(store->buffer, store->indices));
        }
        return true;
      },
      [&](const Expr& e) {
        const auto* load = e.As<ir::Load>();
        if (load != nullptr && load->buffer.get() == buffer) {
          add(TileAt(load->buffer, load->indices));
        }
        return true;
      });
  return tiles;
}

// ---- whether one tile is enough ----

enum class First : uint8_t { kNothing, kWrites, kElse };

// What the first statement of `s` that names `buffer` does to it. `begins`: the variables of loops
// around it that have begun, as in their first turn.
First FirstUse(const Stmt& s, const ir::BufferNode* buffer, ir::VarMap* begins) {
  if (!Names(s, buffer)) return First::kNothing;
  if (const auto* seq = s.As<ir::Seq>()) {
    for (const Stmt& x : seq->stmts) {
      const First first = FirstUse(x, buffer, begins);
      if (first != First::kNothing) return first;
    }
    return First::kNothing;
  }
  if (const auto* part = s.As<ir::OnThreads>()) return FirstUse(part->body, buffer, begins);
  if (const auto* loop = s.As<ir::For>(); loop != nullptr && IsControl(s)) {
    const ir::Axis& axis = loop->axes[0];
    const std::optional<int64_t> turns = ir::ConstInt(axis.extent);
    if (loop->loop == ir::ForKind::kThreads || !turns || *turns < 1) return First::kElse;
    (*begins)[axis.var.get()] = ir::Substitute(axis.min, *begins);
    return FirstUse(loop->body, buffer, begins);
  }
  if (const auto* gemm = s.As<ir::Gemm>()) {
    const bool own = gemm->c.buffer.get() == buffer && gemm->a.buffer.get() != buffer &&
                     gemm->b.buffer.get() != buffer && IsWholeMatrix(gemm->c);
    const Expr clears = ir::Substitute(gemm->clear_accum, *begins);
    return own && ir::IsConst(clears, 1) ? First::kWrites : First::kElse;
  }
  if (const auto* copy = s.As<ir::Copy>()) {
    return copy->src.buffer.get() != buffer && IsWholeMatrix(copy->dst) ? First::kWrites
                                                                        : First::kElse;
  }
  if (const auto* fill = s.As<ir::Fill>()) {
    return IsWholeMatrix(fill->dst) ? First::kWrites : First::kElse;
  }
  return First::kElse;
}

// The statements that name `buffer`, which are no control.
void CollectUses(const Stmt& s, const ir::BufferNode* buffer, std::vector<Stmt>* uses) {
  if (!Names(s, buffer)) return;
  if (!IsControl(s)) return uses->push_back(s);
  ir::Walk(s, [&](const Stmt& x) {
    if (IsControl(x)) return true;
    if (x.kind() != ir::StmtKind::kAlloc && Names(x, buffer)) uses->push_back(x);
    return false;
  });
}

// Whether in each turn of some loop all that names `buffer` is about one tile, begins with writing
// it, and nothing outside of the loop names it.
bool IsOneTile(const Stmt& launch, const ir::BufferNode* buffer) {
  std::vector<Stmt> uses;
  CollectUses(launch, buffer, &uses);
  Expr tile;
  for (const Stmt& use : uses) {
    const std::vector<Expr> tiles = TilesIn(use, buffer);
    if (tiles.size() != 1 || !tiles[0].defined() || ReadsMemory(tiles[0])) return false;
    if (tile.defined() && !ir::Same(tile, tiles[0])) return false;
    tile = tiles[0];
  }
  if (!tile.defined()) return false;
  bool found = false;
  ir::Walk(launch, [&](const Stmt& s) {
    const auto* loop = s.As<ir::For>();
    if (found || !IsControl(s)) return false;
    if (loop == nullptr || !ir::Uses(tile, loop->axes[0].var)) return true;
    std::vector<Stmt> inside;
    CollectUses(loop->body, buffer, &inside);
    bool inner = false;  // the tile depends on a loop in this one
    ir::Walk(loop->body, [&](const Stmt& x) {
      const auto* deeper = x.As<ir::For>();
      for (size_t a = 0; deeper != nullptr && a < deeper->axes.size(); ++a) {
        inner = inner || ir::Uses(tile, deeper->axes[a].var);
      }
      return true;
    });
    ir::VarMap begins;
    found = !inner && inside.size() == uses.size() &&
            FirstUse(loop->body, buffer, &begins) == First::kWrites;
    return !found;
  });
  return found;
}

// ---- the tiles ----

class Apart : public ir::Mutator {
 public:
  Apart(const ir::Program& program, const Stmt& launch) : program_(program), launch_(launch) {}

  const absl::Status& status() const { return status_; }

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    if (!status_.ok()) return s;
    if (const auto* alloc = s.As<ir::Alloc>()) return Allocs(s, *alloc);
    if (IsControl(s)) return RebuildStmt(s);
    for (const auto& [buffer, tiles] : tiles_) {
      if (Names(s, buffer)) return OnTiles(s, buffer, tiles);
    }
    return s;
  }

 private:
  Stmt Allocs(const Stmt& s, const ir::Alloc& alloc) {
    const Buffer& b = alloc.buffer;
    if (b->scope != ir::Scope::kTensor || b->shape.size() <= kMatrix) return s;
    if (!IsMultiplied(b.get())) return s;
    const int64_t count = IsOneTile(launch_, b.get()) ? 1 : TilesOf(b);
    std::vector<Buffer> tiles;
    std::vector<Stmt> allocs;
    for (int64_t i = 0; i < count; ++i) {
      auto tile = std::make_shared<ir::BufferNode>(*b);
      tile->shape.erase(tile->shape.begin(), tile->shape.end() - kMatrix);
      if (count > 1) tile->name = absl::StrCat(b->name, "_tile", i);
      tiles.push_back(tile);
      allocs.push_back(ir::MakeStmt<ir::Alloc>(s->loc, std::move(tile)));
    }
    tiles_.emplace_back(b.get(), std::move(tiles));
    return ir::MakeSeq(std::move(allocs), s->loc);
  }

  bool IsMultiplied(const ir::BufferNode* buffer) const {
    bool found = false;
    ir::Walk(launch_, [&](const Stmt& x) {
      found = found || (x.kind() == ir::StmtKind::kGemm && Names(x, buffer));
      return !found;
    });
    return found;
  }

  // `s` on the tile that it names, chosen where that is known at run time only.
  Stmt OnTiles(const Stmt& s, const ir::BufferNode* buffer, const std::vector<Buffer>& tiles) {
    const std::vector<Expr> places = TilesIn(s, buffer);
    const auto* fill = s.As<ir::Fill>();
    if (fill != nullptr && !places[0].defined()) {
      std::vector<Stmt> all;
      for (const Buffer& tile : tiles) {
        all.push_back(ir::MakeStmt<ir::Fill>(s->loc, ir::WholeBuffer(tile), fill->value));
      }
      return ir::MakeSeq(std::move(all), s->loc);
    }
    const bool chosen = places.size() == 1 && places[0].defined();
    if (!chosen || DependsOnLoopsIn(s, places[0])) {
      status_ = ir::ErrorAt(program_, s->loc,
                            absl::StrCat("an operation on several tiles of '", buffer->name,
                                         "', which is in tensor memory"),
                            absl::StrCat("name one tile at a time: ", buffer->name, "[i, :, :]"),
                            absl::StatusCode::kUnimplemented);
      return s;
    }
    if (tiles.size() == 1) return Mutate(Renamed(s, buffer, tiles[0]));
    if (const std::optional<int64_t> known = ir::ConstInt(places[0])) {
      if (*known >= 0 && *known < static_cast<int64_t>(tiles.size())) {
        return Mutate(Renamed(s, buffer, tiles[static_cast<size_t>(*known)]));
      }
    }
    Stmt choice;
    for (size_t i = tiles.size(); i-- > 0;) {
      const Stmt one = Mutate(Renamed(s, buffer, tiles[i]));
      const Expr is = ir::Equal(places[0], ir::MakeInt(static_cast<int64_t>(i)));
      choice = choice.defined() ? ir::MakeStmt<ir::If>(s->loc, is, one, choice) : one;
    }
    return choice;
  }

  static bool DependsOnLoopsIn(const Stmt& s, const Expr& tile) {
    bool depends = false;
    ir::Walk(s, [&](const Stmt& x) {
      const auto* loop = x.As<ir::For>();
      for (size_t a = 0; loop != nullptr && a < loop->axes.size(); ++a) {
        depends = depends || ir::Uses(tile, loop->axes[a].var);
      }
      return true;
    });
    return depends;
  }

  static Stmt Renamed(const Stmt& s, const ir::BufferNode* buffer, const Buffer& tile) {
    const auto matrix = [](const auto& of) { return std::vector(of.end() - kMatrix, of.end()); };
    std::vector<ir::Region> regions;
    for (const ir::Region* r : TileRegions(s)) {
      regions.push_back(r->buffer.get() == buffer ? ir::Region{tile, matrix(r->ranges)} : *r);
    }
    if (!regions.empty()) return WithRegions(s, regions);
    const Stmt stored = ir::RewriteStmts(s, [&](const Stmt& x) -> Stmt {
      const auto* store = x.As<ir::Store>();
      if (store == nullptr || store->buffer.get() != buffer) return {};
      return ir::MakeStmt<ir::Store>(x->loc, tile, matrix(store->indices), store->value,
                                     store->predicate, store->way);
    });
    return ir::RewriteExprs(stored, [&](const Expr& e) -> Expr {
      const auto* load = e.As<ir::Load>();
      if (load == nullptr || load->buffer.get() != buffer) return {};
      return ir::MakeLoad(tile, matrix(load->indices), load->predicate);
    });
  }

  const ir::Program& program_;
  const Stmt& launch_;
  absl::Status status_;
  std::vector<std::pair<const ir::BufferNode*, std::vector<Buffer>>> tiles_;
};

}  // namespace

std::vector<const ir::Region*> TileRegions(const Stmt& s) {
  if (const auto* copy = s.As<ir::Copy>()) return {&copy->src, &copy->dst};
  if (const auto* gemm = s.As<ir::Gemm>()) return {&gemm->a, &gemm->b, &gemm->c};
  if (const auto* fill = s.As<ir::Fill>()) return {&fill->dst};
  if (const auto* reduce = s.As<ir::Reduce>()) return {&reduce->src, &reduce->dst};
  return {};
}

Stmt WithRegions(const Stmt& s, const std::vector<ir::Region>& r) {
  if (const auto* copy = s.As<ir::Copy>()) {
    return ir::MakeStmt<ir::Copy>(s->loc, r[0], r[1], copy->annotations);
  }
  if (const auto* gemm = s.As<ir::Gemm>()) {
    return ir::MakeStmt<ir::Gemm>(s->loc, r[0], r[1], r[2], gemm->trans_a, gemm->trans_b,
                                  gemm->policy, gemm->clear_accum);
  }
  if (const auto* fill = s.As<ir::Fill>()) {
    return ir::MakeStmt<ir::Fill>(s->loc, r[0], fill->value);
  }
  const auto& reduce = *s.As<ir::Reduce>();
  const auto gone = static_cast<int>(reduce.src.ranges.size() - r[0].ranges.size());
  return ir::MakeStmt<ir::Reduce>(s->loc, reduce.op, r[0], r[1], reduce.dim - gone, reduce.clear);
}

absl::StatusOr<Stmt> TakeTilesApart(const ir::Program& program, const Stmt& launch) {
  Apart apart(program, launch);
  const Stmt out = apart.Mutate(launch);
  KILN_RETURN_IF_ERROR(apart.status());
  return out;
}

}  // namespace kiln::lang
