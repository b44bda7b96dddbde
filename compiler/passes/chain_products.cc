#include "compiler/passes/chain_products.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/product_loops.h"
#include "compiler/passes/tile_versions.h"
#include "compiler/passes/touched.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Instruction;
using ir::MakeInt;
using ir::Stmt;

// A product as the loop has it: what starts it, and how its end is awaited. One in tensor memory
// has a barrier of its own that tells its end; its result is loaded then.
struct Product {
  Stmt multiply;
  std::vector<Stmt> start;  // the product, and its commit
  std::vector<Stmt> wait;   // in tensor memory; wgmma counts groups

  bool InTensorMemory() const { return !wait.empty(); }
  const ir::Instruct& instruct() const { return *multiply.As<ir::Instruct>(); }
  ir::Region Sums() const { return instruct().regions[0]; }  // of wgmma
  // Statements in the loop.
  size_t size() const { return start.size() + std::max<size_t>(wait.size(), 1); }
};

bool Multiplies(const Stmt& s) {
  return Is(s, Instruction::kWgmma) || Is(s, Instruction::kTcgen05Mma);
}

std::optional<Product> ProductAt(const std::vector<Stmt>& stmts, size_t i) {
  const auto is = [&](size_t n, Instruction op) { return n < stmts.size() && Is(stmts[n], op); };
  if (is(i, Instruction::kWgmma) && is(i + 1, Instruction::kWgmmaWait)) {
    return Product{stmts[i], {stmts[i]}, {}};
  }
  if (!is(i, Instruction::kTcgen05Mma) || !is(i + 1, Instruction::kTcgen05Commit) ||
      !is(i + 2, Instruction::kBarrierWait) || i + 3 >= stmts.size() ||
      stmts[i + 3].kind() != ir::StmtKind::kStore) {  // of the next parity
    return std::nullopt;
  }
  return Product{stmts[i], {stmts[i], stmts[i + 1]}, {stmts[i + 2], stmts[i + 3]}};
}

// What loads a result from tensor memory, or stores it there, has these around.
bool IsAside(const Stmt& s) {
  return Is(s, Instruction::kTcgen05Fence) || Is(s, Instruction::kTcgen05Wait);
}

class Chain {
 public:
  explicit Chain(const Stmt& s) : loc_(s->loc), loop_(s.As<ir::For>()) {}

  bool Match() {
    if (loop_ == nullptr || loop_->loop != ir::ForKind::kSerial) return false;
    const std::vector<Stmt> stmts = Flatten(loop_->body);
    size_t i = 0;
    for (; i < stmts.size(); ++i) {
      if (stmts[i].kind() == ir::StmtKind::kBind) {
        binds_.push_back(stmts[i]);
      } else if (!Is(stmts[i], Instruction::kBarrierWait)) {
        break;
      }
      before_.push_back(stmts[i]);
    }
    const std::optional<Product> first = ProductAt(stmts, i);
    if (!first || !ir::IsConst(first->instruct().args[0], 1)) return false;
    first_ = *first;
    size_t work = i + first_.size();  // begins
    for (; work < stmts.size() && Is(stmts[work], Instruction::kBarrierArrive); ++work) {
      handed_.push_back(stmts[work]);
    }
    size_t at = work;  // of the second product
    while (at < stmts.size() && !Multiplies(stmts[at])) ++at;
    size_t end = at;  // of the work
    while (end > work && Is(stmts[end - 1], Instruction::kBarrierWait)) --end;
    awaited_.assign(stmts.begin() + static_cast<int64_t>(end),
                    stmts.begin() + static_cast<int64_t>(at));
    const std::optional<Product> second = ProductAt(stmts, at);
    if (!second || !Follows(*second)) return false;
    second_ = *second;
    size_t n = at + second_.size();
    for (; n < stmts.size() && Is(stmts[n], Instruction::kBarrierArrive); ++n) {
      arrivals_.push_back(stmts[n]);
    }
    for (; n < stmts.size(); ++n) {
      if (!IsAside(stmts[n]) && !Is(stmts[n], Instruction::kTcgen05Load)) return false;
      loads_.push_back(stmts[n]);
    }
    // The next step's first product waits for tiles while this step's are still held.
    const auto versions = [](const Stmt& arrival) { return HasVersions(arrival); };
    if (!std::all_of(handed_.begin(), handed_.end(), versions) ||
        !std::all_of(arrivals_.begin(), arrivals_.end(), versions) || DependsOnMemory()) {
      return false;
    }
    return Part(std::vector<Stmt>(stmts.begin() + static_cast<int64_t>(work),
                                  stmts.begin() + static_cast<int64_t>(end)));
  }

  Stmt Build() const {
    const ir::Axis& axis = loop_->axes[0];
    const DType type = axis.var.dtype();
    const Expr one = MakeInt(1, type);
    const Expr last = axis.min + axis.extent - one;
    // What is read after a wait comes after it in the same turn: assemblers look no further.
    const std::vector<Stmt> body = {Start(axis.var + one), Finish(axis.var), Await(first_, 1),
                                    At(handed_, axis, axis.var + one, loc_),
                                    Work(axis.var + one, /*first=*/false)};
    std::vector<Stmt> stmts = {Start(axis.min), Await(first_, 0), At(handed_, axis, axis.min, loc_),
                               Work(axis.min, /*first=*/true)};
    stmts.push_back(ir::MakeStmt<ir::For>(
        loc_, loop_->loop, std::vector<ir::Axis>{{axis.var, axis.min, axis.extent - one}},
        ir::MakeStmt<ir::Seq>(loc_, body)));
    stmts.push_back(Finish(last));
    stmts.push_back(Await(second_, 0));
    stmts.push_back(At(arrivals_, axis, last, loc_));
    stmts.insert(stmts.end(), loads_.begin(), loads_.end());
    const Stmt all = ir::MakeStmt<ir::Seq>(loc_, std::move(stmts));
    const Expr runs = axis.extent > MakeInt(0, axis.extent.dtype());
    return ir::IsConst(runs, 1) ? all : ir::MakeStmt<ir::If>(loc_, runs, all);
  }

