#include "compiler/passes/divide_sizes.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

constexpr int64_t kMostDivisor = int64_t{1} << 20;

using Divisors = std::unordered_map<const ir::ExprNode*, int64_t>;

// What a condition says of the divisors of sizes.
void Read(const Expr& condition, Divisors* divisors) {
  const auto* binary = condition.As<ir::Binary>();
  if (binary == nullptr) return;
  if (binary->op == ir::BinaryOp::kAnd) {
    Read(binary->a, divisors);
    Read(binary->b, divisors);
    return;
  }
  const auto* rest = binary->a.As<ir::Binary>();
  if (binary->op != ir::BinaryOp::kEq || !ir::IsConst(binary->b, 0) || rest == nullptr ||
      rest->op != ir::BinaryOp::kFloorMod) {
    return;
  }
  const auto divisor = ir::ConstInt(rest->b);
  if (!divisor || *divisor < 2 || *divisor > kMostDivisor) return;
  const ir::LinearForm form = ir::Linearize(rest->a);
  if (form.terms.size() != 1 || form.terms[0].first.As<ir::Var>() == nullptr) return;
  // a K = -b mod c: with g = gcd(a, c), which then divides b too, K is known modulo c / g.
  const int64_t known = *divisor / std::gcd(*divisor, form.terms[0].second);
  if (form.constant % *divisor != 0) return;
  int64_t& all = (*divisors)[form.terms[0].first.get()];
  all = all == 0 ? known : std::lcm(all, known);
}

class Sizes {
 public:
  Sizes(const std::vector<Expr>& dims, const Divisors& divisors) {
    for (const Expr& dim : dims) {
      const auto found = divisors.find(dim.get());
      if (found == divisors.end() || found->second < 2 || found->second > kMostDivisor) continue;
      const Expr divisor = MakeInt(found->second, dim.dtype());
      vars_[dim.get()] = FloorDiv(dim, divisor) * divisor;
    }
  }
  bool none() const { return vars_.empty(); }

  void Rename(const ir::Buffer& buffer) {
    ir::BufferNode node = *buffer;
    bool changed = false;
    for (std::vector<Expr>* part : {&node.shape, &node.strides}) {
      for (Expr& e : *part) {
        const Expr own = ir::Substitute(e, vars_);
        changed |= !own.same_as(e);
        e = own;
      }
    }
    if (changed) buffers_[buffer.get()] = std::make_shared<const ir::BufferNode>(node);
  }

  ir::Buffer Of(const ir::Buffer& buffer) const {
    const auto found = buffers_.find(buffer.get());
    return found == buffers_.end() ? buffer : found->second;
  }

  Stmt In(const Stmt& s) const { return ir::Substitute(s, vars_, buffers_); }

 private:
  ir::VarMap vars_;
  ir::BufferMap buffers_;
};

}  // namespace

absl::StatusOr<ir::Program> DivideSizes(const ir::Program& program, const PassContext&) {
  const auto* host = program.body.As<ir::Seq>();
  if (host == nullptr) return program;
  Divisors divisors;
  for (const Stmt& s : host->stmts) {
    if (const auto* check = s.As<ir::Assert>()) Read(check->condition, &divisors);
  }
  Sizes sizes(program.dims, divisors);
  if (sizes.none()) return program;
  ir::Program out = program;
  for (ir::Param& param : out.params) {
    if (param.kind != ir::Param::kTensor) continue;
    sizes.Rename(param.buffer);
    param.buffer = sizes.Of(param.buffer);
  }
  ir::Walk(program.body, [&](const Stmt& s) {
    if (const auto* alloc = s.As<ir::Alloc>()) sizes.Rename(alloc->buffer);
    return true;
  });
  std::vector<Stmt> stmts;
  for (const Stmt& s : host->stmts) {  // what is checked stays as it is
    stmts.push_back(s.As<ir::Assert>() != nullptr ? s : sizes.In(s));
  }
  out.body = ir::MakeStmt<ir::Seq>(program.body->loc, std::move(stmts));
  return out;
}

}  // namespace kiln::passes
