#include "compiler/passes/compare_quotients.h"

#include "compiler/ir/linear.h"
#include "compiler/ir/visit.h"
#include "compiler/layout/integers.h"
#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;

// Of what a remainder is a comparison: as far below zero as half of an int32 goes.
constexpr int64_t kLeast = INT32_MIN / 2;

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
    const int64_t divisor = DivisorOf(*x);
    if (divisor == 0) return {};
    const auto bounds = facts_.BoundsOf(x->a);
    if (!bounds) return {};
    const int64_t low = ir::FloorDivide(bounds->min, divisor);
    if (ir::FloorDivide(bounds->max, divisor) != low + 1) return {};
    const auto number = [&](int64_t value) { return ir::MakeInt(value, e.dtype()); };
    const Expr high = x->a >= number((low + 1) * divisor);
    if (quotient) return MakeSelect(high, number(low + 1), number(low));
    // A remainder names its operand twice, and a multiple below it, which its type may not have.
    if (bounds->min < kLeast || HoldsRemainder(x->a)) return {};
    return x->a - MakeSelect(high, number((low + 1) * divisor), number(low * divisor));
  }

  static int64_t DivisorOf(const ir::Binary& x) {
    const int64_t divisor = ir::ConstInt(x.b).value_or(0);
    return divisor < 2 || divisor > -kLeast || layout::IsPowerOfTwo(divisor) ? 0 : divisor;
  }

  static bool HoldsRemainder(const Expr& e) {
    bool holds = false;
    ir::Walk(e, [&](const Expr& part) {
      const auto* x = part.As<ir::Binary>();
      holds |= x != nullptr && x->op == ir::BinaryOp::kFloorMod && DivisorOf(*x) != 0;
      return !holds;
    });
    return holds;
  }
};

}  // namespace

absl::StatusOr<ir::Program> CompareQuotients(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = QuotientComparer().Mutate(program.body);
  return out;
}

}  // namespace kiln::passes
