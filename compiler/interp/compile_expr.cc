// Expressions.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/interp/compiler.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/scalar.h"

namespace kiln::interp {
namespace {

using ir::BinaryOp;
using ir::Intrinsic;
using ir::UnaryOp;

template <typename T>
class Constant : public Node {
 public:
  explicit Constant(T value) : value_(value) {}
  int64_t Int(Machine&) const override { return static_cast<int64_t>(value_); }
  double Real(Machine&) const override { return static_cast<double>(value_); }

 private:
  const T value_;
};

class IntVar : public Node {
 public:
  IntVar(int slot, int lanes) : Node(lanes), slot_(slot) {}
  int64_t Int(Machine& m) const override { return m.ints[slot_]; }
  void Ints(Machine& m, int64_t* out) const override {
    std::copy_n(m.ints.begin() + slot_, lanes, out);
  }

 private:
  const int slot_;
};

class RealVar : public Node {
 public:
  RealVar(int slot, int lanes) : Node(lanes), slot_(slot) {}
  double Real(Machine& m) const override { return m.reals[slot_]; }
  void Reals(Machine& m, double* out) const override {
    std::copy_n(m.reals.begin() + slot_, lanes, out);
  }

 private:
  const int slot_;
};

// A function of one or two values of class In with a value of class Out. F takes (Machine&, In...).
template <typename In, typename Out, typename F>
class Function1 : public Node {
 public:
  Function1(NodePtr a, F f) : Node(a->lanes), a_(std::move(a)), f_(f) {}
  int64_t Int(Machine& m) const override { return static_cast<int64_t>(Scalar(m)); }
  double Real(Machine& m) const override { return static_cast<double>(Scalar(m)); }
  void Ints(Machine& m, int64_t* out) const override { Lanes(m, out); }
  void Reals(Machine& m, double* out) const override { Lanes(m, out); }

 private:
  Out Scalar(Machine& m) const { return f_(m, Value<In>(*a_, m)); }
  template <typename T>
  void Lanes(Machine& m, T* out) const {
    In a[kMaxLanes];
    Values<In>(*a_, m, a);
    for (int i = 0; i < lanes; ++i) out[i] = static_cast<T>(f_(m, a[i]));
  }
  NodePtr a_;
  F f_;
};

template <typename In, typename Out, typename F>
class Function2 : public Node {
 public:
  Function2(NodePtr a, NodePtr b, F f)
      : Node(a->lanes), a_(std::move(a)), b_(std::move(b)), f_(f) {}
  int64_t Int(Machine& m) const override { return static_cast<int64_t>(Scalar(m)); }
  double Real(Machine& m) const override { return static_cast<double>(Scalar(m)); }
  void Ints(Machine& m, int64_t* out) const override { Lanes(m, out); }
  void Reals(Machine& m, double* out) const override { Lanes(m, out); }

