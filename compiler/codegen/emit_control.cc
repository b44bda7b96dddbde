#include "compiler/codegen/emit_control.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kiln::codegen {

using ir::Expr;
using llvm::Value;

void ControlEmitter::Emit(const ir::Stmt& s) {
  switch (s.kind()) {
    case ir::StmtKind::kSeq:
      for (const ir::Stmt& child : s.As<ir::Seq>()->stmts) Emit(child);
      return;
    case ir::StmtKind::kFor:
      return EmitFor(*s.As<ir::For>());
    case ir::StmtKind::kWhile:
      return EmitWhile(*s.As<ir::While>());
    case ir::StmtKind::kIf:
      return EmitIf(*s.As<ir::If>());
    case ir::StmtKind::kBind:
      exprs_.BindVar(s.As<ir::Bind>()->var, exprs_.Emit(s.As<ir::Bind>()->value));
      return;
    case ir::StmtKind::kEvaluate:
      exprs_.Emit(s.As<ir::Evaluate>()->value);
      return;
    case ir::StmtKind::kBreak:
      return Jump(loops_.back().exit);
    case ir::StmtKind::kContinue:
      return Jump(loops_.back().next);
    default:
      exprs_.Fail(
          absl::InternalError(absl::StrCat("statement kind ", static_cast<int>(s.kind()),
                                           " reached code generation; the pipeline lowers it")));
  }
}

llvm::BasicBlock* ControlEmitter::NewBlock(const char* name) {
  return llvm::BasicBlock::Create(b_.getContext(), name, b_.GetInsertBlock()->getParent());
}

void ControlEmitter::Jump(llvm::BasicBlock* target) {
  b_.CreateBr(target);
  b_.SetInsertPoint(NewBlock("after"));
}

void ControlEmitter::EmitFor(const ir::For& loop) {
  if (loop.loop != ir::ForKind::kSerial) {
    exprs_.Fail(absl::InternalError("a loop that is not serial reached code generation"));
    return;
  }
  const ir::Axis& axis = loop.axes[0];
  Value* first = exprs_.Emit(axis.min);
  Value* last = b_.CreateAdd(first, exprs_.Emit(ir::MakeCast(axis.min.dtype(), axis.extent)), "",
                             false, true);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* header = NewBlock("for");
  llvm::BasicBlock* body = NewBlock("body");
  llvm::BasicBlock* next = NewBlock("next");
  llvm::BasicBlock* exit = NewBlock("done");
  b_.CreateBr(header);
  b_.SetInsertPoint(header);
  llvm::PHINode* i = b_.CreatePHI(first->getType(), 2);
  i->addIncoming(first, before);
  b_.CreateCondBr(b_.CreateICmpSLT(i, last), body, exit);
  b_.SetInsertPoint(body);
  exprs_.BindVar(axis.var, axis.var.dtype() == axis.min.dtype()
                               ? static_cast<Value*>(i)
                               : b_.CreateSExtOrTrunc(i, exprs_.RegisterType(axis.var.dtype())));
  loops_.push_back({next, exit});
  Emit(loop.body);
  loops_.pop_back();
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
  Value* one = llvm::ConstantInt::get(i->getType(), 1);
  i->addIncoming(b_.CreateNSWAdd(i, one), next);  // it may begin below zero
  OnLatch(loop, b_.CreateBr(header));
  b_.SetInsertPoint(exit);
}

void ControlEmitter::EmitWhile(const ir::While& loop) {
  llvm::BasicBlock* header = NewBlock("while");
  llvm::BasicBlock* body = NewBlock("body");
  llvm::BasicBlock* exit = NewBlock("done");
  b_.CreateBr(header);
  b_.SetInsertPoint(header);
  b_.CreateCondBr(exprs_.Emit(loop.condition), body, exit);
  b_.SetInsertPoint(body);
  loops_.push_back({header, exit});
  Emit(loop.body);
  loops_.pop_back();
  b_.CreateBr(header);
  b_.SetInsertPoint(exit);
}

void ControlEmitter::EmitIf(const ir::If& branch) {
  Value* condition = exprs_.Emit(branch.condition);
  if (!branch.else_case.defined()) {
    Guarded(condition, [&] { Emit(branch.then_case); });
    return;
  }
  llvm::BasicBlock* yes = NewBlock("then");
  llvm::BasicBlock* no = NewBlock("else");
  llvm::BasicBlock* join = NewBlock("join");
  b_.CreateCondBr(condition, yes, no);
  b_.SetInsertPoint(yes);
  Emit(branch.then_case);
  b_.CreateBr(join);
  b_.SetInsertPoint(no);
  BeforeElse();
  Emit(branch.else_case);
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
}

Value* ControlEmitter::OnStack(llvm::Type* type, int64_t elements, int64_t alignment) {
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> top(&entry, entry.begin());
  auto* slot = top.CreateAlloca(llvm::ArrayType::get(type, elements));
  slot->setAlignment(llvm::Align(alignment));
  return slot;
}

Place PlaceOfShape(llvm::IRBuilder<>& b, const ir::BufferNode& buffer, int64_t* elements) {
  Place place;
  place.strides.resize(buffer.shape.size());
  *elements = 1;
  for (size_t d = buffer.shape.size(); d-- > 0;) {
    const auto extent = ir::ConstInt(buffer.shape[d]);
    KILN_CHECK(extent.has_value());  // check-resources refuses it
    const int64_t stride = buffer.strides.empty() ? *elements : *ir::ConstInt(buffer.strides[d]);
    place.strides[d] = b.getInt64(stride);
    *elements =
        buffer.strides.empty() ? *elements * *extent : std::max(*elements, stride * *extent);
  }
  return place;
}

}  // namespace kiln::codegen
