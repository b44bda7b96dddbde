#include "compiler/ir/stage.h"

namespace kiln::ir {

Region Stage::Through(const Region& region, Scope scope, bool reads, bool writes) {
  std::vector<Expr> shape;
  for (const Range& range : region.ranges) shape.push_back(range.extent);
  const Buffer tile =
      MakeBuffer(region.buffer->name + "_tile", region.buffer->dtype, std::move(shape), scope);
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

}  // namespace kiln::ir