 private:
  Out Scalar(Machine& m) const {
    const In a = Value<In>(*a_, m);
    return f_(m, a, Value<In>(*b_, m));
  }
  template <typename T>
  void Lanes(Machine& m, T* out) const {
    In a[kMaxLanes], b[kMaxLanes];
    Values<In>(*a_, m, a);
    Values<In>(*b_, m, b);
    for (int i = 0; i < lanes; ++i) out[i] = static_cast<T>(f_(m, a[i], b[i]));
  }
  NodePtr a_, b_;
  F f_;
};

template <typename In, typename Out, typename F>
NodePtr Make1(NodePtr a, F f) {
  return std::make_unique<Function1<In, Out, F>>(std::move(a), f);
}
template <typename In, typename Out, typename F>
NodePtr Make2(NodePtr a, NodePtr b, F f) {
  return std::make_unique<Function2<In, Out, F>>(std::move(a), std::move(b), f);
}

// Wraps around in an integer type of up to 64 bits.
struct Wrap {
  explicit Wrap(DType type) : unused(64 - type.bits), is_signed(type.code == TypeCode::kInt) {}
  int64_t operator()(uint64_t v) const {
    const uint64_t high = v << unused;
    return is_signed ? static_cast<int64_t>(high) >> unused : static_cast<int64_t>(high >> unused);
  }
  int unused;
  bool is_signed;
};

template <typename F>
NodePtr WrappedInt2(NodePtr a, NodePtr b, DType type, F f) {
  const Wrap wrap(type);
  return Make2<int64_t, int64_t>(
      std::move(a), std::move(b), [wrap, f](Machine&, int64_t x, int64_t y) {
        return wrap(f(static_cast<uint64_t>(x), static_cast<uint64_t>(y)));
      });
}

template <typename F>
NodePtr Compare2(NodePtr a, NodePtr b, bool real, F f) {
  if (real) {
    return Make2<double, int64_t>(std::move(a), std::move(b),
                                  [f](Machine&, double x, double y) { return int64_t{f(x, y)}; });
  }
  return Make2<int64_t, int64_t>(std::move(a), std::move(b),
                                 [f](Machine&, int64_t x, int64_t y) { return int64_t{f(x, y)}; });
}

template <typename F>
NodePtr Rounded2(NodePtr a, NodePtr b, Rounding rounding, F f) {
  switch (rounding) {
    case Rounding::kNone:
      return Make2<double, double>(std::move(a), std::move(b),
                                   [f](Machine&, double x, double y) { return f(x, y); });
    case Rounding::kF32:
      return Make2<double, double>(std::move(a), std::move(b), [f](Machine&, double x, double y) {
        return static_cast<double>(static_cast<float>(f(x, y)));
      });
    default:
      return Make2<double, double>(
          std::move(a), std::move(b),
          [f, rounding](Machine&, double x, double y) { return RoundSlow(f(x, y), rounding); });
  }
}

// Everything else that integers do, with its failures.
NodePtr CheckedInt2(NodePtr a, NodePtr b, BinaryOp op, DType type, SourceLoc loc) {
  return Make2<int64_t, int64_t>(
      std::move(a), std::move(b), [op, type, loc](Machine& m, int64_t x, int64_t y) -> int64_t {
        const std::optional<int64_t> value = ir::EvalInt(op, x, y, type);
        if (value) return *value;
        const bool shift = op == BinaryOp::kShl || op == BinaryOp::kShr;
        m.Fail(absl::StatusCode::kFailedPrecondition, loc,
               shift ? absl::StrCat("shift of a ", type.ToString(), " by ", y)
                     : absl::StrCat("division of ", x, " by zero"),
               shift ? "shift by at least 0 and less than the type's width"
                     : "check the divisor before dividing");
        return 0;
      });
}

NodePtr IntBinary(BinaryOp op, NodePtr a, NodePtr b, DType type, SourceLoc loc) {
  const bool unsigned64 = type.bits == 64 && type.code != TypeCode::kInt;
  switch (op) {
    case BinaryOp::kAdd:
      return WrappedInt2(std::move(a), std::move(b), type,
                         [](uint64_t x, uint64_t y) { return x + y; });
    case BinaryOp::kSub:
      return WrappedInt2(std::move(a), std::move(b), type,
                         [](uint64_t x, uint64_t y) { return x - y; });
    case BinaryOp::kMul:
      return WrappedInt2(std::move(a), std::move(b), type,
                         [](uint64_t x, uint64_t y) { return x * y; });
    case BinaryOp::kAnd:
      return Compare2(std::move(a), std::move(b), false,
                      [](auto x, auto y) { return x != 0 && y != 0; });
    case BinaryOp::kOr:
      return Compare2(std::move(a), std::move(b), false,
                      [](auto x, auto y) { return x != 0 || y != 0; });
    default:
      break;
  }
  if (!unsigned64) {
    switch (op) {
      case BinaryOp::kEq:
        return Compare2(std::move(a), std::move(b), false, [](auto x, auto y) { return x == y; });
      case BinaryOp::kNe:
        return Compare2(std::move(a), std::move(b), false, [](auto x, auto y) { return x != y; });
      case BinaryOp::kLt:
        return Compare2(std::move(a), std::move(b), false, [](auto x, auto y) { return x < y; });
      case BinaryOp::kLe:
        return Compare2(std::move(a), std::move(b), false, [](auto x, auto y) { return x <= y; });
      case BinaryOp::kGt:
        return Compare2(std::move(a), std::move(b), false, [](auto x, auto y) { return x > y; });
      case BinaryOp::kGe:
        return Compare2(std::move(a), std::move(b), false, [](auto x, auto y) { return x >= y; });
      case BinaryOp::kMin:
        return Make2<int64_t, int64_t>(
            std::move(a), std::move(b),
            [](Machine&, int64_t x, int64_t y) { return std::min(x, y); });
      case BinaryOp::kMax:
        return Make2<int64_t, int64_t>(
            std::move(a), std::move(b),
            [](Machine&, int64_t x, int64_t y) { return std::max(x, y); });
      default:
        break;
    }
  }
  return CheckedInt2(std::move(a), std::move(b), op, type, loc);
}

NodePtr RealBinary(BinaryOp op, NodePtr a, NodePtr b, Rounding rounding) {
  switch (op) {
    case BinaryOp::kAdd:
      return Rounded2(std::move(a), std::move(b), rounding,
                      [](double x, double y) { return x + y; });
    case BinaryOp::kSub:
      return Rounded2(std::move(a), std::move(b), rounding,
                      [](double x, double y) { return x - y; });
    case BinaryOp::kMul:
      return Rounded2(std::move(a), std::move(b), rounding,
                      [](double x, double y) { return x * y; });
    case BinaryOp::kDiv:
      return Rounded2(std::move(a), std::move(b), rounding,
                      [](double x, double y) { return x / y; });
    case BinaryOp::kEq:
      return Compare2(std::move(a), std::move(b), true, [](auto x, auto y) { return x == y; });
    case BinaryOp::kNe:
      return Compare2(std::move(a), std::move(b), true, [](auto x, auto y) { return x != y; });
    case BinaryOp::kLt:
      return Compare2(std::move(a), std::move(b), true, [](auto x, auto y) { return x < y; });
    case BinaryOp::kLe:
      return Compare2(std::move(a), std::move(b), true, [](auto x, auto y) { return x <= y; });
    case BinaryOp::kGt:
      return Compare2(std::move(a), std::move(b), true, [](auto x, auto y) { return x > y; });
    case BinaryOp::kGe:
      return Compare2(std::move(a), std::move(b), true, [](auto x, auto y) { return x >= y; });
    default:
      return Rounded2(std::move(a), std::move(b), rounding,
                      [op](double x, double y) { return ir::EvalFloat(op, x, y).value_or(0); });
  }
}

template <typename T>
class SelectOf : public Node {
 public:
  SelectOf(NodePtr c, NodePtr a, NodePtr b)
      : Node(a->lanes), condition_(std::move(c)), a_(std::move(a)), b_(std::move(b)) {}
  int64_t Int(Machine& m) const override { return condition_->Int(m) ? a_->Int(m) : b_->Int(m); }
  double Real(Machine& m) const override { return condition_->Int(m) ? a_->Real(m) : b_->Real(m); }
  void Ints(Machine& m, int64_t* out) const override { Lanes(m, out); }
  void Reals(Machine& m, double* out) const override { Lanes(m, out); }

