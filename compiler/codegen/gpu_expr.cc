#include "compiler/codegen/gpu_expr.h"

#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cache_policy.h"
#include "compiler/codegen/emit_math.h"
#include "compiler/codegen/emit_wide.h"
#include "compiler/codegen/named_sums.h"
#include "compiler/ir/analysis.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using ir::Intrinsic;
using llvm::Value;

constexpr double kLog2E = 1.44269504088896340736;
constexpr double kLn2 = 0.69314718055994530942;

const char* NameOfFloat8(DType type) { return type.code == TypeCode::kE4M3 ? "e4m3" : "e5m2"; }

// PTX that touches no memory and always ends, so that accesses around it may become one.
Value* Pure(llvm::CallInst* call) {
  call->setDoesNotAccessMemory();
  call->setDoesNotThrow();
  call->addFnAttr(llvm::Attribute::WillReturn);
  return call;
}

}  // namespace

Value* RegisterAt(llvm::IRBuilderBase& b, llvm::Type* type, Value* array, int64_t index) {
  const uint64_t bytes = type->getPrimitiveSizeInBits().getFixedValue() / 8;
  if (index == 0) return array;
  return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), array, static_cast<uint64_t>(index) * bytes);
}

GpuExprEmitter::GpuExprEmitter(llvm::IRBuilder<>& builder, llvm::Module& module, int capability,
                               bool fast)
    : ExprEmitter(builder, module), capability_(capability), fast_(fast) {
  llvm::FastMathFlags flags;
  flags.setAllowContract();
  b_.setFastMathFlags(flags);
}

Value* GpuExprEmitter::EmitAddress(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices) {
  std::vector<ir::Expr> variable;
  Value* known = b_.getInt64(0);
  const Place& place = PlaceOf(buffer);
  Value* base = BaseOf(buffer, indices);
  for (size_t d = 0; d < indices.size(); ++d) {
    if (buffer->blocks > 1 && d == 0) {  // in this block, whose rank it is or is not
      variable.push_back(ir::MakeInt(0));
      continue;
    }
    if (buffer->table && d == 0) {
      variable.push_back(indices[d]);
      continue;
    }
    ir::LinearForm form = ir::Linearize(indices[d]);
    Value* constant = b_.getInt64(static_cast<uint64_t>(std::exchange(form.constant, 0)));
    known = b_.CreateAdd(known, b_.CreateMul(constant, place.strides[d]));
    variable.push_back(ir::FromLinear(form, indices[d].dtype()));
  }
  llvm::Type* element = StorageType(buffer->dtype);
  Value* offset = Offset(buffer, variable, 1);
  const auto* at = llvm::dyn_cast<llvm::ConstantInt>(known);
  const auto* from = llvm::dyn_cast<llvm::ConstantInt>(offset);
  if (buffer->scope == ir::Scope::kRegister && at && from && from->isZero()) {
    return RegisterAt(b_, element, base, at->getSExtValue());
  }
  return b_.CreateGEP(element, b_.CreateGEP(element, base, offset), known);
}

void GpuExprEmitter::NameSums(const ir::Buffer& sums, int64_t count) {
  const std::string name = absl::StrCat("sums", sums_.size(), "_");
  DeclareSums(*b_.GetInsertBlock()->getParent(), name, count, *StorageType(sums->dtype));
  sums_[sums.get()] = {name, count};
}

std::string GpuExprEmitter::NameOfSums(const ir::Buffer& buffer) const {
  const auto found = sums_.find(buffer.get());
  return found == sums_.end() ? std::string() : found->second.name;
}

Value* GpuExprEmitter::EmitNamed(const ir::Load& e) {
  const auto found = sums_.find(e.buffer.get());
  if (found == sums_.end()) return nullptr;
  const auto& [name, count] = found->second;
  return ReadSum(b_, name, count, StorageType(e.dtype), Emit(e.indices[1]));
}

void GpuExprEmitter::OnAccess(llvm::Instruction& access, const ir::Buffer& buffer) const {
  const ir::CacheHint* hint = HintOn(buffer);
  if (hint != nullptr) MarkPolicy(access, *hint);
}

const ir::CacheHint* GpuExprEmitter::HintOn(const ir::Buffer& buffer) const {
  if (buffer->scope != ir::Scope::kGlobal) return nullptr;
  const auto hint = hints_.find(buffer->name);
  return hint != hints_.end() ? &hint->second : nullptr;
}

Value* GpuExprEmitter::CachePolicyOf(const ir::Buffer& buffer) {
  const ir::CacheHint* hint = HintOn(buffer);
  if (hint == nullptr) return nullptr;
  Value*& policy = policies_[ir::ToText(*hint)];
  if (policy == nullptr) {
    llvm::Function& kernel = *b_.GetInsertBlock()->getParent();
    llvm::IRBuilder<> entry(kernel.getEntryBlock().getTerminator());
    policy = CachePolicy(entry, *hint);
  }
  return policy;
}

