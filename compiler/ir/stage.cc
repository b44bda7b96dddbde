#include "compiler/ir/stage.h"

#include "compiler/ir/visit.h"

namespace kiln::ir {

Region Stage::Through(const Region& region, Scope scope, bool reads, bool writes) {
  std::vector<Expr> shape;
  for (const Range& range : region.ranges) shape.push_back(range.extent);
  const Buffer tile =
      MakeBuffer(region.buffer->name + ".tile", region.buffer->dtype, std::move(shape), scope);
  const Region whole = WholeBuffer(tile);
  before_.push_back(MakeStmt<Alloc>(loc_, tile));
  if (reads) before_.push_back(MakeStmt<Copy>(loc_, region, whole));
  if (writes) after_.push_back(MakeStmt<Copy>(loc_, whole, region));
  return whole;
}

Stmt Stage::Around(Stmt operation) && {
  std::vector<Stmt> stmts = std::move(before_);
  stmts.push_back(std::move(operation));
  for (Stmt& s : after_) stmts.push_back(std::move(s));
  return MakeStmt<Seq>(loc_, std::move(stmts));
}

Expr Settle(const Expr& e, const BufferTest& written, SourceLoc loc, std::vector<Stmt>* before) {
  bool loads = false;
  Walk(e, [&](const Expr& x) {
    const auto* load = x.As<Load>();
    loads |= load != nullptr && written(load->buffer);
    return !loads;
  });
  if (!loads) return e;
  const Expr first = MakeVar("first", e.dtype());
  before->push_back(MakeStmt<Bind>(loc, first, e));
  return first;
}

Region Settle(Region region, const BufferTest& written, SourceLoc loc, std::vector<Stmt>* before) {
  for (Range& range : region.ranges) {
    range.min = Settle(range.min, written, loc, before);
    range.extent = Settle(range.extent, written, loc, before);
  }
  return region;
}

}  // namespace kiln::ir
