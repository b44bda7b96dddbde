#include "compiler/lang/join_ring.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::lang {
namespace {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using Stmts = std::vector<Stmt>;
using Span = std::pair<int64_t, int64_t>;  // first thread, count

constexpr int64_t kWarpgroup = 128;

// ---- the parts ----

bool OfThreads(const Buffer& b) {
  return b->scope == ir::Scope::kRegister || b->scope == ir::Scope::kLocal;
}

// Loops, branches, names and variables.
bool IsControl(const Stmt& s) {
  const auto* alloc = s.As<ir::Alloc>();
  const auto* store = s.As<ir::Store>();
  const Buffer b = alloc != nullptr ? alloc->buffer : store != nullptr ? store->buffer : nullptr;
  if (b != nullptr) return b->scope == ir::Scope::kVar;
  return s.kind() == ir::StmtKind::kSeq || s.kind() == ir::StmtKind::kFor ||
         s.kind() == ir::StmtKind::kIf || s.kind() == ir::StmtKind::kBind;
}

// The part that works, where the others only fetch; the block, where all parts do and it works.
std::optional<Span> Worker(const ir::Launch& launch) {
  std::set<Span> spans, works;
  int64_t threads = 1;
  for (const Expr& extent : launch.threads) threads *= ir::ConstInt(extent).value_or(1);
  bool single = false;
  for (const auto& [key, value] : launch.annotations) {  // layouts count the threads of the block
    single = single || absl::StartsWith(key, "layout:") || absl::StartsWith(key, "replicated:");
  }
  ir::Walk(launch.body, [&](const Stmt& s) {
    const auto* loop = s.As<ir::For>();
    const auto* alloc = s.As<ir::Alloc>();
    single = single || (loop != nullptr && loop->loop == ir::ForKind::kThreads) ||
             s.kind() == ir::StmtKind::kInstruct ||
             (alloc != nullptr && (OfThreads(alloc->buffer) || !alloc->buffer->layout.empty()));
    const auto* part = s.As<ir::OnThreads>();
    if (s.kind() == ir::StmtKind::kGemm) works.insert({0, threads});
    if (part == nullptr) return !single;
    const Span span = {part->first, part->count};
    spans.insert(span);
    ir::Walk(part->body, [&](const Stmt& x) {
      const auto* copy = x.As<ir::Copy>();
      const bool fetches = copy != nullptr && copy->src.buffer->scope == ir::Scope::kGlobal &&
                           copy->dst.buffer->scope == ir::Scope::kShared;
      if (!fetches && !IsControl(x)) works.insert(span);
      return true;
    });
    return false;
  });
  if (single || works.size() != 1) return std::nullopt;
  const Span worker = *works.begin();
  if (worker.second % kWarpgroup != 0 || spans.size() == spans.count(worker)) return std::nullopt;
  return worker;
}

// The statements of a list, parts and lists in it taken apart.
void Flatten(const Stmt& s, Stmts* out) {
  if (const auto* part = s.As<ir::OnThreads>()) return Flatten(part->body, out);
  const auto* seq = s.As<ir::Seq>();
  if (seq == nullptr) return out->push_back(s);
  for (const Stmt& x : seq->stmts) Flatten(x, out);
}

Stmt OfTheBlock(const Stmt& s) {
  return ir::RewriteStmts(s, [](const Stmt& x) -> Stmt {
    const auto* part = x.As<ir::OnThreads>();
    return part == nullptr ? Stmt() : part->body;
  });
}

// ---- the ring ----

bool IsWhole(const ir::Range& range, const Expr& extent) {
  return ir::IsConst(range.min, 0) && ir::Same(range.extent, extent);
}

// Which tile of a buffer a loop uses, as long as it is one.
struct Use {
  Expr tile;        // the first index; undefined: none
  bool one = true;  // and nothing else
};

std::vector<const ir::Region*> RegionsOf(const Stmt& s) {
  if (const auto* copy = s.As<ir::Copy>()) return {&copy->src, &copy->dst};
  if (const auto* gemm = s.As<ir::Gemm>()) return {&gemm->a, &gemm->b, &gemm->c};
  return {};
}

class Uses {
 public:
  explicit Uses(const Stmt& body) {
    ir::Walk(
        body,
        [&](const Stmt& s) {
          const std::vector<const ir::Region*> regions = RegionsOf(s);
          for (const ir::Region* r : regions) See(*r);
          if (!regions.empty() || s.kind() == ir::StmtKind::kSeq ||
              s.kind() == ir::StmtKind::kFor || s.kind() == ir::StmtKind::kIf) {
            return true;
          }
          // What else writes a tile, or reads one as a whole.
          for (const Buffer& b : ir::BuffersWritten(s)) uses_[b.get()].one = false;
          if (s.kind() == ir::StmtKind::kStore || s.kind() == ir::StmtKind::kBind) return true;
          for (const Buffer& b : ir::BuffersRead(s)) uses_[b.get()].one = false;
          return true;
        },
        [&](const Expr& e) {
          if (const auto* load = e.As<ir::Load>()) See(load->buffer, load->indices[0]);
          return true;
        });
  }