 private:
  template <typename V>
  void Lanes(Machine& m, V* out) const {
    if (condition_->lanes == 1) {
      return Values<V>(condition_->Int(m) ? *a_ : *b_, m, out);
    }
    int64_t chosen[kMaxLanes];
    V other[kMaxLanes];
    condition_->Ints(m, chosen);
    Values<V>(*a_, m, out);
    Values<V>(*b_, m, other);
    for (int i = 0; i < lanes; ++i) {
      if (!chosen[i]) out[i] = other[i];
    }
  }
  NodePtr condition_, a_, b_;
};

class RampOf : public Node {
 public:
  RampOf(NodePtr base, NodePtr stride, DType type)
      : Node(type.lanes), base_(std::move(base)), stride_(std::move(stride)), wrap_(type) {}
  void Ints(Machine& m, int64_t* out) const override {
    const auto base = static_cast<uint64_t>(base_->Int(m));
    const auto stride = static_cast<uint64_t>(stride_->Int(m));
    for (int i = 0; i < lanes; ++i) out[i] = wrap_(base + stride * static_cast<uint64_t>(i));
  }

 private:
  NodePtr base_, stride_;
  Wrap wrap_;
};

class BroadcastOf : public Node {
 public:
  BroadcastOf(NodePtr a, int lanes) : Node(lanes), a_(std::move(a)) {}
  void Ints(Machine& m, int64_t* out) const override { std::fill_n(out, lanes, a_->Int(m)); }
  void Reals(Machine& m, double* out) const override { std::fill_n(out, lanes, a_->Real(m)); }

