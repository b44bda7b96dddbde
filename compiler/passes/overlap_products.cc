#include "compiler/passes/overlap_products.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/product_loops.h"
#include "compiler/passes/tile_versions.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Instruction;
using ir::MakeInt;
using ir::Stmt;

constexpr int64_t kWarp = 32;

// The statements of a loop's body, where they are as the pass needs them: binds, waits for
// barriers, one product and its wait, arrivals, in this order.
struct Body {
  std::vector<Stmt> before;  // up to and with the product
  Stmt wait;
  std::vector<Stmt> arrivals;
};

bool Match(const Stmt& loop_body, Body* body) {
  const std::vector<Stmt> stmts = Flatten(loop_body);
  size_t i = 0;
  while (i < stmts.size() &&
         (stmts[i].kind() == ir::StmtKind::kBind || Is(stmts[i], Instruction::kBarrierWait))) {
    body->before.push_back(stmts[i++]);
  }
  if (i + 1 >= stmts.size() || !Is(stmts[i], Instruction::kWgmma) ||
      !Is(stmts[i + 1], Instruction::kWgmmaWait)) {
    return false;
  }
  body->before.push_back(stmts[i]);
  body->wait = stmts[i + 1];
  for (i += 2; i < stmts.size(); ++i) {
    // With one version of the tiles the next product would wait for this one's to be handed back.
    if (!Is(stmts[i], Instruction::kBarrierArrive) || !HasVersions(stmts[i])) return false;
    body->arrivals.push_back(stmts[i]);
  }
  return true;
}

Stmt Overlap(const Stmt& s) {
  const auto* loop = s.As<ir::For>();
  Body body;
  if (loop == nullptr || loop->loop != ir::ForKind::kSerial || !Match(loop->body, &body)) return {};
  const ir::Axis& axis = loop->axes[0];
  if (ReadsMemory(axis.min) || ReadsMemory(axis.extent)) return {};
  const Expr one = MakeInt(1, axis.var.dtype());
  std::vector<Stmt> stmts = body.before;
  stmts.push_back(WaitForProducts(s->loc, {}, 1));  // nobody looks at the sums of the one before
  std::vector<Stmt> after = {body.wait};
  if (!body.arrivals.empty()) {
    stmts.push_back(ir::MakeStmt<ir::If>(s->loc, axis.var > axis.min,
                                         At(body.arrivals, axis, axis.var - one, s->loc)));
    const Expr ran = axis.extent > MakeInt(0, axis.extent.dtype());
    const Stmt last = At(body.arrivals, axis, axis.min + axis.extent - one, s->loc);
    after.push_back(ir::IsConst(ran, 1) ? last : ir::MakeStmt<ir::If>(s->loc, ran, last));
  }
  const Stmt overlapped = ir::MakeStmt<ir::For>(s->loc, loop->loop, loop->axes,
                                                ir::MakeStmt<ir::Seq>(s->loc, std::move(stmts)));
  after.insert(after.begin(), overlapped);
  return ir::MakeSeq(std::move(after), s->loc);
}

// ---- products in tensor memory ----

