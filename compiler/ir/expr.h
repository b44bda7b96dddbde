// Expressions of the tile IR: immutable, reference-counted trees.
//
// An Expr is a value handle; copying it is cheap and sharing is the rule. The factory functions
// below are the only way to make one: they check operand types (KILN_CHECK: a type mismatch is a
// bug of the caller, who converts first) and fold constants and the trivial identities (x+0, x*1,
// x*0, x//1, select on a constant, min(x,x)), so that closed arithmetic is an IntImm.
// Index arithmetic is int32 or int64; mixing them widens to int64. Thread-compatible.
#ifndef KILN_COMPILER_IR_EXPR_H_
#define KILN_COMPILER_IR_EXPR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/base/dtype.h"
#include "compiler/base/status.h"

namespace kiln::ir {

enum class ExprKind : uint8_t {
  kIntImm,
  kFloatImm,
  kVar,
  kUnary,
  kBinary,
  kSelect,
  kCast,
  kLoad,
  kCall,
  kRamp,
  kBroadcast,
};

struct ExprNode {
  ExprKind kind;
  DType dtype;
  size_t hash = 0;  // equal where Same() is true; of this process alone
  ExprNode(ExprKind k, DType t) : kind(k), dtype(t) {}
  virtual ~ExprNode() = default;
};

// A nullable handle to an immutable node.
class Expr {
 public:
  Expr() = default;
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  Expr(int value);  // NOLINT: an int32 literal, so that index arithmetic reads as arithmetic

  const ExprNode* get() const { return node_.get(); }
  const ExprNode* operator->() const { return node_.get(); }
  bool defined() const { return node_ != nullptr; }
  bool same_as(const Expr& other) const { return node_ == other.node_; }
  // Whether there are other handles to the node; true may be out of date where threads share it.
  bool shared() const { return node_.use_count() > 1; }
  DType dtype() const { return node_->dtype; }
  ExprKind kind() const { return node_->kind; }
  // The node as T when it is one, else null: `if (const IntImm* c = e.As<IntImm>())`.
  template <typename T>
  const T* As() const {
    return node_ && node_->kind == T::kKind ? static_cast<const T*>(node_.get()) : nullptr;
  }

 private:
  std::shared_ptr<const ExprNode> node_;
};

struct IntImm : ExprNode {  // integers and bools
  static constexpr ExprKind kKind = ExprKind::kIntImm;
  int64_t value;
  IntImm(DType t, int64_t v) : ExprNode(kKind, t), value(v) {}
};

struct FloatImm : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kFloatImm;
  double value;  // already rounded to dtype
  FloatImm(DType t, double v) : ExprNode(kKind, t), value(v) {}
};

// A variable is its node: two variables of one name are different. Names are for people.
struct Var : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kVar;
  std::string name;
  Var(DType t, std::string n) : ExprNode(kKind, t), name(std::move(n)) {}
};

enum class UnaryOp : uint8_t { kNeg, kNot, kBitNot };

struct Unary : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kUnary;
  UnaryOp op;
  Expr a;
  Unary(DType t, UnaryOp o, Expr x) : ExprNode(kKind, t), op(o), a(std::move(x)) {}
};

enum class BinaryOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,       // true division, floats only
  kFloorDiv,  // rounds towards minus infinity, integers and floats
  kFloorMod,  // sign of the divisor
  kMin,
  kMax,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,  // bool result
  kAnd,
  kOr,  // logical on bools; both sides may be evaluated
  kBitAnd,
  kBitOr,
  kBitXor,
  kShl,
  kShr,  // kShr is arithmetic for signed types
};

struct Binary : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kBinary;
  BinaryOp op;
  Expr a, b;
  Binary(DType t, BinaryOp o, Expr x, Expr y)
      : ExprNode(kKind, t), op(o), a(std::move(x)), b(std::move(y)) {}
};

// condition ? a : b. Only the chosen side is evaluated when the condition is scalar.
struct Select : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kSelect;
  Expr condition, a, b;
  Select(DType t, Expr c, Expr x, Expr y)
      : ExprNode(kKind, t), condition(std::move(c)), a(std::move(x)), b(std::move(y)) {}
};

struct Cast : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kCast;
  Expr a;
  Cast(DType t, Expr x) : ExprNode(kKind, t), a(std::move(x)) {}
};

struct BufferNode;
using Buffer = std::shared_ptr<const BufferNode>;

// buffer[indices]. In lowered programs the last index may be a vector: a vector load whose inactive
// lanes (predicate false) read as zero and touch no memory. Other indices may then be vectors of as
// many lanes; scalar ones are the same in every lane.
struct Load : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kLoad;
  Buffer buffer;
  std::vector<Expr> indices;
  Expr predicate;  // undefined = always
  Load(DType t, Buffer b, std::vector<Expr> i, Expr p)
      : ExprNode(kKind, t), buffer(std::move(b)), indices(std::move(i)), predicate(std::move(p)) {}
};

