// Expressions at thread level as LLVM IR for NVPTX. Private to compiler/codegen.
//
// float16, bfloat16 and float8 values are float in registers, rounded where the program rounds
// them. Multiplications and additions that follow each other may be fused.
#ifndef KILN_COMPILER_CODEGEN_GPU_EXPR_H_
#define KILN_COMPILER_CODEGEN_GPU_EXPR_H_

#include <map>
#include <string>
#include <utility>

#include "compiler/codegen/emit_expr.h"
#include "compiler/ir/cache_hint.h"

namespace kiln::codegen {

// Register `index` of an array of `type`, in bytes and inside of the array: the form that LLVM's
// passes would bring it to, one register after another, going over all of the array after each.
llvm::Value* RegisterAt(llvm::IRBuilderBase& b, llvm::Type* type, llvm::Value* array,
                        int64_t index);

class GpuExprEmitter : public ExprEmitter {
 public:
  // `capability`: 80 for sm_80, 90 for sm_90a, ...
  // `fast`: tl.enable_fast_math: numbers below the normal ones may be taken for zero, exp and
  // quotients are the machine's own (2 ulp and more).
  GpuExprEmitter(llvm::IRBuilder<>& builder, llvm::Module& module, int capability, bool fast);

  // What accesses to tensors, by name, say to the L2 cache (cache_policy.h).
  void SetCacheHints(std::map<std::string, ir::CacheHint> hints) { hints_ = std::move(hints); }
  // The policy (i64) of accesses to a tensor, made where the kernel begins; null where they say
  // nothing.
  llvm::Value* CachePolicyOf(const ir::Buffer& buffer);

  // Sums of products, `count` registers a thread, as PTX declares them (named_sums.h): register i
  // is NameOfSums + i. Once a kernel.
  void NameSums(const ir::Buffer& sums, int64_t count);
  // Empty of what is not declared so.
  std::string NameOfSums(const ir::Buffer& buffer) const;

  // What is known of the address when the kernel is compiled comes last, on its own: neighbours are
  // recognised by it.
  llvm::Value* EmitAddress(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices) override;
  llvm::Value* EmitStored(const ir::Expr& e, int lanes) override;

 protected:
  void OnAccess(llvm::Instruction& access, const ir::Buffer& buffer) const override;
  llvm::Value* EmitNamed(const ir::Load& e) override;
  llvm::Align AlignOf(const ir::Buffer& buffer,
                      const std::vector<ir::Expr>& indices) const override;
  const char* target() const override { return "GPU"; }
  // float32: exp within 3 ulp, exp2 and rsqrt within 2 (ex2.approx and rsqrt.approx of the PTX ISA,
  // 9.7.3), sigmoid within 5, sqrt and division correctly rounded, the others as on x86.
  // float64: sqrt and division correctly rounded, rsqrt within 1.5, the others as emit_wide.h says.
  llvm::Value* EmitMathCall(ir::Intrinsic op, DType type,
                            llvm::ArrayRef<llvm::Value*> args) override;
  llvm::Value* PickFloat(ir::BinaryOp op, llvm::Value* a, llvm::Value* b) override;
  llvm::Value* EmitExtreme(ir::BinaryOp op, llvm::Value* a, llvm::Value* b) override;
  llvm::Value* FromStorage(llvm::Value* value, DType type) override;
  llvm::Value* ToStorage(llvm::Value* value, DType type) override;
  llvm::Value* Round(llvm::Value* value, DType type) override;

 private:
  llvm::Value* Exp(llvm::Value* x);
  // Of float64.
  llvm::Value* WideCall(ir::Intrinsic op, DType type, llvm::ArrayRef<llvm::Value*> args);
  llvm::Value* Divide(llvm::Value* a, llvm::Value* b) override;
  // There are instructions that convert between it and float.
  bool HasFloat8(DType type) const {
    return capability_ >= 89 && (type.code == TypeCode::kE4M3 || type.code == TypeCode::kE5M2);
  }
  llvm::Value* Float8Bits(llvm::Value* value, DType type);     // f32 -> i8
  llvm::Value* FromFloat8Bits(llvm::Value* bits, DType type);  // i8 -> f32

  const int capability_;
  const bool fast_;
  const ir::CacheHint* HintOn(const ir::Buffer& buffer) const;

  std::map<std::string, ir::CacheHint> hints_;
  struct Sums {
    std::string name;
    int64_t count;
  };
  std::map<const ir::BufferNode*, Sums> sums_;
  std::map<std::string, llvm::Value*> policies_;  // by the hint's text
};

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_GPU_EXPR_H_