 private:
  NodePtr a_;
};

class LoadOf : public Node {
 public:
  LoadOf(Access access, int lanes) : Node(lanes), access_(std::move(access)) {}
  int64_t Int(Machine& m) const override {
    int64_t offset;
    if (!access_.Resolve(m, &offset)) return 0;
    BufferState& b = m.buffers[access_.slot];
    return CheckRead(m, b, offset, access_.track, access_.loc) ? b.Int(offset) : 0;
  }
  double Real(Machine& m) const override {
    int64_t offset;
    if (!access_.Resolve(m, &offset)) return 0;
    BufferState& b = m.buffers[access_.slot];
    return CheckRead(m, b, offset, access_.track, access_.loc) ? b.Real(offset) : 0;
  }
  void Ints(Machine& m, int64_t* out) const override {
    Lanes(m, out, [](const BufferState& b, int64_t at) { return b.Int(at); });
  }
  void Reals(Machine& m, double* out) const override {
    Lanes(m, out, [](const BufferState& b, int64_t at) { return b.Real(at); });
  }

 private:
  template <typename T, typename F>
  void Lanes(Machine& m, T* out, F get) const {
    int64_t offsets[kMaxLanes];
    bool active[kMaxLanes];
    access_.ResolveLanes(m, lanes, offsets, active);
    BufferState& b = m.buffers[access_.slot];
    for (int i = 0; i < lanes; ++i) {
      const bool read = active[i] && CheckRead(m, b, offsets[i], access_.track, access_.loc);
      out[i] = read ? get(b, offsets[i]) : T{0};
    }
  }
  Access access_;
};

class FmaOf : public Node {
 public:
  FmaOf(NodePtr a, NodePtr b, NodePtr c, Rounding rounding)
      : Node(a->lanes), a_(std::move(a)), b_(std::move(b)), c_(std::move(c)), rounding_(rounding) {}
  double Real(Machine& m) const override {
    const double a = a_->Real(m), b = b_->Real(m);
    return Fused(a, b, c_->Real(m));
  }
  void Reals(Machine& m, double* out) const override {
    double b[kMaxLanes], c[kMaxLanes];
    a_->Reals(m, out);
    b_->Reals(m, b);
    c_->Reals(m, c);
    for (int i = 0; i < lanes; ++i) out[i] = Fused(out[i], b[i], c[i]);
  }

 private:
  double Fused(double a, double b, double c) const {
    if (rounding_ == Rounding::kF32) {
      return std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c));
    }
    return Round(std::fma(a, b, c), rounding_);
  }
  NodePtr a_, b_, c_;
  const Rounding rounding_;
};

template <typename T>
class ReduceLanesOf : public Node {
 public:
  ReduceLanesOf(NodePtr a, Intrinsic op, DType type, Rounding rounding)
      : a_(std::move(a)), op_(op), type_(type), rounding_(rounding) {}
  int64_t Int(Machine& m) const override { return static_cast<int64_t>(Total(m)); }
  double Real(Machine& m) const override { return static_cast<double>(Total(m)); }