enum class Intrinsic : uint8_t {
  kExp,
  kExp2,
  kLog,
  kLog2,
  kSqrt,
  kRsqrt,
  kTanh,
  kSigmoid,
  kAbs,
  kSin,
  kCos,
  kErf,
  kFloor,
  kCeil,
  kRound,
  kTrunc,  // kRound: half to even
  kPow,
  kFma,  // fma(a, b, c) with one rounding
  kIsNan,
  kIsInf,
  kIsFinite,
  kReinterpret,  // same bits, dtype of the call
  kReduceAdd,
  kReduceMax,
  kReduceMin,
  kReduceAnd,
  kReduceOr,
  kReduceXor,  // vector -> scalar, lowered programs only
  kPrefetch,   // args: a Load naming the address, wanted in L2 soon; no value
  kExp10,
  kLog1p,
  kSinh,
  kCosh,
  kAsin,
  kAcos,
  kAtan,
  kAsinh,
  kAcosh,
  kAtanh,
  kAtan2,  // atan2(y, x)
  kFmod,   // the sign of the first argument, exact
  kPopCount,
  kClz,  // of integers, in their own type: bits that are set, zeros before the first of them
};

struct Call : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kCall;
  Intrinsic op;
  std::vector<Expr> args;
  Call(DType t, Intrinsic o, std::vector<Expr> a) : ExprNode(kKind, t), op(o), args(std::move(a)) {}
};

// base, base+stride, ... (lanes). Lowered programs only.
struct Ramp : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kRamp;
  Expr base, stride;
  Ramp(DType t, Expr b, Expr s) : ExprNode(kKind, t), base(std::move(b)), stride(std::move(s)) {}
};

struct Broadcast : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kBroadcast;
  Expr a;
  Broadcast(DType t, Expr x) : ExprNode(kKind, t), a(std::move(x)) {}
};

// Factories. Operand dtypes must already agree (see MatchTypes), except that an int32 index and an
// int64 index widen.
Expr MakeInt(int64_t value, DType type = kInt32);
Expr MakeBool(bool value);
Expr MakeFloat(double value, DType type = kFloat32);
Expr MakeConst(double value, DType type);  // int or float immediate, broadcast when type has lanes
Expr MakeVar(std::string name, DType type = kInt32);
Expr MakeUnary(UnaryOp op, Expr a);
Expr MakeBinary(BinaryOp op, Expr a, Expr b);
Expr MakeSelect(Expr condition, Expr a, Expr b);
Expr MakeCast(DType type, Expr a);
Expr MakeLoad(Buffer buffer, std::vector<Expr> indices, Expr predicate = {});
Expr MakeCall(DType type, Intrinsic op, std::vector<Expr> args);
Expr MakeRamp(Expr base, Expr stride, int lanes);
Expr MakeBroadcast(Expr a, int lanes);

// Converts both sides to the common type by TileLang's promotion: the wider of two floats or two
// ints, float over int, int over bool; float16 with bfloat16 gives float32.
DType CommonType(DType a, DType b);
std::pair<Expr, Expr> MatchTypes(Expr a, Expr b);

// Operators on matched types (MatchTypes is applied first).
Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr FloorDiv(const Expr& a, const Expr& b);
Expr FloorMod(const Expr& a, const Expr& b);
Expr CeilDiv(const Expr& a, const Expr& b);
Expr Min(const Expr& a, const Expr& b);
Expr Max(const Expr& a, const Expr& b);
Expr operator<(const Expr& a, const Expr& b);
Expr operator<=(const Expr& a, const Expr& b);
Expr operator>(const Expr& a, const Expr& b);
Expr operator>=(const Expr& a, const Expr& b);
Expr Equal(const Expr& a, const Expr& b);
Expr operator&&(const Expr& a, const Expr& b);  // NOLINT: builds a node, no short circuit
Expr operator||(const Expr& a, const Expr& b);  // NOLINT

// The value of an integer (or bool) immediate, looking through nothing; nullopt otherwise.
std::optional<int64_t> ConstInt(const Expr& e);
std::optional<double> ConstFloat(const Expr& e);
bool IsConst(const Expr& e, int64_t value);

// Structural equality: same shape of tree, same variables and buffers by identity.
bool Same(const Expr& a, const Expr& b);

const char* Name(BinaryOp op);   // "+", "//", "min", ...
const char* Name(Intrinsic op);  // "exp", "reduce_add", ...

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_EXPR_H_
