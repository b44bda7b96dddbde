#include "tests/property/roofline/counter.h"

#include <functional>
#include <set>
#include <unordered_map>

#include "compiler/base/status.h"

namespace kiln::roofline {
namespace {

using ir::BinaryOp;

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

class Runner {
 public:
  Counts counts;

  int64_t Eval(const ir::Expr& e) {
    if (const auto* i = e.As<ir::IntImm>()) return i->value;
    if (e.As<ir::Var>() != nullptr) return env_.at(e.get());
    if (const auto* c = e.As<ir::Cast>()) return Eval(c->a);
    if (const auto* s = e.As<ir::Select>()) return Eval(s->condition) ? Eval(s->a) : Eval(s->b);
    if (const auto* u = e.As<ir::Unary>()) {
      return u->op == ir::UnaryOp::kNeg ? -Eval(u->a) : !Eval(u->a);
    }
    const auto* b = e.As<ir::Binary>();
    KILN_CHECK(b != nullptr);
    const int64_t x = Eval(b->a), y = Eval(b->b);
    switch (b->op) {
      case BinaryOp::kAdd:
        return x + y;
      case BinaryOp::kSub:
        return x - y;
      case BinaryOp::kMul:
        return x * y;
      case BinaryOp::kFloorDiv:
        return FloorDivide(x, y);
      case BinaryOp::kFloorMod:
        return x - y * FloorDivide(x, y);
      case BinaryOp::kMin:
        return std::min(x, y);
      case BinaryOp::kMax:
        return std::max(x, y);
      case BinaryOp::kLt:
        return x < y;
      case BinaryOp::kLe:
        return x <= y;
      case BinaryOp::kGt:
        return x > y;
      case BinaryOp::kGe:
        return x >= y;
      case BinaryOp::kEq:
        return x == y;
      case BinaryOp::kNe:
        return x != y;
      case BinaryOp::kAnd:
        return x && y;
      case BinaryOp::kOr:
        return x || y;
      default:
        KILN_CHECK(false);
    }
    return 0;
  }

  void Run(const ir::Stmt& s) {
    if (!s.defined()) return;
    if (const auto* seq = s.As<ir::Seq>()) {
      for (const ir::Stmt& child : seq->stmts) Run(child);
    } else if (const auto* bind = s.As<ir::Bind>()) {
      env_[bind->var.get()] = Eval(bind->value);
    } else if (const auto* launch = s.As<ir::Launch>()) {
      ForAll(launch->grid, [&] {
        ++counts.blocks;
        first_block_ = counts.blocks == 1;
        Run(launch->body);
      });
    } else if (const auto* alloc = s.As<ir::Alloc>()) {
      Allocate(*alloc);
    } else if (const auto* loop = s.As<ir::For>()) {
      const bool parallel = loop->loop == ir::ForKind::kParallel;
      if (parallel) {
        ++counts.loops;
        Elements(loop->body, loop->axes);
      } else {
        ForAll(loop->axes, [&] { Run(loop->body); });
      }
    } else if (const auto* branch = s.As<ir::If>()) {
      Run(Eval(branch->condition) ? branch->then_case : branch->else_case);
    } else if (const auto* copy = s.As<ir::Copy>()) {
      ++counts.copies;
      Touch(copy->src, false);
      Touch(copy->dst, true);
    } else if (const auto* gemm = s.As<ir::Gemm>()) {
      ++counts.gemms;
      const auto extent = [&](const ir::Region& r, int i) {
        return Eval(r.ranges[r.ranges.size() - 2 + i].extent);
      };
      const int64_t m = extent(gemm->a, gemm->trans_a ? 1 : 0);
      const int64_t k = extent(gemm->a, gemm->trans_a ? 0 : 1);
      const int64_t n = extent(gemm->b, gemm->trans_b ? 0 : 1);
      counts.gemm_flops +=
          2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    } else if (const auto* fill = s.As<ir::Fill>()) {
      ++counts.fills;
      Touch(fill->dst, true);
    } else if (const auto* reduce = s.As<ir::Reduce>()) {
      ++counts.reduces;
      Touch(reduce->src, false);
      Touch(reduce->dst, true);
    } else if (s.kind() == ir::StmtKind::kStore) {
      ++counts.loops;
      Elements(s, {});
    }
  }

 private:
  void ForAll(const std::vector<ir::Axis>& axes, const std::function<void()>& body, size_t at = 0) {
    if (at == axes.size()) return body();
    const int64_t min = Eval(axes[at].min), extent = Eval(axes[at].extent);
    for (int64_t v = min; v < min + extent; ++v) {
      env_[axes[at].var.get()] = v;
      ForAll(axes, body, at + 1);
    }
  }

