#include "compiler/passes/guard_accesses.h"

#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

class Guard : public FactsMutator {
 public:
  explicit Guard(bool trusting) : trusting_(trusting) {}

 protected:
  Expr VisitExpr(const Expr& e) override {
    const Expr rebuilt = RebuildExpr(e);
    const auto* load = rebuilt.As<ir::Load>();
    if (load == nullptr) return rebuilt;
    const Expr predicate = Predicate(load->buffer, load->indices);
    if (!predicate.defined()) return rebuilt;
    return ir::MakeLoad(load->buffer, load->indices, ir::AndPredicate(load->predicate, predicate));
  }

  Stmt VisitStmt(const Stmt& s) override {
    const Stmt rebuilt = FactsMutator::VisitStmt(s);
    if (const auto* store = rebuilt.As<ir::Store>()) {
      const Expr predicate = Predicate(store->buffer, store->indices);
      if (!predicate.defined()) return rebuilt;
      return ir::MakeStmt<ir::Store>(s->loc, store->buffer, store->indices, store->value,
                                     ir::AndPredicate(store->predicate, predicate));
    }
    const auto* atomic = rebuilt.As<ir::Atomic>();
    if (atomic == nullptr || !atomic->value.defined()) return rebuilt;
    const Expr predicate = Predicate(atomic->dst.buffer, RegionIndices(atomic->dst, {}, {}));
    return predicate.defined() ? ir::MakeStmt<ir::If>(s->loc, predicate, rebuilt) : rebuilt;
  }

 private:
  Expr Predicate(const ir::Buffer& buffer, const std::vector<Expr>& indices) const {
    return trusting_ ? Expr() : InsidePredicate(buffer, indices, facts_);
  }

  const bool trusting_;
};

}  // namespace

absl::StatusOr<ir::Program> GuardAccesses(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  const bool trusting = ir::PassOption(program, "tl.disable_safe_memory_legalize", 0) != 0;
  out.body = Guard(trusting).Mutate(program.body);
  return out;
}

}  // namespace kiln::passes
