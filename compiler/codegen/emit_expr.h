// Expressions of lowered programs as LLVM IR. Private to compiler/codegen.
//
// In registers float16, bfloat16 and float8 values are kept as float, rounded after every
// operation, so that any processor runs them with the types' own arithmetic; bools are i1. Memory
// holds the storage types. What is written here suits x86-64; another target overrides what it has
// better.
#ifndef KILN_COMPILER_CODEGEN_EMIT_EXPR_H_
#define KILN_COMPILER_CODEGEN_EMIT_EXPR_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ir/stmt.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {

// Where a buffer lives: its first element, and what one step along each dimension adds (elements).
struct Place {
  llvm::Value* base = nullptr;
  std::vector<llvm::Value*> strides;  // i64
};

class ExprEmitter {
 public:
  ExprEmitter(llvm::IRBuilder<>& builder, llvm::Module& module)
      : b_(builder), module_(module), context_(module.getContext()) {}
  virtual ~ExprEmitter() = default;

  // The value of `e` at the builder's insertion point. Failures (a type or intrinsic that x86 has
  // no lowering for) set status() and return poison.
  llvm::Value* Emit(const ir::Expr& e);
  // `e` sign-extended to i64 (scalar or vector).
  llvm::Value* EmitIndex(const ir::Expr& e);

  // A (possibly masked, possibly scattered) store. `past_caches`: a whole vector at a multiple of
  // its size goes to memory without passing the caches.
  void EmitStore(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices,
                 const ir::Expr& source, const ir::Expr& predicate, bool past_caches = false);
  // The address of one element.
  virtual llvm::Value* EmitAddress(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices);

  llvm::Type* RegisterType(DType type);  // as Emit returns it, with lanes
  llvm::Type* StorageType(DType type);   // as memory holds it, with lanes
  // `e`, or a vector of it, as memory holds it; what was loaded is not converted there and back.
  virtual llvm::Value* EmitStored(const ir::Expr& e, int lanes);
  // From the form in memory to that in registers.
  virtual llvm::Value* FromStorage(llvm::Value* value, DType type);

  void BindVar(const ir::Expr& var, llvm::Value* value) { vars_[var.get()] = value; }
  void BindBuffer(const ir::Buffer& buffer, Place place) {
    places_[buffer.get()] = std::move(place);
  }
  const Place& PlaceOf(const ir::Buffer& buffer) const { return places_.at(buffer.get()); }

  llvm::Module& module() { return module_; }

  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

 protected:
  virtual llvm::Value* Divide(llvm::Value* a, llvm::Value* b) { return b_.CreateFDiv(a, b); }
  // Told of every load and store of neighbours, or of one element, without a mask.
  virtual void OnAccess(llvm::Instruction& access, const ir::Buffer& buffer) const {
    (void)access;
    (void)buffer;
  }
  // What a load gives of a register that has a name in place of an address; null of any other.
  virtual llvm::Value* EmitNamed(const ir::Load& e) {
    (void)e;
    return nullptr;
  }
  // What the address of an element is known to be a multiple of.
  virtual llvm::Align AlignOf(const ir::Buffer& buffer,
                              const std::vector<ir::Expr>& indices) const {
    (void)indices;
    return llvm::Align(static_cast<uint64_t>(buffer->dtype.bytes()));
  }
  // The address that indices count from: the buffer's first element, or that of the tensor of a
  // table that the first index chooses (a vector of them where that is one).
  llvm::Value* BaseOf(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices);
  // Element offset from there: scalar i64, or a vector of i64 when an index is one.
  llvm::Value* Offset(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices, int lanes);

  virtual const char* target() const { return "x86-64"; }
  // A function of floats that is no single instruction everywhere. x86: straight-line code for
  // float32, libm for the rest.
  virtual llvm::Value* EmitMathCall(ir::Intrinsic op, DType type,
                                    llvm::ArrayRef<llvm::Value*> args);
  // min or max, where b is a number or a NaN of b is wanted: one instruction, b where either is
  // NaN.
  virtual llvm::Value* PickFloat(ir::BinaryOp op, llvm::Value* a, llvm::Value* b);
  // min or max: the number when one is NaN.
  virtual llvm::Value* EmitExtreme(ir::BinaryOp op, llvm::Value* a, llvm::Value* b);
  virtual llvm::Value* ToStorage(llvm::Value* value, DType type);
  // Rounds a float register value to a narrow type's precision; other types pass through.
  virtual llvm::Value* Round(llvm::Value* value, DType type);

  llvm::Value* Unsupported(ir::Intrinsic op, DType type);

  llvm::IRBuilder<>& b_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;

 private:
  llvm::Value* EmitUnary(const ir::Unary& e);
  llvm::Value* EmitBinary(const ir::Binary& e);
  llvm::Value* EmitIntBinary(ir::BinaryOp op, DType type, llvm::Value* a, llvm::Value* b);
  llvm::Value* EmitFloatBinary(ir::BinaryOp op, DType type, llvm::Value* a, llvm::Value* b);
  llvm::Value* EmitFloatFloorDiv(llvm::Value* a, llvm::Value* b);
  llvm::Value* EmitFloatFloorMod(DType type, llvm::Value* a, llvm::Value* b);
  // Never traps: where the divisor is zero it is taken as one, and the smallest integer divided by
  // minus one wraps around.
  llvm::Value* EmitFloorDiv(DType type, llvm::Value* a, llvm::Value* b);
  llvm::Value* FloorDivBy(llvm::Value* a, llvm::Value* b);  // signed, b neither 0 nor -1
  llvm::Value* EmitSelect(const ir::Select& e);
  llvm::Value* EmitLoad(const ir::Load& e);
  // As memory holds it. Not for one guarded element.
  llvm::Value* EmitRawLoad(const ir::Load& e);
  llvm::Value* EmitPlainLoad(const ir::Buffer& buffer, const std::vector<ir::Expr>& first,
                             llvm::Type* storage, llvm::Align align);
  llvm::Value* EmitCall(const ir::Call& e);
  llvm::Value* EmitReduce(const ir::Call& e);  // extremes: of lanes that are no NaN
  llvm::Value* EmitCast(llvm::Value* value, DType from, DType to);
  llvm::Value* RoundToOdd(llvm::Value* value, llvm::Type* narrow);
  llvm::Value* Reinterpret(const ir::Call& e);

  llvm::Value* BFloatBits(llvm::Value* value, int lanes);

  // The scalar indices of lane 0 when the access is one run of consecutive elements.
  bool IsContiguous(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices,
                    std::vector<ir::Expr>* first) const;
  llvm::Value* Splat(llvm::Value* value, int lanes);
  static int LanesOf(const std::vector<ir::Expr>& indices);

  std::unordered_map<const ir::ExprNode*, llvm::Value*> vars_;
  std::unordered_map<const ir::BufferNode*, Place> places_;
  absl::Status status_;
};

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_EMIT_EXPR_H_
