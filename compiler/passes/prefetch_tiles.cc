// copy A[bx, 0] -> T; for j in parallel: T[j] = exp(T[j])
// becomes
// copy A[bx, 0] -> T; for j in parallel: { prefetch A[min(bx+1, last), j]; T[j] = exp(T[j]) }
#include "compiler/passes/prefetch_tiles.h"

#include "compiler/ir/shape.h"
#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

// Tiles above this are not held for the next block beside this block's own in a core's L2.
constexpr int64_t kMaxTileBytes = 256 << 10;

int64_t TileBytes(const ir::Buffer& tile) {
  int64_t bytes = tile->dtype.bytes();
  for (const Expr& extent : tile->shape) {
    const auto n = ir::ConstInt(extent);
    if (!n.has_value() || *n <= 0 || bytes > kMaxTileBytes) return kMaxTileBytes + 1;
    bytes *= *n;
  }
  return bytes;
}

// Work of one iteration, roughly: only the order of loops matters.
int64_t Work(const Stmt& body) {
  int64_t work = 0;
  ir::Walk(
      body, [](const Stmt&) { return true; },
      [&](const Expr& e) {
        if (e.kind() == ir::ExprKind::kCall) work += 10;
        if (const auto* b = e.As<ir::Binary>(); b != nullptr && b->dtype.is_float()) {
          work += b->op == ir::BinaryOp::kDiv ? 8 : 1;
        }
        return true;
      });
  return work;
}

// The indices of a Load of `tile` in `body` whose wide dimensions are loop variables; empty when
// there is none.
std::vector<Expr> WalkedAt(const ir::For& loop, const ir::Buffer& tile) {
  std::vector<Expr> found;
  ir::Walk(
      loop.body, [](const Stmt&) { return true; },
      [&](const Expr& e) {
        const auto* load = e.As<ir::Load>();
        if (load == nullptr || load->buffer != tile || !found.empty()) return found.empty();
        bool walks = true;
        for (size_t d = 0; d < load->indices.size(); ++d) {
          bool own = ir::IsConst(tile->shape[d], 1);
          for (const ir::Axis& axis : loop.axes) own |= load->indices[d].same_as(axis.var);
          walks &= own;
        }
        // Lines are fetched once only when the last variable runs along them.
        walks &= load->indices.back().same_as(loop.axes.back().var);
        if (walks) found = load->indices;
        return true;
      });
  return found;
}

bool OnlyStores(const Stmt& body) {
  bool only = true;
  ir::Walk(body, [&](const Stmt& s) {
    only &= s.kind() == ir::StmtKind::kSeq || s.kind() == ir::StmtKind::kBind ||
            s.kind() == ir::StmtKind::kStore;
    return only;
  });
  return only;
}

class Prefetcher : public ir::Mutator {
 protected:
  Stmt VisitStmt(const Stmt& s) override {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr) return RebuildStmt(s);
    const auto* seq = launch->body.As<ir::Seq>();
    if (seq == nullptr || launch->annotations.count("swizzle_panel") > 0) return s;
    std::vector<Stmt> stmts = seq->stmts;
    bool changed = false;
    for (size_t i = 0; i < stmts.size(); ++i) {
      const auto* copy = stmts[i].As<ir::Copy>();
      changed |= copy != nullptr && PrefetchFor(*launch, *copy, i, &stmts);
    }
    if (!changed) return s;
    return ir::MakeStmt<ir::Launch>(s->loc, launch->grid, launch->threads,
                                    ir::MakeSeq(std::move(stmts), launch->body->loc),
                                    launch->annotations);
  }

 private:
  static bool PrefetchFor(const ir::Launch& launch, const ir::Copy& copy, size_t at,
                          std::vector<Stmt>* stmts) {
    const ir::Buffer& tile = copy.dst.buffer;
    const ir::Axis& next = launch.grid[0];
    bool moves = false;
    for (const ir::Range& range : copy.src.ranges) moves |= ir::Uses(range.min, next.var);
    if (copy.src.buffer->scope != ir::Scope::kGlobal || tile->scope == ir::Scope::kGlobal ||
        !moves || !CoversWhole(copy.dst) || TileBytes(tile) > kMaxTileBytes) {
      return false;
    }
    size_t best = 0;
    int64_t most = -1;
    std::vector<Expr> walked;
    for (size_t i = at + 1; i < stmts->size(); ++i) {
      const auto* loop = (*stmts)[i].As<ir::For>();
      if (loop == nullptr || loop->loop != ir::ForKind::kParallel || !OnlyStores(loop->body)) {
        continue;
      }
      const std::vector<Expr> indices = WalkedAt(*loop, tile);
      const int64_t work = Work(loop->body);
      if (indices.empty() || work < most) continue;
      best = i;
      most = work;
      walked = indices;
    }
    if (most < 0) return false;
    const auto* loop = (*stmts)[best].As<ir::For>();
    const Stmt ahead = Prefetch(next, copy, walked);
    (*stmts)[best] = ir::MakeStmt<ir::For>(loop->loc, loop->loop, loop->axes,
                                           ir::MakeSeq({ahead, loop->body}, loop->body->loc),
                                           loop->num_stages, loop->annotations);
    return true;
  }

  static Stmt Prefetch(const ir::Axis& next, const ir::Copy& copy,
                       const std::vector<Expr>& tile_indices) {
    const Expr one = ir::MakeInt(1, next.var.dtype());
    const Expr following = ir::Min(next.var + one, next.extent - one);
    std::vector<Expr> offsets;
    for (const int d : NonUnitDims(copy.dst)) offsets.push_back(tile_indices[d]);
    std::vector<Expr> indices = RegionIndices(copy.src, NonUnitDims(copy.src), offsets);
    for (Expr& index : indices) index = ir::Substitute(index, {{next.var.get(), following}});
    const Expr address = ir::MakeLoad(copy.src.buffer, indices);
    return ir::MakeStmt<ir::Evaluate>(copy.loc,
                                      ir::MakeCall(kInt32, ir::Intrinsic::kPrefetch, {address}));
  }
};

}  // namespace

absl::StatusOr<ir::Program> PrefetchTiles(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = Prefetcher().Mutate(program.body);
  return out;
}

}  // namespace kiln::passes