// Tensors and tiles begin at multiples of 16 bytes, but for those that lie where a table says.
llvm::Align GpuExprEmitter::AlignOf(const ir::Buffer& buffer,
                                    const std::vector<ir::Expr>& indices) const {
  auto bytes = static_cast<uint64_t>(buffer->table ? std::min(16, buffer->alignment) : 16);
  const auto among = [&](int64_t multiple) {
    bytes = std::gcd(bytes, static_cast<uint64_t>(multiple * buffer->dtype.bytes()));
  };
  const Place& place = PlaceOf(buffer);
  for (size_t d = buffer->table ? 1 : 0; d < indices.size(); ++d) {
    const auto* stride = llvm::dyn_cast<llvm::ConstantInt>(place.strides[d]);
    const int64_t factor = stride != nullptr ? stride->getSExtValue() : 1;
    const ir::LinearForm form = ir::Linearize(indices[d]);
    among(factor * form.constant);
    for (const auto& term : form.terms) among(factor * term.second);
  }
  return llvm::Align(bytes);
}

Value* GpuExprEmitter::PickFloat(ir::BinaryOp op, Value* a, Value* b) {
  return EmitExtreme(op, a, b);
}

Value* GpuExprEmitter::EmitExtreme(ir::BinaryOp op, Value* a, Value* b) {
  return op == ir::BinaryOp::kMin ? b_.CreateMinNum(a, b) : b_.CreateMaxNum(a, b);
}

Value* GpuExprEmitter::Round(Value* value, DType type) {
  if (!type.is_float() || type.bits >= 32) return value;
  return FromStorage(ToStorage(value, type), type);
}

Value* GpuExprEmitter::FromStorage(Value* value, DType type) {
  if (HasFloat8(type)) return FromFloat8Bits(value, type);
  return ExprEmitter::FromStorage(value, type);
}

Value* GpuExprEmitter::ToStorage(Value* value, DType type) {
  if (HasFloat8(type)) return Float8Bits(value, type);
  if (type.code != TypeCode::kBFloat) return ExprEmitter::ToStorage(value, type);
  llvm::Type* bfloat = b_.getBFloatTy();
  if (type.lanes > 1) bfloat = llvm::FixedVectorType::get(bfloat, type.lanes);
  return b_.CreateBitCast(b_.CreateFPTrunc(value, bfloat), StorageType(type));
}

// One rounding does: the storage form is the rounded value.
Value* GpuExprEmitter::EmitStored(const ir::Expr& e, int lanes) {
  const auto* cast = e.As<ir::Cast>();
  if (cast == nullptr || lanes > 1 || !cast->dtype.is_float() || cast->dtype.bits >= 32 ||
      cast->a.dtype() != kFloat32) {
    return ExprEmitter::EmitStored(e, lanes);
  }
  return ToStorage(Emit(cast->a), cast->dtype);
}

// PTX 9.7.9.21 (cvt): pairs only; the other half is zero.
Value* GpuExprEmitter::Float8Bits(Value* value, DType type) {
  KILN_CHECK(type.lanes == 1);
  auto* form = llvm::FunctionType::get(b_.getInt16Ty(), {b_.getFloatTy(), b_.getFloatTy()}, false);
  auto* convert = llvm::InlineAsm::get(
      form, absl::StrCat("cvt.rn.satfinite.", NameOfFloat8(type), "x2.f32 $0, $1, $2;"), "=h,f,f",
      false);
  Value* zero = llvm::ConstantFP::get(b_.getFloatTy(), 0.0);
  return b_.CreateTrunc(Pure(b_.CreateCall(form, convert, {zero, value})), b_.getInt8Ty());
}

Value* GpuExprEmitter::FromFloat8Bits(Value* bits, DType type) {
  KILN_CHECK(type.lanes == 1);
  auto* form = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getInt16Ty()}, false);
  auto* convert = llvm::InlineAsm::get(
      form, absl::StrCat("cvt.rn.f16x2.", NameOfFloat8(type), "x2 $0, $1;"), "=r,h", false);
  Value* pair = Pure(b_.CreateCall(form, convert, {b_.CreateZExt(bits, b_.getInt16Ty())}));
  Value* low = b_.CreateBitCast(b_.CreateTrunc(pair, b_.getInt16Ty()), b_.getHalfTy());
  return b_.CreateFPExt(low, b_.getFloatTy());
}

