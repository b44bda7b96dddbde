#include "compiler/passes/compare_quotients.h"

#include "compiler/ir/linear.h"
#include "compiler/ir/scalar.h"
#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;

bool IsPowerOfTwo(int64_t n) { return (n & (n - 1)) == 0; }

class QuotientComparer : public FactsMutator {
 protected:
  Expr VisitExpr(const Expr& e) override {
    const Expr compared = Compared(e);
    return RebuildExpr(compared.defined() ? compared : e);
  }

 private:
  Expr Compared(const Expr& e) const {
    const auto* x = e.As<ir::Binary>();
    if (x == nullptr || !ir::IsIndex(e.dtype())) return {};
    const bool quotient = x->op == ir::BinaryOp::kFloorDiv;
    if (!quotient && x->op != ir::BinaryOp::kFloorMod) return {};
    const int64_t divisor = ir::ConstInt(x->b).value_or(0);
    if (divisor < 2 || IsPowerOfTwo(divisor)) return {};
    const auto bounds = facts_.BoundsOf(x->a);
    if (!bounds) return {};
    const int64_t low = ir::FloorDivide(bounds->min, divisor);
    if (ir::FloorDivide(bounds->max, divisor) != low + 1) return {};
    const auto number = [&](int64_t value) { return ir::MakeInt(value, e.dtype()); };
    const Expr high = x->a >= number((low + 1) * divisor);
    if (quotient) return MakeSelect(high, number(low + 1), number(low));
    return x->a - MakeSelect(high, number((low + 1) * divisor), number(low * divisor));
  }
};

}  // namespace

absl::StatusOr<ir::Program> CompareQuotients(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = QuotientComparer().Mutate(program.body);
  return out;
}

}  // namespace kiln::passes