 private:
  T Total(Machine& m) const {
    T lane[kMaxLanes];
    Values<T>(*a_, m, lane);
    T total = lane[0];
    for (int i = 1; i < a_->lanes; ++i) total = Join(total, lane[i]);
    if constexpr (std::is_same_v<T, double>) return Round(total, rounding_);
    return total;
  }
  T Join(T x, T y) const {
    const BinaryOp op = op_ == Intrinsic::kReduceAdd   ? BinaryOp::kAdd
                        : op_ == Intrinsic::kReduceMax ? BinaryOp::kMax
                        : op_ == Intrinsic::kReduceMin ? BinaryOp::kMin
                        : op_ == Intrinsic::kReduceAnd ? BinaryOp::kBitAnd
                        : op_ == Intrinsic::kReduceOr  ? BinaryOp::kBitOr
                                                       : BinaryOp::kBitXor;
    if constexpr (std::is_same_v<T, double>) {
      return *ir::EvalFloat(op, x, y);
    } else {
      return *ir::EvalInt(op, x, y, type_);
    }
  }
  NodePtr a_;
  const Intrinsic op_;
  const DType type_;
  const Rounding rounding_;
};

}  // namespace

NodePtr Compiler::Expr(const ir::Expr& e, SourceLoc loc) {
  if (e.dtype().lanes > kMaxLanes) {
    Error(absl::UnimplementedError(absl::StrCat("a vector of ", e.dtype().lanes,
                                                " lanes; the interpreter takes ", kMaxLanes)));
    return std::make_unique<Constant<int64_t>>(0);
  }
  switch (e.kind()) {
    case ir::ExprKind::kIntImm:
      return std::make_unique<Constant<int64_t>>(e.As<ir::IntImm>()->value);
    case ir::ExprKind::kFloatImm:
      return std::make_unique<Constant<double>>(e.As<ir::FloatImm>()->value);
    case ir::ExprKind::kVar:
      if (IsReal(e.dtype())) return std::make_unique<RealVar>(SlotOf(e), e.dtype().lanes);
      return std::make_unique<IntVar>(SlotOf(e), e.dtype().lanes);
    case ir::ExprKind::kUnary:
      return UnaryNode(e, loc);
    case ir::ExprKind::kBinary:
      return BinaryNode(e, loc);
    case ir::ExprKind::kSelect:
      return SelectNode(e, loc);
    case ir::ExprKind::kCast:
      return CastNode(e, loc);
    case ir::ExprKind::kLoad:
      return LoadNode(e, loc);
    case ir::ExprKind::kCall:
      return CallNode(e, loc);
    case ir::ExprKind::kRamp: {
      const auto* x = e.As<ir::Ramp>();
      return std::make_unique<RampOf>(Expr(x->base, loc), Expr(x->stride, loc), e.dtype());
    }
    case ir::ExprKind::kBroadcast:
      return std::make_unique<BroadcastOf>(Expr(e.As<ir::Broadcast>()->a, loc), e.dtype().lanes);
  }
  return nullptr;
}

std::vector<NodePtr> Compiler::Exprs(const std::vector<ir::Expr>& list, SourceLoc loc) {
  std::vector<NodePtr> nodes;
  for (const ir::Expr& e : list) nodes.push_back(Expr(e, loc));
  return nodes;
}

NodePtr Compiler::UnaryNode(const ir::Expr& e, SourceLoc loc) {
  const auto* x = e.As<ir::Unary>();
  NodePtr a = Expr(x->a, loc);
  if (IsReal(e.dtype())) {
    return Make1<double, double>(std::move(a), [](Machine&, double v) { return -v; });
  }
  const Wrap wrap(e.dtype());
  switch (x->op) {
    case UnaryOp::kNot:
      return Make1<int64_t, int64_t>(std::move(a),
                                     [](Machine&, int64_t v) { return int64_t{v == 0}; });
    case UnaryOp::kNeg:
      return Make1<int64_t, int64_t>(
          std::move(a), [wrap](Machine&, int64_t v) { return wrap(0 - static_cast<uint64_t>(v)); });
    case UnaryOp::kBitNot:
      return Make1<int64_t, int64_t>(
          std::move(a), [wrap](Machine&, int64_t v) { return wrap(~static_cast<uint64_t>(v)); });
  }
  return nullptr;
}

