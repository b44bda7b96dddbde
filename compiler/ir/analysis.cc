// Uses of variables and buffers.
#include "compiler/ir/analysis.h"

#include <algorithm>
#include <unordered_set>

#include "compiler/ir/instruct.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

void AddOnce(const Buffer& b, std::vector<Buffer>* list) {
  if (b && std::find(list->begin(), list->end(), b) == list->end()) list->push_back(b);
}

}  // namespace

namespace {

template <typename F>
bool Contains(const Expr& e, const F& holds) {
  constexpr int kFew = 64;
  bool found = false;
  int visits = 0;
  std::unordered_set<const ExprNode*> seen;  // in a large expression: what is used twice
  Walk(e, [&](const Expr& x) {
    found |= holds(x);
    return !found && (++visits <= kFew || seen.insert(x.get()).second);
  });
  return found;
}

template <typename F>
bool Contains(const Stmt& s, const F& holds) {
  bool found = false;
  Walk(
      s, [&](const Stmt&) { return !found; },
      [&](const Expr& x) {
        found |= holds(x);
        return !found;
      });
  return found;
}

bool IsLoad(const Expr& e) { return e.kind() == ExprKind::kLoad; }

}  // namespace

bool Uses(const Expr& e, const Expr& var) {
  return Contains(e, [&](const Expr& x) { return x.same_as(var); });
}
bool Uses(const Stmt& s, const Expr& var) {
  return Contains(s, [&](const Expr& x) { return x.same_as(var); });
}

bool ReadsMemory(const Expr& e) { return Contains(e, IsLoad); }
bool ReadsMemory(const Stmt& s) { return Contains(s, IsLoad); }

bool Multiplies(const Stmt& s, const Buffer& tile) {
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    const auto* gemm = x.As<Gemm>();
    found |= gemm != nullptr && (gemm->a.buffer == tile || gemm->b.buffer == tile);
    return !found;
  });
  return found;
}

bool MultipliesPanels(const Stmt& s, const Buffer& tile) {
  const int bits = tile->dtype.bits;
  bool found = false, all = true;
  Walk(s, [&](const Stmt& x) {
    const auto* gemm = x.As<Gemm>();
    if (gemm == nullptr) return true;
    const bool is_a = gemm->a.buffer == tile, is_b = gemm->b.buffer == tile;
    found |= is_a || is_b;
    all &= bits == 16 || (bits == 8 && !(is_a && gemm->trans_a) && !(is_b && !gemm->trans_b));
    return all;
  });
  return found && all;
}

bool EvaluatesAll(const Expr& e) {
  const auto* x = e.As<Binary>();
  const bool either = x != nullptr && (x->op == BinaryOp::kAnd || x->op == BinaryOp::kOr);
  return !either && e.kind() != ExprKind::kSelect;
}

bool IsLarge(const Expr& e) {
  constexpr int kMany = 256;
  int nodes = 0;
  Walk(e, [&](const Expr&) { return ++nodes <= kMany; });
  return nodes > kMany;
}

std::vector<Buffer> BuffersRead(const Stmt& s) {
  std::vector<Buffer> list;
  const auto on_stmt = [&](const Stmt& x) {
    if (const auto* copy = x.As<Copy>()) AddOnce(copy->src.buffer, &list);
    if (const auto* reduce = x.As<Reduce>()) {
      AddOnce(reduce->src.buffer, &list);
      if (!reduce->clear) AddOnce(reduce->dst.buffer, &list);
    }
    if (const auto* scan = x.As<Scan>()) AddOnce(scan->src.buffer, &list);
    if (const auto* gemm = x.As<Gemm>()) {
      AddOnce(gemm->a.buffer, &list);
      AddOnce(gemm->b.buffer, &list);
      if (gemm->sparse()) AddOnce(gemm->e.buffer, &list);
      if (!IsConst(gemm->clear_accum, 1)) AddOnce(gemm->c.buffer, &list);
    }
    if (const auto* gemm = x.As<PairGemm>()) {
      for (const Region* r : {&gemm->a, &gemm->b, &gemm->c}) AddOnce(r->buffer, &list);
    }
    if (const auto* atomic = x.As<Atomic>()) {
      AddOnce(atomic->src.buffer, &list);
      AddOnce(atomic->dst.buffer, &list);
    }
    if (const auto* add = x.As<Instruct>(); add && add->op == Instruction::kGlobalAdd) {
      AddOnce(add->regions[0].buffer, &list);
    }
    return true;
  };
  Walk(s, on_stmt, [&](const Expr& x) {
    if (const auto* load = x.As<Load>()) AddOnce(load->buffer, &list);
    const auto* call = x.As<Call>();
    return !call || call->op != Intrinsic::kPrefetch;
  });
  return list;
}

std::vector<Buffer> BuffersWritten(const Stmt& s) {
  std::vector<Buffer> list;
  Walk(s, [&](const Stmt& x) {
    if (const auto* store = x.As<Store>()) AddOnce(store->buffer, &list);
    if (const auto* copy = x.As<Copy>()) AddOnce(copy->dst.buffer, &list);
    if (const auto* gemm = x.As<Gemm>()) AddOnce(gemm->c.buffer, &list);
    if (const auto* gemm = x.As<PairGemm>()) AddOnce(gemm->c.buffer, &list);
    if (const auto* fill = x.As<Fill>()) AddOnce(fill->dst.buffer, &list);
    if (const auto* reduce = x.As<Reduce>()) AddOnce(reduce->dst.buffer, &list);
    if (const auto* scan = x.As<Scan>()) AddOnce(scan->dst.buffer, &list);
    if (const auto* atomic = x.As<Atomic>()) {
      if (atomic->op != AtomicOp::kLoad) AddOnce(atomic->dst.buffer, &list);
      AddOnce(atomic->way.previous, &list);
    }
    if (const auto* own = x.As<Instruct>();
        own && (own->op == Instruction::kGlobalAdd || own->op == Instruction::kStoreMatrices)) {
      AddOnce(own->regions[0].buffer, &list);
    }
    if (const auto* alloc = x.As<Alloc>(); alloc && alloc->init.defined()) {
      AddOnce(alloc->buffer, &list);
    }
    return true;
  });
  return list;
}

}  // namespace kiln::ir
