#include "compiler/passes/product_loops.h"

#include "compiler/passes/build.h"

namespace kiln::passes {

using ir::Stmt;

std::vector<Stmt> Flatten(const Stmt& body) {
  const auto* seq = body.As<ir::Seq>();
  if (seq == nullptr) return {body};
  std::vector<Stmt> all;
  for (const Stmt& child : seq->stmts) {
    const std::vector<Stmt> inner = Flatten(child);
    all.insert(all.end(), inner.begin(), inner.end());
  }
  return all;
}

bool Is(const Stmt& s, ir::Instruction op) {
  const auto* x = s.As<ir::Instruct>();
  return x != nullptr && x->op == op;
}

Stmt WaitForProducts(SourceLoc loc, std::vector<ir::Region> ended, int64_t left, bool late) {
  std::map<std::string, std::string> notes;
  if (late) notes["late"] = "1";
  return ir::MakeStmt<ir::Instruct>(loc, ir::Instruction::kWgmmaWait, std::move(ended),
                                    std::vector<ir::Expr>{ir::MakeInt(left)}, std::move(notes));
}

bool HasVersions(const Stmt& arrival) {
  const ir::Buffer& versions = arrival.As<ir::Instruct>()->regions[0].buffer;
  return ir::ConstInt(versions->shape[0]).value_or(1) > 1;
}

Stmt At(const std::vector<Stmt>& stmts, const ir::Axis& axis, const ir::Expr& value,
        SourceLoc loc) {
  return ir::FreshCopy(ir::Substitute(ir::MakeSeq(stmts, loc), {{axis.var.get(), value}}));
}

}  // namespace kiln::passes