  void Allocate(const ir::Alloc& alloc) {
    const ir::Scope scope = alloc.buffer->scope;
    if (!first_block_ || scope == ir::Scope::kGlobal || scope == ir::Scope::kVar) return;
    int64_t bytes = alloc.buffer->dtype.bytes();
    for (const ir::Expr& e : alloc.buffer->shape) bytes *= Eval(e);
    counts.onchip_bytes += bytes;
  }

  // The flat index, or -1 outside.
  int64_t Flat(const ir::Buffer& b, const std::vector<int64_t>& at) {
    int64_t flat = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      const int64_t size = Eval(b->shape[d]);
      if (at[d] < 0 || at[d] >= size) return -1;
      flat = flat * size + at[d];
    }
    return flat;
  }

  void Count(const ir::Buffer& b, const std::set<int64_t>& elements, bool write) {
    const double bytes =
        static_cast<double>(elements.size()) * static_cast<double>(b->dtype.bytes());
    (write ? counts.written : counts.read)[b->name] += bytes;
    std::set<int64_t>& all = all_[b->name];
    all.insert(elements.begin(), elements.end());
    counts.touched[b->name] = static_cast<int64_t>(all.size());
  }

  void Touch(const ir::Region& r, bool write) {
    if (r.buffer->scope != ir::Scope::kGlobal) return;
    std::vector<int64_t> at(r.ranges.size());
    std::set<int64_t> elements;
    const std::function<void(size_t)> walk = [&](size_t d) {
      if (d == at.size()) {
        if (const int64_t flat = Flat(r.buffer, at); flat >= 0) elements.insert(flat);
        return;
      }
      const int64_t min = Eval(r.ranges[d].min), extent = Eval(r.ranges[d].extent);
      for (int64_t i = 0; i < extent; ++i) {
        at[d] = min + i;
        walk(d + 1);
      }
    };
    walk(0);
    Count(r.buffer, elements, write);
  }

  // Distinct elements of each reference of the body over one execution of the loop.
  using Touched = std::map<std::pair<const void*, bool>, std::pair<ir::Buffer, std::set<int64_t>>>;

  void Reference(const ir::Buffer& b, const std::vector<ir::Expr>& indices, bool write,
                 const void* site, Touched& touched) {
    for (const ir::Expr& i : indices) Loads(i, touched);
    if (b->scope != ir::Scope::kGlobal) return;
    std::vector<int64_t> at;
    for (const ir::Expr& i : indices) at.push_back(Eval(i));
    auto& entry = touched[{site, write}];
    entry.first = b;
    if (const int64_t flat = Flat(b, at); flat >= 0) entry.second.insert(flat);
  }

  void Loads(const ir::Expr& e, Touched& touched) {
    if (!e.defined()) return;
    if (const auto* l = e.As<ir::Load>())
      return Reference(l->buffer, l->indices, false, l, touched);
    if (const auto* u = e.As<ir::Unary>()) return Loads(u->a, touched);
    if (const auto* c = e.As<ir::Cast>()) return Loads(c->a, touched);
    if (const auto* b = e.As<ir::Binary>()) {
      Loads(b->a, touched);
      Loads(b->b, touched);
    } else if (const auto* s = e.As<ir::Select>()) {
      for (const ir::Expr& x : {s->condition, s->a, s->b}) Loads(x, touched);
    } else if (const auto* call = e.As<ir::Call>()) {
      for (const ir::Expr& x : call->args) Loads(x, touched);
    }
  }

  void Body(const ir::Stmt& s, Touched& touched) {
    if (!s.defined()) return;
    if (const auto* seq = s.As<ir::Seq>()) {
      for (const ir::Stmt& child : seq->stmts) Body(child, touched);
    } else if (const auto* store = s.As<ir::Store>()) {
      Loads(store->value, touched);
      Reference(store->buffer, store->indices, true, store, touched);
    } else if (const auto* bind = s.As<ir::Bind>()) {
      Loads(bind->value, touched);
      if (bind->value.dtype().is_int()) env_[bind->var.get()] = Eval(bind->value);
    } else if (const auto* branch = s.As<ir::If>()) {
      Body(branch->then_case, touched);
      Body(branch->else_case, touched);
    } else if (const auto* loop = s.As<ir::For>()) {
      ForAll(loop->axes, [&] { Body(loop->body, touched); });
    } else {
      KILN_CHECK(false);
    }
  }

  void Elements(const ir::Stmt& body, const std::vector<ir::Axis>& axes) {
    Touched touched;
    ForAll(axes, [&] { Body(body, touched); });
    for (const auto& [site, entry] : touched) Count(entry.first, entry.second, site.second);
  }

  std::unordered_map<const ir::ExprNode*, int64_t> env_;
  std::map<std::string, std::set<int64_t>> all_;
  bool first_block_ = true;
};

}  // namespace

Counts CountByRunning(const ir::Program& program) {
  Runner runner;
  runner.Run(program.body);
  return std::move(runner.counts);
}

}  // namespace kiln::roofline
