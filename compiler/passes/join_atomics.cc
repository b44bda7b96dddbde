#include "compiler/passes/join_atomics.h"

#include "absl/strings/str_cat.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/printer.h"
#include "compiler/passes/build.h"
#include "compiler/passes/neighbours.h"
#include "compiler/target/legality.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

// An addition to one element, and the condition around it.
struct Addition {
  const ir::Atomic* atomic = nullptr;
  Expr guard;
  std::vector<Expr> place;
};

// Atomic null: the statement is something else.
Addition AdditionOf(const Stmt& s) {
  Addition out;
  const Stmt* inner = &s;
  while (const auto* branch = inner->As<ir::If>()) {
    if (branch->else_case.defined()) return {};
    out.guard = ir::AndPredicate(out.guard, branch->condition);
    inner = &branch->then_case;
  }
  const auto* atomic = inner->As<ir::Atomic>();
  if (atomic == nullptr || atomic->op != ir::AtomicOp::kAdd || !atomic->value.defined() ||
      atomic->dst.buffer->scope != ir::Scope::kGlobal || atomic->way.previous ||
      atomic->way.order != ir::MemoryOrder::kRelaxed) {
    return {};
  }
  out.atomic = atomic;
  for (const ir::Range& range : atomic->dst.ranges) out.place.push_back(range.min);
  return out;
}

bool Reads(const Expr& e, const ir::Buffer& buffer) {
  bool reads = false;
  ir::Walk(e, [&](const Expr& x) {
    const auto* load = x.As<ir::Load>();
    reads |= load != nullptr && load->buffer == buffer;
    return !reads;
  });
  return reads;
}

class Join : public FactsMutator {
 public:
  Join(const ir::Program& program, const target::Arch& gpu) : program_(program), gpu_(gpu) {}

  absl::Status status;

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* seq = s.As<ir::Seq>()) return VisitSeq(s, *seq);
    if (const auto* atomic = s.As<ir::Atomic>()) return Alone(s, *atomic);
    return FactsMutator::VisitStmt(s);
  }

 private:
  // From the first statement on: as many additions as make one instruction.
  Stmt VisitSeq(const Stmt& s, const ir::Seq& seq) {
    std::vector<Stmt> joined = seq.stmts;
    bool changed = false;
    for (size_t i = 0; i < joined.size(); ++i) {
      const Addition first = AdditionOf(joined[i]);
      if (first.atomic == nullptr) continue;
      const DType type = first.atomic->dst.buffer->dtype;
      for (auto width = static_cast<size_t>(target::WidestAtomicAdd(gpu_, type)); width > 1;
           width /= 2) {
        const Stmt all = Together(joined, i, width);
        if (!all.defined()) continue;
        joined[i] = all;
        joined.erase(joined.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                     joined.begin() + static_cast<std::ptrdiff_t>(i + width));
        changed = true;
        break;
      }
    }
    if (!changed) return FactsMutator::VisitStmt(s);
    return FactsMutator::VisitStmt(ir::MakeStmt<ir::Seq>(s->loc, std::move(joined)));
  }

  // One instruction for `width` statements from the i-th on; undefined where there is none.
  Stmt Together(const std::vector<Stmt>& stmts, size_t i, size_t width) const {
    if (i + width > stmts.size()) return {};
    const auto lanes = static_cast<int64_t>(width);
    const Addition first = AdditionOf(stmts[i]);
    const ir::Buffer& buffer = first.atomic->dst.buffer;
    if (!LiesAt(buffer, first.place, lanes, facts_)) return {};
    Expr guard;
    std::vector<Expr> values;
    for (size_t lane = 0; lane < width; ++lane) {
      const Addition one = AdditionOf(stmts[i + lane]);
      if (one.atomic == nullptr || one.atomic->dst.buffer != buffer ||
          !Follows(first.place, one.place, static_cast<int64_t>(lane), facts_) ||
          Reads(one.atomic->value, buffer) || one.guard.defined() != first.guard.defined()) {
        return {};
      }
      values.push_back(one.atomic->value);
      if (!one.guard.defined()) continue;
      const Expr own = CoarseGuard(facts_.Simplify(one.guard), lanes, facts_);
      if (Reads(own, buffer) || (lane > 0 && !ir::Same(own, guard))) return {};
      guard = own;
    }
    const Stmt add = Add(stmts[i]->loc, buffer, first.place, std::move(values));
    return guard.defined() ? ir::MakeStmt<ir::If>(stmts[i]->loc, guard, add) : add;
  }

  static Stmt Add(SourceLoc loc, const ir::Buffer& buffer, const std::vector<Expr>& place,
                  std::vector<Expr> values) {
    return ir::MakeStmt<ir::Instruct>(
        loc, ir::Instruction::kGlobalAdd,
        std::vector<ir::Region>{RunFrom(buffer, place, values.size())}, std::move(values));
  }

  // What is no atomic operation of LLVM's, or is refused. LLVM's are by compare and swap where the
  // GPU has nothing for the type.
  Stmt Alone(const Stmt& s, const ir::Atomic& atomic) {
    const DType type = atomic.dst.buffer->dtype;
    if (type.bits >= 32) return s;
    if (type.bits < 8 || type.is_bool()) {
      status.Update(ir::ErrorAt(
          program_, s->loc, absl::StrCat("an atomic update of ", type.ToString()),
          "accumulate in a tensor of a type of 8 bits or more", absl::StatusCode::kUnimplemented));
      return s;
    }
    const Addition one = AdditionOf(s);
    if (one.atomic == nullptr || target::WidestAtomicAdd(gpu_, type) <= 1) return s;
    return Add(s->loc, atomic.dst.buffer, one.place, {atomic.value});
  }

  const ir::Program& program_;
  const target::Arch& gpu_;
};

}  // namespace

absl::StatusOr<ir::Program> JoinAtomics(const ir::Program& program, const PassContext& context) {
  Join join(program, GpuOf(context));
  ir::Program out = program;
  out.body = join.Mutate(program.body);
  KILN_RETURN_IF_ERROR(join.status);
  return out;
}

}  // namespace kiln::passes