// A launch whose loops over products one warp runs.
class IssueAhead : public ir::Mutator {
 public:
  // Barriers of tiles that commits now arrive at: those of as many blocks.
  std::map<const ir::BufferNode*, int64_t> committed;

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* part = s.As<ir::OnThreads>()) {
      const int64_t around = std::exchange(first_, part->first);
      const Stmt out = RebuildStmt(s);
      first_ = around;
      return out;
    }
    const auto* loop = s.As<ir::For>();
    if (loop == nullptr || first_ < 0 || loop->loop != ir::ForKind::kSerial) return RebuildStmt(s);
    const std::vector<Stmt> stmts = Flatten(loop->body);
    return IsStraight(*loop, stmts) ? Ahead(*loop, stmts) : RebuildStmt(s);
  }

 private:
  // Waits for tiles, products that are waited for at once, tiles that are handed back.
  static bool IsStraight(const ir::For& loop, const std::vector<Stmt>& stmts) {
    const ir::Axis& axis = loop.axes[0];
    bool multiplies = false, straight = !ReadsMemory(axis.min) && !ReadsMemory(axis.extent);
    for (size_t i = 0; i < stmts.size() && straight; ++i) {
      if (Is(stmts[i], Instruction::kTcgen05Mma)) {
        straight = EndsAt(stmts, i);
        multiplies = true;
        i += 3;
        continue;
      }
      straight = stmts[i].kind() == ir::StmtKind::kBind ||
                 Is(stmts[i], Instruction::kBarrierWait) ||
                 (Is(stmts[i], Instruction::kBarrierArrive) && multiplies);
    }
    return straight && multiplies;
  }
  // A product, its commit, its wait, and the next one's parity.
  static bool EndsAt(const std::vector<Stmt>& stmts, size_t i) {
    return i + 3 < stmts.size() && Is(stmts[i + 1], Instruction::kTcgen05Commit) &&
           Is(stmts[i + 2], Instruction::kBarrierWait) &&
           stmts[i + 3].kind() == ir::StmtKind::kStore;
  }

  Stmt Ahead(const ir::For& loop, const std::vector<Stmt>& stmts) {
    std::vector<Stmt> body, end;
    for (size_t i = 0; i < stmts.size(); ++i) {
      if (Is(stmts[i], Instruction::kTcgen05Mma)) {
        end = {stmts[i + 2], stmts[i + 3]};
        body.push_back(stmts[i]);
        last_ = stmts[i + 1];
        i += 3;
      } else if (Is(stmts[i], Instruction::kBarrierArrive)) {
        const auto* arrive = stmts[i].As<ir::Instruct>();
        committed[arrive->regions[0].buffer.get()] =
            std::max<int64_t>(1, ir::NoteOf(*arrive, "cluster"));
        body.push_back(ir::MakeStmt<ir::Instruct>(stmts[i]->loc, Instruction::kTcgen05Commit,
                                                  arrive->regions, std::vector<Expr>{},
                                                  arrive->annotations));
      } else {
        body.push_back(stmts[i]);
      }
    }
    const SourceLoc loc = loop.loc;
    const Stmt all = ir::MakeStmt<ir::For>(loc, loop.loop, loop.axes,
                                           ir::MakeStmt<ir::Seq>(loc, std::move(body)));
    const Stmt issue = ir::MakeSeq({all, last_}, loc);
    end.insert(end.begin(), ir::MakeStmt<ir::OnThreads>(loc, first_, kWarp, issue));
    return ir::MakeSeq(std::move(end), loc);
  }

  int64_t first_ = -1;  // thread of the part
  Stmt last_;           // commit
};

// Whether a barrier counts on warps somewhere.
bool IsArrivedAt(const Stmt& body, const ir::BufferNode* barrier) {
  bool arrives = false;
  ir::Walk(body, [&](const Stmt& s) {
    const auto* x = s.As<ir::Instruct>();
    arrives |= Is(s, Instruction::kBarrierArrive) && x->regions[0].buffer.get() == barrier;
    return !arrives;
  });
  return arrives;
}

Stmt IssuedAhead(const Stmt& s) {
  if (s.kind() != ir::StmtKind::kLaunch) return {};
  IssueAhead ahead;
  const Stmt issued = ahead.Mutate(s);
  if (ahead.committed.empty()) return issued;
  const bool mixed = std::any_of(ahead.committed.begin(), ahead.committed.end(),
                                 [&](const auto& b) { return IsArrivedAt(issued, b.first); });
  if (mixed) return {};
  return ir::RewriteStmts(issued, [&](const Stmt& x) -> Stmt {
    const auto* init = x.As<ir::Instruct>();
    if (!Is(x, Instruction::kBarrierInit)) return {};
    const auto committed = ahead.committed.find(init->regions[0].buffer.get());
    if (committed == ahead.committed.end()) return {};
    return ir::MakeStmt<ir::Instruct>(x->loc, init->op, init->regions,
                                      std::vector<Expr>{MakeInt(committed->second)},
                                      init->annotations);
  });
}

}  // namespace

absl::StatusOr<ir::Program> OverlapProducts(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = ir::RewriteStmts(ir::RewriteStmts(program.body, Overlap), IssuedAhead);
  return out;
}

}  // namespace kiln::passes
