#include "compiler/passes/partition_loops.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/build.h"
#include "compiler/passes/instruct_gemm.h"
#include "compiler/passes/partition_gemm.h"
#include "compiler/passes/partition_reduction.h"
#include "compiler/passes/partition_sums.h"
#include "compiler/passes/place_launch.h"
#include "compiler/passes/thread_level.h"
#include "compiler/passes/unroll_lanes.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;

// Stores of one thread in one branch: LLVM's vectorizer of loads takes the square of a block's
// length.
constexpr size_t kMostInTurn = 512;

class Partition : public ir::Mutator {
 public:
  Partition(const ir::Program& program, const ir::Launch& launch, const LayoutProblem& problem,
            const LayoutSolution& solution, bool instruct)
      : program_(program),
        problem_(problem),
        level_(problem, solution),
        sums_(launch, &level_),
        instruct_(instruct) {
    for (size_t f = 0; f < problem.fragments.size(); ++f) {
      fragments_[problem.fragments[f].buffer.get()] = static_cast<int>(f);
    }
    for (size_t o = 0; o < problem.operations.size(); ++o) {
      operations_[problem.operations[o].stmt.get()] = static_cast<int>(o);
    }
  }

  absl::StatusOr<Stmt> Body(const Stmt& body) {
    const Stmt inner = sums_.Around(Mutate(body));
    KILN_RETURN_IF_ERROR(status_);
    std::vector<Stmt> stmts = level_.tables()->Allocations();
    stmts.push_back(inner);
    return ir::MakeStmt<ir::Seq>(body->loc, std::move(stmts));
  }

 protected:
  Expr VisitExpr(const Expr& e) override {
    const auto* load = e.As<ir::Load>();
    if (load == nullptr || !IsFragment(load->buffer)) return RebuildExpr(e);
    return ir::MakeLoad(level_.Registers(FragmentOf(load->buffer)),
                        Place(load->buffer, load->indices),
                        load->predicate.defined() ? Mutate(load->predicate) : Expr());
  }

  Stmt VisitStmt(const Stmt& s) override {
    const auto operation = operations_.find(s.get());
    if (operation != operations_.end()) return VisitOperation(operation->second, s);
    switch (s.kind()) {
      case ir::StmtKind::kSeq:
        return VisitSeq(s, *s.As<ir::Seq>());
      case ir::StmtKind::kFor:
        return VisitOther(s, *s.As<ir::For>());
      case ir::StmtKind::kGemm:
        return sums_.Multiply(s, [this](const Expr& e) { return Mutate(e); });
      case ir::StmtKind::kAlloc:
        return VisitAlloc(s);
      case ir::StmtKind::kStore:
        return VisitStore(s, *s.As<ir::Store>());
      case ir::StmtKind::kOnThreads:
        return VisitPart(*s.As<ir::OnThreads>());
      case ir::StmtKind::kAtomic:
      case ir::StmtKind::kPrint:
        if (!thread_.defined()) return Once(s);
        return Acting(RebuildStmt(s));
      case ir::StmtKind::kAssert:
        return thread_.defined() ? RebuildStmt(s) : Once(s);
      default:
        return RebuildStmt(s);
    }
  }

 private:
  bool IsFragment(const ir::Buffer& b) const { return fragments_.count(b.get()) > 0; }
  int FragmentOf(const ir::Buffer& b) const { return fragments_.at(b.get()); }

  // The register of an element: the thread's own, or outside of loops the first thread's.
  std::vector<Expr> Place(const ir::Buffer& buffer, const std::vector<Expr>& indices) {
    const int f = FragmentOf(buffer);
    return level_.PlaceOf(f, thread_.defined() ? thread_ : level_.FirstThread(),
                          FlattenExpr(MutateAll(indices), problem_.fragments[f].shape));
  }

  // A loop over threads that the kernel itself has: each reads what it holds of a fragment.
  Stmt VisitOther(const Stmt& s, const ir::For& loop) {
    if (loop.loop != ir::ForKind::kThreads) return RebuildStmt(s);
    own_.clear();
    thread_ = loop.axes[0].var;
    const Stmt rebuilt = RebuildStmt(s);
    thread_ = Expr();
    return rebuilt;
  }