 private:
  // Whether the product takes what the work leaves of the first one's result.
  bool Follows(const Product& second) const {
    if (second.InTensorMemory() != first_.InTensorMemory()) return false;
    if (second.InTensorMemory()) {  // columns of its own
      return !ir::Same(second.instruct().args[1], first_.instruct().args[1]);
    }
    const auto from_registers = [](const Product& p) {
      return p.instruct().regions[1].buffer->scope == ir::Scope::kRegister;
    };
    return from_registers(second) && !from_registers(first_);
  }

  // Waits until the product is over, be `left` that were started later.
  Stmt Await(const Product& product, int64_t left, bool late = false) const {
    if (product.InTensorMemory()) return ir::MakeSeq(product.wait, loc_);
    return WaitForProducts(loc_, {product.Sums()}, left, late);
  }

  // What is done at other times than before must not be told by memory that the loop may change.
  bool DependsOnMemory() const {
    const ir::Axis& axis = loop_->axes[0];
    bool depends = ReadsMemory(axis.min) || ReadsMemory(axis.extent);
    for (const std::vector<Stmt>* stmts : {&before_, &handed_, &awaited_, &arrivals_}) {
      for (const Stmt& s : *stmts) depends |= ReadsMemory(s);
    }
    return depends || ReadsMemory(first_.multiply) || ReadsMemory(second_.multiply);
  }

  // What may run beside the second product of the step before, and what comes after it.
  bool Part(const std::vector<Stmt>& work) {
    std::vector<Stmt> own = loads_;
    own.push_back(second_.multiply);
    const Touched second = TouchedBy(ir::MakeSeq(std::move(own), loc_));
    Touched late = {second.reads, second.writes};
    std::vector<Stmt>* last = &early_;
    for (const Stmt& s : work) {
      const Touched own = TouchedBy(s);
      // Tiles that come and go in its midst, names for what is only known later: not this loop.
      if (Is(s, Instruction::kBarrierWait) || Is(s, Instruction::kBarrierArrive)) return false;
      const bool declares = s.kind() == ir::StmtKind::kBind || s.kind() == ir::StmtKind::kAlloc;
      if (declares && Meet(own.reads, late.writes)) return false;
      const bool meets = Meet(own.reads, late.writes) || Meet(own.writes, late.reads) ||
                         Meet(own.writes, late.writes);
      if (IsAside(s) ? last == &late_ : !declares && meets) {
        late.reads.insert(own.reads.begin(), own.reads.end());
        late.writes.insert(own.writes.begin(), own.writes.end());
        late_.push_back(s);
        last = &late_;
      } else {
        early_.push_back(s);
        if (!declares) last = &early_;
      }
    }
    if (first_.InTensorMemory()) return true;
    const ir::BufferNode* sums = first_.Sums().buffer.get();
    return second_.Sums().buffer.get() != sums && second.reads.count(sums) == 0;
  }

  // The first product of a step.
  Stmt Start(const Expr& step) const {
    std::vector<Stmt> stmts = before_;
    stmts.insert(stmts.end(), first_.start.begin(), first_.start.end());
    return At(stmts, loop_->axes[0], step, loc_);
  }

  // The second product of a step.
  Stmt Finish(const Expr& step) const {
    std::vector<Stmt> stmts = binds_;
    stmts.insert(stmts.end(), awaited_.begin(), awaited_.end());
    stmts.insert(stmts.end(), second_.start.begin(), second_.start.end());
    return At(stmts, loop_->axes[0], step, loc_);
  }

  // The work on its result; in its midst the second product of the step before ends.
  Stmt Work(const Expr& step, bool first) const {
    const ir::Axis& axis = loop_->axes[0];
    std::vector<Stmt> stmts = binds_;
    stmts.insert(stmts.end(), early_.begin(), early_.end());
    if (!first) {
      stmts.push_back(Await(second_, 0, /*late=*/true));
      stmts.push_back(At(arrivals_, axis, axis.var - MakeInt(1, axis.var.dtype()), loc_));
      stmts.insert(stmts.end(), loads_.begin(), loads_.end());
    }
    stmts.insert(stmts.end(), late_.begin(), late_.end());
    return At(stmts, axis, step, loc_);
  }

  const SourceLoc loc_;
  const ir::For* loop_;
  std::vector<Stmt> before_, binds_;  // waits for barriers, and names, before the first product
  Product first_, second_;
  std::vector<Stmt> handed_;   // back, once the first product is over
  std::vector<Stmt> awaited_;  // before the second one
  std::vector<Stmt> early_, late_, arrivals_;
  std::vector<Stmt> loads_;  // of the second one's result from tensor memory
};

}  // namespace

absl::StatusOr<ir::Program> ChainProducts(const ir::Program& program, const PassContext&) {
  if (ir::PassOption(program, "kiln.chain", 1) == 0) return program;
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [](const Stmt& s) -> Stmt {
    Chain chain(s);
    return chain.Match() ? chain.Build() : Stmt();
  });
  return out;
}

}  // namespace kiln::passes
