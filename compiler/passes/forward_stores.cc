// for i, j in parallel: T[i, j] = e; copy T -> C[b, 0]   becomes   for i, j in parallel: C[b+i, j]
// = e
#include "compiler/passes/forward_stores.h"

#include <algorithm>

#include "compiler/ir/shape.h"
#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

bool Contains(const std::vector<ir::Buffer>& list, const ir::Buffer& buffer) {
  return std::find(list.begin(), list.end(), buffer) != list.end();
}
bool Reads(const Stmt& s, const ir::Buffer& b) { return Contains(ir::BuffersRead(s), b); }
bool Writes(const Stmt& s, const ir::Buffer& b) { return Contains(ir::BuffersWritten(s), b); }
bool Touches(const Stmt& s, const ir::Buffer& b) { return Reads(s, b) || Writes(s, b); }

// The only Store of a loop body that is a Store or Binds and one Store last; null otherwise.
const ir::Store* OnlyStore(const Stmt& body) {
  if (const auto* store = body.As<ir::Store>()) return store;
  const auto* seq = body.As<ir::Seq>();
  if (seq == nullptr || seq->stmts.empty()) return nullptr;
  for (size_t i = 0; i + 1 < seq->stmts.size(); ++i) {
    if (seq->stmts[i].kind() != ir::StmtKind::kBind) return nullptr;
  }
  return seq->stmts.back().As<ir::Store>();
}

class StoreForwarder : public FactsMutator {
 protected:
  Stmt VisitStmt(const Stmt& s) override {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr) return FactsMutator::VisitStmt(s);
    const auto* seq = launch->body.As<ir::Seq>();
    if (seq == nullptr) return s;
    const ir::Facts saved = facts_;
    for (const ir::Axis& axis : launch->grid) facts_.AddAxis(axis);
    std::vector<Stmt> stmts = seq->stmts;
    bool changed = false;
    for (size_t i = 0; i < stmts.size(); ++i) {
      const auto* copy = stmts[i].As<ir::Copy>();
      changed |= copy != nullptr && Forward(*copy, i, &stmts);
    }
    facts_ = saved;
    if (!changed) return s;
    return ir::MakeStmt<ir::Launch>(s->loc, launch->grid, launch->threads,
                                    ir::MakeSeq(std::move(stmts), launch->body->loc),
                                    launch->annotations);
  }

 private:
  bool Forward(const ir::Copy& copy, size_t at, std::vector<Stmt>* stmts) {
    const ir::Buffer& tile = copy.src.buffer;
    if (tile->scope != ir::Scope::kShared && tile->scope != ir::Scope::kFragment) return false;
    if (copy.dst.buffer->scope != ir::Scope::kGlobal || !CoversWhole(copy.src)) return false;
    if (IndexReads(copy.dst, tile) || IndexReads(copy.dst, copy.dst.buffer)) return false;
    for (size_t i = at + 1; i < stmts->size(); ++i) {
      if (Touches((*stmts)[i], tile)) return false;
    }
    for (size_t i = at; i-- > 0;) {
      const Stmt& s = (*stmts)[i];
      const auto* loop = s.As<ir::For>();
      if (loop != nullptr && Writes(s, tile)) {
        const Stmt direct = Redirect(*loop, copy);
        if (!direct.defined()) return false;
        (*stmts)[i] = direct;
        (*stmts)[at] = ir::MakeSeq({}, copy.loc);
        return true;
      }
      if (Touches(s, tile) || Touches(s, copy.dst.buffer) || MovesRegion(s, copy.dst)) return false;
    }
    return false;
  }

  // The loop with its store going to the tensor; undefined when the loop is not of that form.
  Stmt Redirect(const ir::For& loop, const ir::Copy& copy) {
    const ir::Store* store = OnlyStore(loop.body);
    if (loop.loop != ir::ForKind::kParallel || store == nullptr || store->predicate.defined() ||
        store->buffer != copy.src.buffer || Reads(loop.body, copy.dst.buffer)) {
      return {};
    }
    const std::vector<int> to = NonUnitDims(copy.dst);
    std::vector<Expr> offsets;
    for (const int d : NonUnitDims(copy.src)) offsets.push_back(store->indices[d]);
    if (offsets.size() != to.size() || !EachElementOnce(loop, *store)) return {};
    const ir::Facts saved = facts_;
    for (const ir::Axis& axis : loop.axes) facts_.AddAxis(axis);
    const std::vector<Expr> indices = RegionIndices(copy.dst, to, offsets);
    const Stmt direct = ir::MakeStmt<ir::Store>(store->loc, copy.dst.buffer, indices,
                                                ir::MakeCast(copy.dst.buffer->dtype, store->value),
                                                InsidePredicate(copy.dst.buffer, indices, facts_));
    facts_ = saved;
    Stmt body = direct;
    if (const auto* seq = loop.body.As<ir::Seq>()) {
      std::vector<Stmt> stmts = seq->stmts;
      stmts.back() = direct;
      body = ir::MakeSeq(std::move(stmts), loop.body->loc);
    }
    return ir::MakeStmt<ir::For>(loop.loc, loop.loop, loop.axes, body, loop.num_stages,
                                 loop.annotations);
  }

  // The store's indices are the loop's variables, each once, over the whole tile.
  static bool EachElementOnce(const ir::For& loop, const ir::Store& store) {
    size_t used = 0;
    for (size_t d = 0; d < store.indices.size(); ++d) {
      const Expr& extent = store.buffer->shape[d];
      if (ir::IsConst(extent, 1)) continue;
      if (used == loop.axes.size()) return false;
      while (used < loop.axes.size() && ir::IsConst(loop.axes[used].extent, 1)) ++used;
      if (used == loop.axes.size()) return false;
      const ir::Axis& axis = loop.axes[used++];
      if (!store.indices[d].same_as(axis.var) || !ir::IsConst(axis.min, 0) ||
          !ir::Same(axis.extent, extent)) {
        return false;
      }
    }
    for (; used < loop.axes.size(); ++used) {
      if (!ir::IsConst(loop.axes[used].extent, 1)) return false;
    }
    return true;
  }
};

}  // namespace

absl::StatusOr<ir::Program> ForwardStores(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = StoreForwarder().Mutate(program.body);
  return out;
}

}  // namespace kiln::passes