  Stmt VisitPart(const ir::OnThreads& part) {
    level_.SetThreads({part.first, part.count});
    const Stmt body = Mutate(part.body);
    level_.SetThreads(problem_.threads);
    return ir::MakeStmt<ir::OnThreads>(part.loc, part.first, part.count, body);
  }

  Stmt VisitOperation(int o, const Stmt& s) {
    const Operation& op = problem_.operations[o];
    switch (op.kind) {
      case OperationKind::kLoop:
        return VisitLoop(o, *s.As<ir::For>());
      case OperationKind::kReduce:
        return PartitionReduction(o, *s.As<ir::Reduce>(), &level_);
      case OperationKind::kGemm:
        return VisitGemm(o, *s.As<ir::Gemm>());
      case OperationKind::kMove:
        return sums_.Move(o);
    }
    return s;
  }

  Stmt VisitGemm(int o, const ir::Gemm& gemm) {
    const auto uniform = [this](const Expr& e) { return Mutate(e); };
    const Stmt instructed = instruct_ ? InstructGemm(o, gemm, uniform, &level_) : Stmt();
    return instructed.defined() ? instructed : PartitionGemm(o, gemm, uniform, &level_);
  }

  Stmt VisitLoop(int o, const ir::For& loop) {
    own_.clear();
    const Stmt partitioned = level_.ForThreads(loop.loc, [&](const Expr& thread) {
      thread_ = thread;
      const Stmt share = level_.ForShare(level_.solution().loops[o], thread, loop.loc,
                                         [&](const Expr& i, const Expr& acts) {
                                           acts_ = acts;
                                           return Iteration(o, loop, i);
                                         });
      return loop.annotations.count(kUnrollWhole) > 0 ? UnrolledWhole(share) : share;
    });
    thread_ = acts_ = Expr();
    return partitioned;
  }

  Stmt Iteration(int o, const ir::For& loop, const Expr& i) {
    const std::vector<Expr> at = UnflattenExpr(i, problem_.operations[o].extents);
    std::vector<Stmt> stmts;
    for (size_t d = 0; d < loop.axes.size(); ++d) {
      const Expr& var = loop.axes[d].var;
      stmts.push_back(ir::MakeStmt<ir::Bind>(loop.loc, var,
                                             ir::MakeCast(var.dtype(), loop.axes[d].min + at[d])));
    }
    stmts.push_back(Mutate(loop.body));
    return ir::MakeStmt<ir::Seq>(loop.loc, std::move(stmts));
  }

  Stmt VisitAlloc(const Stmt& s) {
    const auto* alloc = s.As<ir::Alloc>();
    if (thread_.defined()) own_.insert(alloc->buffer.get());
    if (alloc->buffer->scope == ir::Scope::kTensor) return ir::MakeSeq({}, s->loc);
    if (!IsFragment(alloc->buffer)) return RebuildStmt(s);
    return ir::MakeStmt<ir::Alloc>(s->loc, level_.Registers(FragmentOf(alloc->buffer)));
  }

  Stmt VisitStore(const Stmt& s, const ir::Store& store) {
    if (IsFragment(store.buffer)) return StoreToFragment(store);
    const bool memory =
        store.buffer->scope == ir::Scope::kGlobal || store.buffer->scope == ir::Scope::kShared;
    if (!thread_.defined()) return memory ? Once(s) : RebuildStmt(s);
    if (memory) return Acting(RebuildStmt(s));
    const bool own =
        store.buffer->scope == ir::Scope::kRegister || own_.count(store.buffer.get()) > 0;
    if (!own) NotItsOwn(store);
    return RebuildStmt(s);
  }

  Stmt StoreToFragment(const ir::Store& store) {
    const auto put = [&] {
      return ir::MakeStmt<ir::Store>(store.loc, level_.Registers(FragmentOf(store.buffer)),
                                     Place(store.buffer, store.indices), Mutate(store.value),
                                     store.predicate.defined() ? Mutate(store.predicate) : Expr());
    };
    if (thread_.defined()) return put();
    const Stmt everywhere = level_.ForThreads(store.loc, [&](const Expr& thread) {
      thread_ = thread;
      return put();
    });
    thread_ = Expr();
    return everywhere;
  }

