#include "tests/util/fused_products.h"

#include "compiler/ir/visit.h"

namespace kiln::testing {
namespace {

using ir::Expr;

class Fuse : public ir::Mutator {
 protected:
  Expr VisitExpr(const Expr& e) override {
    const Expr inner = ir::Mutator::VisitExpr(e);
    const auto* sum = inner.As<ir::Binary>();
    if (sum == nullptr || inner.dtype().element() != kFloat32) return inner;
    const bool minus = sum->op == ir::BinaryOp::kSub;
    if (!minus && sum->op != ir::BinaryOp::kAdd) return inner;
    if (const auto* left = Product(sum->a)) {
      return Fma(left->a, left->b, minus ? Negative(sum->b) : sum->b);
    }
    const auto* right = Product(sum->b);
    if (right == nullptr) return inner;
    return Fma(minus ? Negative(right->a) : right->a, right->b, sum->a);
  }

 private:
  static const ir::Binary* Product(const Expr& e) {
    const auto* b = e.As<ir::Binary>();
    return b != nullptr && b->op == ir::BinaryOp::kMul ? b : nullptr;
  }
  static Expr Negative(const Expr& e) { return ir::MakeConst(0, e.dtype()) - e; }
  static Expr Fma(const Expr& a, const Expr& b, const Expr& c) {
    return ir::MakeCall(a.dtype(), ir::Intrinsic::kFma, {a, b, c});
  }
};

}  // namespace

ir::Program FuseProducts(const ir::Program& program) {
  ir::Program out = program;
  out.body = Fuse().Mutate(program.body);
  return out;
}

}  // namespace kiln::testing