// 2^(x log2 e), with what the product loses put back; infinities have nothing to put back.
Value* GpuExprEmitter::Exp(Value* x) {
  const auto f = [&](double v) { return llvm::ConstantFP::get(b_.getFloatTy(), v); };
  if (fast_) {
    return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_ex2_approx_ftz_f, {},
                              {b_.CreateFMul(x, f(kLog2E))});
  }
  const auto fma = [&](Value* a, Value* y, Value* c) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {b_.getFloatTy()}, {a, y, c});
  };
  Value* high = b_.CreateFMul(x, f(kLog2E));
  Value* low = fma(x, f(kLog2E - static_cast<double>(static_cast<float>(kLog2E))),
                   fma(x, f(kLog2E), b_.CreateFNeg(high)));
  Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, high);
  Value* power = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_ex2_approx_f, {}, {high});
  Value* infinity = f(std::numeric_limits<float>::infinity());
  Value* finite = b_.CreateAnd(b_.CreateFCmpOLT(size, infinity), b_.CreateFCmpOLT(power, infinity));
  return b_.CreateSelect(finite, fma(power, b_.CreateFMul(low, f(kLn2)), power), power);
}

Value* GpuExprEmitter::Divide(Value* a, Value* b) {
  if (!fast_ || !a->getType()->isFloatTy()) return ExprEmitter::Divide(a, b);
  return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_div_approx_ftz_f, {}, {a, b});
}

Value* GpuExprEmitter::WideCall(Intrinsic op, DType type, llvm::ArrayRef<Value*> args) {
  KILN_CHECK(type.lanes == 1);
  switch (op) {
    case Intrinsic::kExp:
      return EmitWideExp(b_, args[0]);
    case Intrinsic::kExp2:
      return EmitWideExp2(b_, args[0]);
    case Intrinsic::kLog:
      return EmitWideLog(b_, args[0]);
    case Intrinsic::kLog2:
      return EmitWideLog2(b_, args[0]);
    case Intrinsic::kTanh:
      return EmitWideTanh(b_, args[0]);
    case Intrinsic::kSigmoid:
      return EmitWideSigmoid(b_, args[0]);
    case Intrinsic::kSin:
      return EmitWideSin(b_, args[0]);
    case Intrinsic::kCos:
      return EmitWideCos(b_, args[0]);
    case Intrinsic::kErf:
      return EmitWideErf(b_, args[0]);
    case Intrinsic::kPow:
      return EmitWidePow(b_, args[0], args[1]);
    case Intrinsic::kExp10:
      return EmitWideExp10(b_, args[0]);
    case Intrinsic::kLog1p:
      return EmitWideLog1p(b_, args[0]);
    case Intrinsic::kSinh:
      return EmitWideSinh(b_, args[0]);
    case Intrinsic::kCosh:
      return EmitWideCosh(b_, args[0]);
    case Intrinsic::kAsin:
      return EmitWideAsin(b_, args[0]);
    case Intrinsic::kAcos:
      return EmitWideAcos(b_, args[0]);
    case Intrinsic::kAtan:
      return EmitWideAtan(b_, args[0]);
    case Intrinsic::kAsinh:
      return EmitWideAsinh(b_, args[0]);
    case Intrinsic::kAcosh:
      return EmitWideAcosh(b_, args[0]);
    case Intrinsic::kAtanh:
      return EmitWideAtanh(b_, args[0]);
    case Intrinsic::kAtan2:
      return EmitWideAtan2(b_, args[0], args[1]);
    default:
      return Unsupported(op, type);
  }
}

Value* GpuExprEmitter::EmitMathCall(Intrinsic op, DType type, llvm::ArrayRef<Value*> args) {
  if (op == Intrinsic::kFmod) return EmitFmod(b_, args[0], args[1]);
  if (type.bits == 64 && op != Intrinsic::kSqrt && op != Intrinsic::kRsqrt) {
    return WideCall(op, type, args);
  }
  switch (op) {
    case Intrinsic::kExp:
      return Exp(args[0]);
    case Intrinsic::kExp2:
      return b_.CreateIntrinsic(
          fast_ ? llvm::Intrinsic::nvvm_ex2_approx_ftz_f : llvm::Intrinsic::nvvm_ex2_approx_f, {},
          {args[0]});
    case Intrinsic::kSigmoid: {
      Value* one = llvm::ConstantFP::get(b_.getFloatTy(), 1.0);
      Value* sum = b_.CreateFAdd(one, Exp(b_.CreateFNeg(args[0])));
      return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_rcp_approx_ftz_f, {}, {sum});
    }
    case Intrinsic::kRsqrt:
      if (type.bits == 64) break;
      return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_rsqrt_approx_f, {}, {args[0]});
    default:
      break;
  }
  return ExprEmitter::EmitMathCall(op, type, args);
}

}  // namespace kiln::codegen
