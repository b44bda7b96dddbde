#include "compiler/passes/touched.h"

#include "compiler/ir/instruct.h"
#include "compiler/ir/visit.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

void AddTile(const Stmt& s, Touched* touched) {
  const auto reads = [&](const ir::Region& r) { touched->reads.insert(r.buffer.get()); };
  const auto writes = [&](const ir::Region& r) { touched->writes.insert(r.buffer.get()); };
  if (const auto* copy = s.As<ir::Copy>()) reads(copy->src), writes(copy->dst);
  if (const auto* fill = s.As<ir::Fill>()) writes(fill->dst);
  if (const auto* gemm = s.As<ir::Gemm>()) {
    reads(gemm->a), reads(gemm->b), writes(gemm->c);
    if (gemm->sparse()) reads(gemm->e);
    if (!ir::IsConst(gemm->clear_accum, 1)) reads(gemm->c);
  }
  if (const auto* pair = s.As<ir::PairGemm>()) {
    reads(pair->a), reads(pair->b), reads(pair->c), writes(pair->c);
  }
  if (const auto* scan = s.As<ir::Scan>()) reads(scan->src), writes(scan->dst);
  if (const auto* reduce = s.As<ir::Reduce>()) {
    reads(reduce->src), writes(reduce->dst);
    if (!reduce->clear) reads(reduce->dst);
  }
}

}  // namespace

bool Meet(const Buffers& a, const Buffers& b) {
  for (const ir::BufferNode* x : a) {
    if (b.count(x) > 0) return true;
  }
  return false;
}

Touched TouchedBy(const Stmt& s) {
  Touched touched;
  ir::Walk(
      s,
      [&](const Stmt& x) {
        AddTile(x, &touched);
        if (const auto* store = x.As<ir::Store>()) touched.writes.insert(store->buffer.get());
        if (const auto* alloc = x.As<ir::Alloc>()) {
          if (alloc->init.defined()) touched.writes.insert(alloc->buffer.get());
        }
        if (const auto* atomic = x.As<ir::Atomic>()) {
          touched.writes.insert(atomic->dst.buffer.get());
          touched.reads.insert(atomic->dst.buffer.get());
          if (atomic->src.buffer != nullptr) touched.reads.insert(atomic->src.buffer.get());
          if (atomic->way.previous) touched.writes.insert(atomic->way.previous.get());
        }
        if (const auto* instruct = x.As<ir::Instruct>()) {
          for (const ir::Region& r : instruct->regions) {
            touched.reads.insert(r.buffer.get());
            touched.writes.insert(r.buffer.get());
          }
        }
        return true;
      },
      [&](const Expr& e) {
        if (const auto* load = e.As<ir::Load>()) touched.reads.insert(load->buffer.get());
        return true;
      });
  return touched;
}

}  // namespace kiln::passes
