#include "compiler/passes/count_remainders.h"

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"
#include "compiler/layout/integers.h"
#include "compiler/passes/product_loops.h"
#include "compiler/passes/touched.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Instruction;
using ir::MakeInt;
using ir::Stmt;

// Beyond it is no version of a tile but arithmetic of the kernel's, which may wrap around.
constexpr int64_t kMost = 4096;

int64_t Remainder(int64_t a, int64_t n) { return (a % n + n) % n; }

bool WaitsForTiles(const ir::For& loop) {
  const std::vector<Stmt> stmts = Flatten(loop.body);
  return std::any_of(stmts.begin(), stmts.end(), [](const Stmt& s) {
    return Is(s, Instruction::kBarrierWait) || Is(s, Instruction::kAsyncWait);
  });
}

// One loop, whose inner loops are done.
class CountLoop : public ir::Mutator {
 public:
  explicit CountLoop(const ir::For& loop)
      : loop_(loop), axis_(loop.axes[0]), written_(TouchedBy(loop.body).writes) {
    moving_.insert(axis_.var.get());
    ir::Walk(loop.body, [&](const Stmt& s) {
      if (const auto* bind = s.As<ir::Bind>()) moving_.insert(bind->var.get());
      if (const auto* inner = s.As<ir::For>()) {
        for (const ir::Axis& axis : inner->axes) moving_.insert(axis.var.get());
      }
      return true;
    });
  }

  Stmt Run(const Stmt& s) {
    std::vector<Stmt> body = {Mutate(loop_.body)};
    if (counters_.empty()) return s;
    std::vector<Stmt> stmts;
    for (const Counter& c : counters_) {
      const Expr begin = ir::Substitute(c.counted, {{axis_.var.get(), axis_.min}});
      stmts.push_back(ir::MakeStmt<ir::Alloc>(s->loc, c.value, FloorMod(begin, Number(c.modulus))));
      body.push_back(ir::MakeStmt<ir::Store>(s->loc, c.value, First(),
                                             Around(c, Remainder(c.stride, c.modulus))));
    }
    stmts.push_back(ir::MakeStmt<ir::For>(s->loc, loop_.loop, loop_.axes,
                                          ir::MakeSeq(std::move(body), s->loc), loop_.num_stages,
                                          loop_.annotations));
    return ir::MakeSeq(std::move(stmts), s->loc);
  }

 protected:
  // Instructions and asynchronous copies say which tile they mean; where in a tensor is left alone.
  Stmt VisitStmt(const Stmt& s) override {
    if (s.kind() == ir::StmtKind::kInstruct) {
      counts_ = true;
      const Stmt out = RebuildStmt(s);
      counts_ = false;
      return out;
    }
    const auto* store = s.As<ir::Store>();
    if (store == nullptr || store->way != ir::StoreWay::kAsync) return RebuildStmt(s);
    counts_ = true;
    const std::vector<Expr> indices = MutateAll(store->indices);
    counts_ = false;
    return ir::MakeStmt<ir::Store>(s->loc, store->buffer, indices, store->value, store->predicate,
                                   store->way);
  }
  ir::Region MutateRegion(const ir::Region& r) override {
    const bool on_chip = r.buffer != nullptr && r.buffer->scope != ir::Scope::kGlobal;
    return on_chip ? Mutator::MutateRegion(r) : r;
  }
  Expr VisitExpr(const Expr& e) override {
    if (!counts_) return e;
    const Expr counted = Counted(e);
    return counted.defined() ? counted : RebuildExpr(e);
  }

 private:
  // `value` holds counted % modulus, of a sum that goes up by `stride` with the loop.
  struct Counter {
    Expr counted;  // without its constant
    int64_t stride, modulus;
    ir::Buffer value;
  };

