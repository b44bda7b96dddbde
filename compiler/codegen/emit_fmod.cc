// The remainder of a division that rounds towards zero, exact: long division in base 2, in a
// function of its own, because it loops.
#include "compiler/codegen/emit_math.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

// r = |x|; t = |y| doubled while that is at most r; then t is taken away where it fits, halved, and
// so on down to |y|. Doubling, halving and taking away are exact.
void BuildBody(llvm::Function* f) {
  llvm::LLVMContext& context = f->getContext();
  const auto block = [&](const char* name) { return llvm::BasicBlock::Create(context, name, f); };
  llvm::BasicBlock *entry = block("entry"), *up = block("up"), *down = block("down"),
                   *next = block("next"), *done = block("done");
  llvm::IRBuilder<> b(entry);
  llvm::Type* type = f->getReturnType();
  const auto constant = [&](double v) { return llvm::ConstantFP::get(type, v); };
  Value* x = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, f->getArg(0));
  Value* y = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, f->getArg(1));
  Value* infinity = llvm::ConstantFP::getInfinity(type);
  Value* divides = b.CreateAnd(b.CreateFCmpOLT(x, infinity), b.CreateFCmpOGT(y, constant(0)));
  Value* half = b.CreateFMul(x, constant(0.5));
  b.CreateCondBr(b.CreateAnd(divides, b.CreateFCmpOGE(x, y)), up, done);

  b.SetInsertPoint(up);
  llvm::PHINode* t = b.CreatePHI(type, 2);
  t->addIncoming(y, entry);
  Value* more = b.CreateFAdd(t, t);
  t->addIncoming(more, up);
  b.CreateCondBr(b.CreateFCmpOLE(t, half), up, down);

  b.SetInsertPoint(down);
  llvm::PHINode* step = b.CreatePHI(type, 2);
  llvm::PHINode* rest = b.CreatePHI(type, 2);
  step->addIncoming(t, up);
  rest->addIncoming(x, up);
  Value* fits = b.CreateFCmpOGE(rest, step);
  Value* left = b.CreateSelect(fits, b.CreateFSub(rest, step), rest);
  b.CreateCondBr(b.CreateFCmpOGT(step, y), next, done);
  b.SetInsertPoint(next);
  step->addIncoming(b.CreateFMul(step, constant(0.5)), next);
  rest->addIncoming(left, next);
  b.CreateBr(down);

  b.SetInsertPoint(done);
  llvm::PHINode* value = b.CreatePHI(type, 2);
  value->addIncoming(x, entry);
  value->addIncoming(left, down);
  Value* no_number = b.CreateOr(b.CreateNot(divides), b.CreateFCmpUNO(y, y));
  Value* result = b.CreateSelect(no_number, llvm::ConstantFP::getNaN(type), value);
  b.CreateRet(b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, result, f->getArg(0)));
}

}  // namespace

Value* EmitFmod(llvm::IRBuilder<>& b, Value* x, Value* y) {
  llvm::Type* type = x->getType();
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) {
    Value* out = llvm::PoisonValue::get(vector);
    for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
      Value* rest = EmitFmod(b, b.CreateExtractElement(x, lane), b.CreateExtractElement(y, lane));
      out = b.CreateInsertElement(out, rest, lane);
    }
    return out;
  }
  llvm::Module* module = b.GetInsertBlock()->getModule();
  const char* name = type->isDoubleTy() ? "kiln_fmod" : "kiln_fmodf";
  llvm::Function* f = module->getFunction(name);
  if (f == nullptr) {
    f = llvm::Function::Create(llvm::FunctionType::get(type, {type, type}, false),
                               llvm::Function::InternalLinkage, name, module);
    f->addFnAttr(llvm::Attribute::AlwaysInline);
    BuildBody(f);
  }
  return b.CreateCall(f, {x, y});
}

}  // namespace kiln::codegen