NodePtr Compiler::BinaryNode(const ir::Expr& e, SourceLoc loc) {
  const auto* x = e.As<ir::Binary>();
  const DType type = x->a.dtype().element();
  NodePtr a = Expr(x->a, loc), b = Expr(x->b, loc);
  if (IsReal(type)) return RealBinary(x->op, std::move(a), std::move(b), RoundingFor(type));
  return IntBinary(x->op, std::move(a), std::move(b), type, loc);
}

NodePtr Compiler::SelectNode(const ir::Expr& e, SourceLoc loc) {
  const auto* x = e.As<ir::Select>();
  NodePtr c = Expr(x->condition, loc), a = Expr(x->a, loc), b = Expr(x->b, loc);
  if (IsReal(e.dtype())) {
    return std::make_unique<SelectOf<double>>(std::move(c), std::move(a), std::move(b));
  }
  return std::make_unique<SelectOf<int64_t>>(std::move(c), std::move(a), std::move(b));
}

NodePtr Compiler::CastNode(const ir::Expr& e, SourceLoc loc) {
  const auto* x = e.As<ir::Cast>();
  const DType from = x->a.dtype().element(), to = e.dtype().element();
  const Rounding rounding = RoundingFor(to);
  NodePtr a = Expr(x->a, loc);
  if (IsReal(from) && IsReal(to)) {
    if (rounding == Rounding::kNone) return a;
    return Make1<double, double>(std::move(a),
                                 [rounding](Machine&, double v) { return Round(v, rounding); });
  }
  if (IsReal(from)) {
    return Make1<double, int64_t>(std::move(a),
                                  [to](Machine&, double v) { return ir::FloatToInt(v, to); });
  }
  if (IsReal(to)) {
    const DType exact = options_.mode == Mode::kDouble ? kFloat64 : to;
    return Make1<int64_t, double>(std::move(a), [from, exact](Machine&, int64_t v) {
      return ir::IntToFloat(v, from, exact);
    });
  }
  return Make1<int64_t, int64_t>(std::move(a),
                                 [to](Machine&, int64_t v) { return ir::WrapInt(v, to); });
}

NodePtr Compiler::LoadNode(const ir::Expr& e, SourceLoc loc) {
  const auto* x = e.As<ir::Load>();
  return std::make_unique<LoadOf>(MakeAccess(x->buffer, x->indices, x->predicate, loc),
                                  e.dtype().lanes);
}

NodePtr Compiler::ReduceLanesNode(const ir::Expr& e, SourceLoc loc) {
  const auto* x = e.As<ir::Call>();
  const DType type = e.dtype().element();
  NodePtr a = Expr(x->args[0], loc);
  if (IsReal(type)) {
    return std::make_unique<ReduceLanesOf<double>>(std::move(a), x->op, type, RoundingFor(type));
  }
  return std::make_unique<ReduceLanesOf<int64_t>>(std::move(a), x->op, type, Rounding::kNone);
}

NodePtr Compiler::ReinterpretNode(const ir::Expr& e, SourceLoc loc) {
  const auto* x = e.As<ir::Call>();
  const DType from = x->args[0].dtype().element(), to = e.dtype().element();
  NodePtr a = Expr(x->args[0], loc);
  if (IsReal(from)) {
    const auto read = [from, to](double v) { return ir::Reinterpret({0, v}, from, to); };
    if (IsReal(to)) {
      return Make1<double, double>(std::move(a),
                                   [read](Machine&, double v) { return read(v).real; });
    }
    return Make1<double, int64_t>(std::move(a),
                                  [read](Machine&, double v) { return read(v).integer; });
  }
  const auto read = [from, to](int64_t v) { return ir::Reinterpret({v, 0}, from, to); };
  if (IsReal(to)) {
    return Make1<int64_t, double>(std::move(a),
                                  [read](Machine&, int64_t v) { return read(v).real; });
  }
  return Make1<int64_t, int64_t>(std::move(a),
                                 [read](Machine&, int64_t v) { return read(v).integer; });
}