  // What a counter says of x % n or of x // n % 2; undefined for all else.
  Expr Counted(const Expr& e) {
    const auto* mod = e.As<ir::Binary>();
    if (mod == nullptr || mod->op != ir::BinaryOp::kFloorMod || !e.dtype().is_int()) return {};
    const int64_t n = ir::ConstInt(mod->b).value_or(0);
    if (n < 2 || n > kMost) return {};
    const auto* div = mod->a.As<ir::Binary>();
    if (n == 2 && div != nullptr && div->op == ir::BinaryOp::kFloorDiv) {
      const int64_t half = ir::ConstInt(div->b).value_or(0);
      if (half < 2 || half > kMost || layout::IsPowerOfTwo(half)) return {};
      const Expr round = RemainderOf(div->a, 2 * half);
      if (!round.defined()) return {};
      return MakeSelect(round >= Number(half), Number(1), Number(0));
    }
    return layout::IsPowerOfTwo(n) ? Expr() : RemainderOf(mod->a, n);
  }

  Expr RemainderOf(const Expr& x, int64_t modulus) {
    ir::LinearForm form = ir::Linearize(x);
    const int64_t stride = form.CoefficientOf(axis_.var);
    if (stride == 0 || x.dtype() != axis_.var.dtype() || !StaysBut(form)) return {};
    const int64_t ahead = Remainder(std::exchange(form.constant, 0), modulus);
    const Expr counted = ir::FromLinear(form, x.dtype());
    auto counter = std::find_if(counters_.begin(), counters_.end(), [&](const Counter& c) {
      return c.modulus == modulus && Same(c.counted, counted);
    });
    if (counter == counters_.end()) {
      const ir::Buffer value = ir::MakeBuffer("count", x.dtype(), {MakeInt(1)}, ir::Scope::kVar);
      counter = counters_.insert(counters_.end(), {counted, stride, modulus, value});
    }
    return Around(*counter, ahead);
  }

  // Whether it is a sum of few variables, of which all but the loop's stay as they are in it.
  bool StaysBut(const ir::LinearForm& form) const {
    return std::all_of(form.terms.begin(), form.terms.end(), [&](const auto& term) {
      const Expr& e = term.first;
      const int64_t times = term.second;
      if (times > kMost || times < -kMost) return false;
      const auto* load = e.As<ir::Load>();
      const bool counts = load != nullptr && load->buffer->scope == ir::Scope::kVar &&
                          written_.count(load->buffer.get()) == 0;
      const bool named = e.kind() == ir::ExprKind::kVar && moving_.count(e.get()) == 0;
      return counts || named || e.same_as(axis_.var);
    });
  }

  // The counter's value so many steps further on, less than once around.
  Expr Around(const Counter& c, int64_t ahead) const {
    const Expr value = ir::MakeLoad(c.value, First());
    if (ahead == 0) return value;
    const Expr wraps = value >= Number(c.modulus - ahead);
    return MakeSelect(wraps, value - Number(c.modulus - ahead), value + Number(ahead));
  }

  static std::vector<Expr> First() { return {MakeInt(0)}; }
  Expr Number(int64_t n) const { return MakeInt(n, axis_.var.dtype()); }

  const ir::For& loop_;
  const ir::Axis& axis_;
  const Buffers written_;
  std::set<const ir::ExprNode*> moving_;  // names that mean something else in each step
  std::vector<Counter> counters_;
  bool counts_ = false;  // here
};

class CountLoops : public ir::Mutator {
 protected:
  Stmt VisitStmt(const Stmt& s) override {
    const Stmt inner = RebuildStmt(s);
    const auto* loop = inner.As<ir::For>();
    const bool counts = loop != nullptr && loop->loop == ir::ForKind::kSerial &&
                        WaitsForTiles(*loop) && !ir::HasJump(loop->body);
    return counts ? CountLoop(*loop).Run(inner) : inner;
  }
};

}  // namespace

absl::StatusOr<ir::Program> CountRemainders(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = CountLoops().Mutate(program.body);
  return out;
}

}  // namespace kiln::passes
