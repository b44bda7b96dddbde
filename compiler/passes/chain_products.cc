#include "compiler/passes/chain_products.h"

#include <algorithm>

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
    if (!ProductAt(stmts, i, &first_)) return false;
    const auto* first = first_.As<ir::Instruct>();
    if (!ir::IsConst(first->args[0], 1) || ReadsRegisters(*first)) return false;
    size_t work = i + 2;  // begins
    for (; work < stmts.size() && Is(stmts[work], Instruction::kBarrierArrive); ++work) {
      handed_.push_back(stmts[work]);
    }
    size_t second = work;
    while (second < stmts.size() && !Is(stmts[second], Instruction::kWgmma)) ++second;
    size_t end = second;  // of the work
    while (end > work && Is(stmts[end - 1], Instruction::kBarrierWait)) --end;
    awaited_.assign(stmts.begin() + static_cast<int64_t>(end),
                    stmts.begin() + static_cast<int64_t>(second));
    if (!ProductAt(stmts, second, &second_) || !ReadsRegisters(*second_.As<ir::Instruct>())) {
      return false;
    }
    for (size_t n = second + 2; n < stmts.size(); ++n) {
      if (!Is(stmts[n], Instruction::kBarrierArrive)) return false;
      arrivals_.push_back(stmts[n]);
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
    const std::vector<Stmt> body = {
        Start(axis.var + one), Finish(axis.var), WaitForProducts(loc_, {Sums(first_)}, 1),
        At(handed_, axis, axis.var + one, loc_), Work(axis.var + one, /*first=*/false)};
    std::vector<Stmt> stmts = {Start(axis.min), WaitForProducts(loc_, {Sums(first_)}, 0),
                               At(handed_, axis, axis.min, loc_), Work(axis.min, /*first=*/true)};
    stmts.push_back(ir::MakeStmt<ir::For>(
        loc_, loop_->loop, std::vector<ir::Axis>{{axis.var, axis.min, axis.extent - one}},
        ir::MakeStmt<ir::Seq>(loc_, body)));
    stmts.push_back(Finish(last));
    stmts.push_back(WaitForProducts(loc_, {Sums(second_)}, 0));
    stmts.push_back(At(arrivals_, axis, last, loc_));
    const Stmt all = ir::MakeStmt<ir::Seq>(loc_, std::move(stmts));
    const Expr runs = axis.extent > MakeInt(0, axis.extent.dtype());
    return ir::IsConst(runs, 1) ? all : ir::MakeStmt<ir::If>(loc_, runs, all);
  }

 private:
  static bool ProductAt(const std::vector<Stmt>& stmts, size_t i, Stmt* product) {
    if (i + 1 >= stmts.size() || !Is(stmts[i], Instruction::kWgmma) ||
        !Is(stmts[i + 1], Instruction::kWgmmaWait)) {
      return false;
    }
    *product = stmts[i];
    return true;
  }
  static bool ReadsRegisters(const ir::Instruct& product) {
    return product.regions[1].buffer->scope == ir::Scope::kRegister;
  }
  static ir::Region Sums(const Stmt& product) { return product.As<ir::Instruct>()->regions[0]; }

  // What is done at other times than before must not be told by memory that the loop may change.
  bool DependsOnMemory() const {
    const ir::Axis& axis = loop_->axes[0];
    bool depends = ReadsMemory(axis.min) || ReadsMemory(axis.extent);
    for (const std::vector<Stmt>* stmts : {&before_, &handed_, &awaited_, &arrivals_}) {
      for (const Stmt& s : *stmts) depends |= ReadsMemory(s);
    }
    return depends || ReadsMemory(first_) || ReadsMemory(second_);
  }

  // What may run beside the second product of the step before, and what comes after it.
  bool Part(const std::vector<Stmt>& work) {
    const Stmt products = ir::MakeSeq({second_}, loc_);
    const Touched second = TouchedBy(products);
    Touched late = {second.reads, second.writes};
    const ir::BufferNode* sums = Sums(first_).buffer.get();
    for (const Stmt& s : work) {
      const Touched own = TouchedBy(s);
      // Tiles that come and go in its midst, names for what is only known later: not this loop.
      if (Is(s, Instruction::kBarrierWait) || Is(s, Instruction::kBarrierArrive)) return false;
      const bool declares = s.kind() == ir::StmtKind::kBind || s.kind() == ir::StmtKind::kAlloc;
      if (declares && Meet(own.reads, late.writes)) return false;
      if (!declares && (Meet(own.reads, late.writes) || Meet(own.writes, late.reads) ||
                        Meet(own.writes, late.writes))) {
        late.reads.insert(own.reads.begin(), own.reads.end());
        late.writes.insert(own.writes.begin(), own.writes.end());
        late_.push_back(s);
      } else {
        early_.push_back(s);
      }
    }
    return Sums(second_).buffer.get() != sums && second.reads.count(sums) == 0;
  }

  // The first product of a step.
  Stmt Start(const Expr& step) const {
    std::vector<Stmt> stmts = before_;
    stmts.push_back(first_);
    return At(stmts, loop_->axes[0], step, loc_);
  }

  // The second product of a step.
  Stmt Finish(const Expr& step) const {
    std::vector<Stmt> stmts = binds_;
    stmts.insert(stmts.end(), awaited_.begin(), awaited_.end());
    stmts.push_back(second_);
    return At(stmts, loop_->axes[0], step, loc_);
  }

  // The work on its result; in its midst the second product of the step before ends.
  Stmt Work(const Expr& step, bool first) const {
    const ir::Axis& axis = loop_->axes[0];
    std::vector<Stmt> stmts = binds_;
    stmts.insert(stmts.end(), early_.begin(), early_.end());
    if (!first) {
      stmts.push_back(WaitForProducts(loc_, {Sums(second_)}, 0, /*late=*/true));
      stmts.push_back(At(arrivals_, axis, axis.var - MakeInt(1, axis.var.dtype()), loc_));
    }
    stmts.insert(stmts.end(), late_.begin(), late_.end());
    return At(stmts, axis, step, loc_);
  }

  const SourceLoc loc_;
  const ir::For* loop_;
  std::vector<Stmt> before_, binds_;  // waits for barriers, and names, before the first product
  Stmt first_, second_;
  std::vector<Stmt> handed_;   // back, once the first product is over
  std::vector<Stmt> awaited_;  // before the second one
  std::vector<Stmt> early_, late_, arrivals_;
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