  Use Of(const Buffer& b) const {
    const auto known = uses_.find(b.get());
    return known == uses_.end() ? Use{{}, false} : known->second;
  }

 private:
  void See(const ir::Region& region) {
    const bool point = ir::IsConst(region.ranges[0].extent, 1);
    See(region.buffer, point ? region.ranges[0].min : Expr());
  }
  void See(const Buffer& buffer, const Expr& tile) {
    Use& use = uses_[buffer.get()];
    use.one = use.one && tile.defined() && (!use.tile.defined() || ir::Same(use.tile, tile));
    use.tile = tile;
  }

  std::unordered_map<const ir::BufferNode*, Use> uses_;
};

// Every use of a buffer as one of its only tile.
class OneTile : public ir::Mutator {
 public:
  explicit OneTile(const ir::BufferMap& tiles) : tiles_(tiles) {}

 protected:
  Expr VisitExpr(const Expr& e) override {
    const Expr x = RebuildExpr(e);
    const auto* load = x.As<ir::Load>();
    const Buffer tile = load == nullptr ? nullptr : TileOf(load->buffer);
    if (tile == nullptr) return x;
    return ir::MakeLoad(tile, {load->indices.begin() + 1, load->indices.end()}, load->predicate);
  }
  Stmt VisitStmt(const Stmt& s) override {
    const Stmt x = RebuildStmt(s);
    if (const auto* alloc = x.As<ir::Alloc>()) {
      const Buffer tile = TileOf(alloc->buffer);
      return tile == nullptr ? x : ir::MakeStmt<ir::Alloc>(s->loc, tile);
    }
    if (const auto* copy = x.As<ir::Copy>()) {
      return ir::MakeStmt<ir::Copy>(s->loc, Of(copy->src), Of(copy->dst), copy->annotations);
    }
    if (const auto* gemm = x.As<ir::Gemm>()) {
      return ir::MakeStmt<ir::Gemm>(s->loc, Of(gemm->a), Of(gemm->b), Of(gemm->c), gemm->trans_a,
                                    gemm->trans_b, gemm->policy, gemm->clear_accum);
    }
    return x;
  }

 private:
  Buffer TileOf(const Buffer& b) const {
    const auto known = tiles_.find(b.get());
    return known == tiles_.end() ? nullptr : known->second;
  }
  ir::Region Of(const ir::Region& r) const {
    const Buffer tile = TileOf(r.buffer);
    if (tile == nullptr) return r;
    return {tile, {r.ranges.begin() + 1, r.ranges.end()}};
  }