  // What the block stores once, one after the other, one thread stores so: no branch and no barrier
  // for each.
  Stmt VisitSeq(const Stmt& s, const ir::Seq& seq) {
    std::vector<Stmt> stmts;
    bool changed = false;
    for (size_t i = 0, end = 0; i < seq.stmts.size(); i = end) {
      const Stmt& first = seq.stmts[i];
      end = i + 1;
      const size_t most = std::min(seq.stmts.size(), i + kMostInTurn);
      while (IsStoredOnce(first) && end < most && IsStoredOnce(seq.stmts[end])) ++end;
      if (end > i + 1) {
        const std::vector<Stmt> run(&first, &first + (end - i));
        stmts.push_back(Once(ir::MakeStmt<ir::Seq>(first->loc, run)));
      } else {
        stmts.push_back(Mutate(first));
      }
      changed |= !stmts.back().same_as(first);
    }
    return changed ? ir::MakeSeq(std::move(stmts), s->loc) : s;
  }

  bool IsStoredOnce(const Stmt& s) const {
    const auto* store = s.As<ir::Store>();
    return store != nullptr && !thread_.defined() && operations_.count(s.get()) == 0 &&
           IsMemory(store->buffer);
  }

  // What the block does once is done by one thread.
  Stmt Once(const Stmt& s) {
    const Stmt once = level_.ForThreads(s->loc, [&](const Expr& thread) {
      thread_ = thread;
      return ir::MakeStmt<ir::If>(s->loc, Equal(thread, level_.FirstThread()), RebuildStmt(s));
    });
    thread_ = Expr();
    return once;
  }

  // What an iteration does once is done by one of the threads that run it.
  Stmt Acting(const Stmt& s) const {
    return acts_.defined() ? ir::MakeStmt<ir::If>(s->loc, acts_, s) : s;
  }

  void NotItsOwn(const ir::Store& store) {
    if (!status_.ok()) return;
    status_ = ir::ErrorAt(program_, store.loc,
                          absl::StrCat("the iterations of a parallel loop share '",
                                       store.buffer->name, "', which they write"),
                          "declare it inside of the loop, or use a fragment");
  }

  const ir::Program& program_;
  const LayoutProblem& problem_;
  ThreadLevel level_;
  const PartitionSums sums_;
  const bool instruct_;
  std::unordered_map<const ir::BufferNode*, int> fragments_;
  std::unordered_map<const ir::StmtNode*, int> operations_;
  absl::Status status_;
  Expr thread_, acts_;  // of the loop over threads that is being built; undefined outside
  std::unordered_set<const ir::BufferNode*> own_;  // allocated in the iteration
};

absl::StatusOr<Stmt> PartitionLaunch(const ir::Program& program, const Stmt& s,
                                     const PassContext& context) {
  KILN_ASSIGN_OR_RETURN(const PlacedLaunch placed, PlaceLaunch(program, s, GpuOf(context)));
  const ir::Launch& launch = *placed.launch.As<ir::Launch>();
  const LayoutProblem& problem = placed.problem;
  KILN_ASSIGN_OR_RETURN(
      const Stmt body,
      Partition(program, launch, problem, placed.solution, context.instruct).Body(launch.body));
  ir::BufferMap tiles;  // shared ones, with the layouts that apply-layouts puts into indices
  for (const SharedTile& tile : problem.shared) {
    ir::BufferNode node = *tile.buffer;
    node.layout = tile.layout.ToString();
    tiles[tile.buffer.get()] = std::make_shared<const ir::BufferNode>(std::move(node));
  }
  return ir::MakeStmt<ir::Launch>(launch.loc, launch.grid, launch.threads,
                                  ir::Substitute(body, {}, tiles), launch.annotations);
}

}  // namespace

absl::StatusOr<ir::Program> PartitionLoops(const ir::Program& program, const PassContext& context) {
  absl::Status status;
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr || !status.ok()) return {};
    absl::StatusOr<Stmt> partitioned = PartitionLaunch(program, s, context);
    if (partitioned.ok()) return *std::move(partitioned);
    status = partitioned.status();
    return {};
  });
  KILN_RETURN_IF_ERROR(status);
  return out;
}

}  // namespace kiln::passes