NodePtr Compiler::CallNode(const ir::Expr& e, SourceLoc loc) {
  const auto* x = e.As<ir::Call>();
  const DType type = e.dtype().element();
  const Intrinsic op = x->op;
  const Rounding rounding = RoundingFor(type);
  const bool of_two = ir::EvalBinaryIntrinsic(op, 1, 1).has_value();
  const size_t arity = op == Intrinsic::kFma ? 3 : of_two ? 2 : 1;
  if (x->args.size() != arity) {
    Error(absl::InternalError(
        absl::StrCat(ir::Name(op), " with ", x->args.size(), " arguments: ", ir::ToString(e))));
    return std::make_unique<Constant<int64_t>>(0);
  }
  const DType from = x->args[0].dtype().element();
  switch (op) {
    case Intrinsic::kPrefetch:
      return std::make_unique<Constant<int64_t>>(0);
    case Intrinsic::kReduceAdd:
    case Intrinsic::kReduceMax:
    case Intrinsic::kReduceMin:
    case Intrinsic::kReduceAnd:
    case Intrinsic::kReduceOr:
    case Intrinsic::kReduceXor:
      return ReduceLanesNode(e, loc);
    case Intrinsic::kFma:
      if (!IsReal(type)) break;
      return std::make_unique<FmaOf>(Expr(x->args[0], loc), Expr(x->args[1], loc),
                                     Expr(x->args[2], loc), rounding);
    case Intrinsic::kReinterpret:
      return ReinterpretNode(e, loc);
    default:
      break;
  }
  if (of_two && IsReal(type)) {
    return Rounded2(Expr(x->args[0], loc), Expr(x->args[1], loc), rounding,
                    [op](double a, double b) { return *ir::EvalBinaryIntrinsic(op, a, b); });
  }
  NodePtr a = Expr(x->args[0], loc);
  if (!IsReal(type) && !IsReal(from) && ir::EvalIntIntrinsic(op, 1, type)) {
    return Make1<int64_t, int64_t>(std::move(a), [op, type](Machine&, int64_t v) {
      return *ir::EvalIntIntrinsic(op, v, type);
    });
  }
  if (!IsReal(from) || !ir::EvalUnaryIntrinsic(op, 1.0)) {
    Error(absl::UnimplementedError(
        absl::StrCat("the interpreter has no ", ir::Name(op), " of ", from.ToString())));
    return a;
  }
  if (!IsReal(type)) {
    return Make1<double, int64_t>(std::move(a), [op](Machine&, double v) {
      return static_cast<int64_t>(*ir::EvalUnaryIntrinsic(op, v));
    });
  }
  return Make1<double, double>(std::move(a), [op, rounding](Machine&, double v) {
    return Round(*ir::EvalUnaryIntrinsic(op, v), rounding);
  });
}

Access Compiler::MakeAccess(const ir::Buffer& b, const std::vector<ir::Expr>& indices,
                            const ir::Expr& predicate, SourceLoc loc) {
  Access access;
  access.slot = SlotOf(b);
  access.indices = Exprs(indices, loc);
  if (predicate.defined()) access.predicate = Expr(predicate, loc);
  access.clip = options_.clip_global && b->scope == ir::Scope::kGlobal;
  access.track = Tracked(b);
  access.loc = loc;
  return access;
}

Box Compiler::MakeBox(const ir::Region& region, SourceLoc loc) {
  Box box;
  box.slot = SlotOf(region.buffer);
  box.track = Tracked(region.buffer);
  for (const ir::Range& range : region.ranges) {
    box.mins.push_back(Expr(range.min, loc));
    box.extents.push_back(Expr(range.extent, loc));
  }
  return box;
}

}  // namespace kiln::interp