  const ir::BufferMap& tiles_;
};

int64_t CountUses(const Stmt& s, const Buffer& b) {
  int64_t count = 0;
  ir::Walk(
      s,
      [&](const Stmt& x) {
        for (const ir::Region* r : RegionsOf(x)) count += r->buffer == b;
        return true;
      },
      [&](const Expr& e) {
        const auto* load = e.As<ir::Load>();
        count += load != nullptr && load->buffer == b;
        return true;
      });
  return count;
}

// The rings of one loop whose body is the block's: from a buffer to its tile.
struct Rings {
  ir::BufferMap tiles;
  int64_t depth = INT64_MAX;
};

Rings RingsOf(const Stmts& body, const ir::Launch& launch) {
  Rings rings;
  const Stmt all = ir::MakeSeq(body);
  const Uses uses(all);
  std::set<const ir::BufferNode*> seen;  // what comes before is no ring
  for (const Stmt& s : body) {
    const auto* copy = s.As<ir::Copy>();
    const Buffer to = copy == nullptr ? nullptr : copy->dst.buffer;
    // The first dimension of what several blocks write is one of ranks.
    if (to != nullptr && to->scope == ir::Scope::kShared && to->shape.size() > 1 &&
        to->blocks == 1 && copy->src.buffer->scope == ir::Scope::kGlobal &&
        seen.count(to.get()) == 0) {
      const Use use = uses.Of(to);
      const std::optional<int64_t> depth = ir::ConstInt(to->shape[0]);
      bool ring = use.one && !ReadsMemory(use.tile) && depth.has_value() && *depth > 1 &&
                  to->strides.empty() && to->layout.empty() &&
                  launch.annotations.count(absl::StrCat("layout:", to->name)) == 0 &&
                  CountUses(all, to) == CountUses(launch.body, to);
      for (size_t d = 1; d < to->shape.size(); ++d) {
        ring = ring && IsWhole(copy->dst.ranges[d], to->shape[d]);
      }
      if (ring) {
        auto tile = std::make_shared<ir::BufferNode>(*to);
        tile->shape.erase(tile->shape.begin());
        rings.tiles[to.get()] = std::move(tile);
        rings.depth = std::min(rings.depth, *depth);
      }
    }
    for (const Buffer& b : ir::BuffersRead(s)) seen.insert(b.get());
    for (const Buffer& b : ir::BuffersWritten(s)) seen.insert(b.get());
  }
  return rings;
}

bool HoldsParts(const Stmt& s, size_t at_least) {
  std::set<Span> spans;
  ir::Walk(s, [&](const Stmt& x) {
    if (const auto* part = x.As<ir::OnThreads>()) spans.insert({part->first, part->count});
    return true;
  });
  return spans.size() >= at_least;
}

}  // namespace

Stmt JoinRing(const Stmt& launch) {
  const auto& l = *launch.As<ir::Launch>();
  const std::optional<Span> worker = Worker(l);
  const bool of_block = worker && ir::IsConst(l.threads[0], worker->second);
  ir::BufferMap tiles;
  const Stmt joined = ir::RewriteStmts(l.body, [&](const Stmt& s) -> Stmt {
    const auto* loop = s.As<ir::For>();
    if (loop == nullptr || loop->loop != ir::ForKind::kSerial ||
        !HoldsParts(loop->body, of_block ? 1 : 2)) {
      return Stmt();
    }
    Stmts body;
    Flatten(loop->body, &body);
    const Rings rings = RingsOf(body, l);
    if (rings.tiles.empty()) return Stmt();
    tiles.insert(rings.tiles.begin(), rings.tiles.end());
    if (!worker) return s;
    return ir::MakeStmt<ir::For>(loop->loc, ir::ForKind::kPipelined, loop->axes,
                                 ir::MakeSeq(body, loop->body->loc), ir::MakeInt(rings.depth));
  });
  if (tiles.empty()) return launch;
  const Stmt body = OneTile(tiles).Mutate(worker ? OfTheBlock(joined) : joined);
  return ir::MakeStmt<ir::Launch>(
      l.loc, l.grid, worker ? std::vector<Expr>{ir::MakeInt(worker->second)} : l.threads, body,
      l.annotations);
}

}  // namespace kiln::lang
