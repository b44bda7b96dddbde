#include "compiler/passes/partition_reduction.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/ir/instruct.h"
#include "compiler/passes/build.h"
#include "compiler/passes/reduce_arithmetic.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::MakeInt;
using ir::Stmt;
using layout::Ownership;

constexpr int64_t kWarp = 32;

class ReductionBetweenThreads {
 public:
  ReductionBetweenThreads(int operation, const ir::Reduce& reduce, ThreadLevel* level)
      : level_(level),
        op_(level->problem().operations[operation]),
        reduce_(reduce),
        loc_(reduce.loc),
        source_(op_.uses[0].fragment),
        target_(op_.uses[1].fragment),
        arithmetic_(reduce.op, reduce.src.buffer->dtype, reduce.dst.buffer->dtype) {
    const Ownership& parts = level->solution().loops[operation];
    results_ = level->solution().fragments[target_].Pullback(op_.uses[1].elements[0]);
    for (int64_t d = 0; d < static_cast<int64_t>(op_.extents.size()); ++d) {
      if (d == op_.reduced_dim) continue;
      rows_shape_.push_back(op_.extents[d]);
    }
    std::vector<layout::ThreadSet> contributors(results_.size());
    Ownership answers(parts.size());
    for (int64_t k = 0; k < parts.size(); ++k) {
      layout::ThreadSet alone;
      alone.set(parts.Owners(k)._Find_first());
      answers.Set(k, alone, 0);
      contributors[RowOf(k)] |= alone;
    }
    answers_ = answers.Packed();
    Ownership partial(results_.size());
    for (int64_t row = 0; row < results_.size(); ++row) {
      // Nothing to fold: whoever holds the result starts from the identity.
      const bool empty = contributors[row].none();
      partial.Set(row, empty ? results_.Owners(row) : contributors[row], 0);
    }
    contributors_ = partial.Packed();
    FindShuffles();
  }

  Stmt Build() {
    partial_ = MakeRegisters("partial", arithmetic_.type(), level_->threads(),
                             std::max<int64_t>(contributors_.slots(), 1));
    partial_slot_ = SlotsOf(contributors_, "partial", level_->tables());
    exchange_ =
        ir::MakeBuffer("exchange", arithmetic_.type(),
                       {MakeInt(std::max<int64_t>(results_.size(), 1)), MakeInt(MostSpeakers())},
                       ir::Scope::kShared);
    std::vector<Stmt> stmts = {
        ir::MakeStmt<ir::Alloc>(loc_, partial_),
        level_->ForThreads(loc_, [&](const Expr& thread) { return Contribute(thread); })};
    for (Stmt& s : Shuffle()) stmts.push_back(std::move(s));
    if (!together_) {
      stmts.push_back(ir::MakeStmt<ir::Alloc>(loc_, exchange_));
      stmts.push_back(level_->ForThreads(loc_, [&](const Expr& thread) { return Put(thread); }));
    }
    stmts.push_back(level_->ForThreads(loc_, [&](const Expr& thread) { return Collect(thread); }));
    return ir::MakeStmt<ir::Seq>(loc_, std::move(stmts));
  }

 private:
  // Butterflies (shfl.bfly) over bits of the thread's number under which the contributors of every
  // result are closed: afterwards all of them that differ in those bits alone know the same.
  void FindShuffles() {
    const layout::ThreadRange& threads = level_->threads();
    const bool whole_warps = threads.first % kWarp == 0 && threads.count % kWarp == 0;
    const int64_t bits = whole_warps && arithmetic_.type().bits >= 32 ? kWarp : 1;
    int64_t known = 0;
    for (int64_t bit = 1; bit < bits; bit *= 2) {
      if (!ClosedUnder(bit)) continue;
      masks_.push_back(bit);
      known |= bit;
    }
    speakers_ = Ownership(results_.size());
    together_ = !masks_.empty();
    for (int64_t row = 0; row < results_.size(); ++row) {
      const layout::ThreadSet& all = contributors_.Owners(row);
      layout::ThreadSet first;
      for (size_t t = all._Find_first(); t < all.size(); t = all._Find_next(t)) {
        if ((static_cast<int64_t>(t) & known) == 0) first.set(t);
      }
      speakers_.Set(row, first, 0);
      together_ &= first.count() == 1 && (results_.Owners(row) & ~all).none();
    }
    speakers_ = speakers_.Packed();
  }

  bool ClosedUnder(int64_t bit) const {
    for (int64_t row = 0; row < contributors_.size(); ++row) {
      const layout::ThreadSet& all = contributors_.Owners(row);
      for (size_t t = all._Find_first(); t < all.size(); t = all._Find_next(t)) {
        if (!all[t ^ static_cast<size_t>(bit)]) return false;
      }
    }
    return true;
  }

  std::vector<Stmt> Shuffle() {
    std::vector<Stmt> stmts;
    if (masks_.empty()) return stmts;
    const ir::Buffer other = MakeRegisters("other", arithmetic_.type(), level_->threads(),
                                           std::max<int64_t>(contributors_.slots(), 1));
    stmts.push_back(ir::MakeStmt<ir::Alloc>(loc_, other));
    for (const int64_t mask : masks_) {
      stmts.push_back(ir::MakeStmt<ir::Instruct>(
          loc_, ir::Instruction::kShuffleXor,
          std::vector<ir::Region>{ir::WholeBuffer(other), ir::WholeBuffer(partial_)},
          std::vector<Expr>{MakeInt(mask)}));
      stmts.push_back(level_->ForThreads(loc_, [&](const Expr& thread) {
        return Over(contributors_, thread, [&](const Expr& row) {
          const std::vector<Expr> at = PartialAt(thread, row);
          return ir::MakeStmt<ir::Store>(
              loc_, partial_, at,
              arithmetic_.Combine(ir::MakeLoad(partial_, at), ir::MakeLoad(other, at)));
        });
      }));
    }
    return stmts;
  }

  // The result that source element k (flat in the reduced region) goes into.
  int64_t RowOf(int64_t k) const {
    std::vector<int64_t> at = layout::Unflatten(k, op_.extents);
    at.erase(at.begin() + op_.reduced_dim);
    return *layout::Flatten(at, rows_shape_);
  }
  Expr RowOf(const Expr& k) const {
    std::vector<Expr> at = UnflattenExpr(k, op_.extents);
    at.erase(at.begin() + op_.reduced_dim);
    return FlattenExpr(at, rows_shape_);
  }

  std::vector<Expr> SourceAt(const Expr& thread, const Expr& k) const {
    return level_->PlaceIn(source_, reduce_.src, thread, k);
  }
  std::vector<Expr> TargetAt(const Expr& thread, const Expr& row) const {
    return level_->PlaceIn(target_, reduce_.dst, thread, row);
  }
  std::vector<Expr> PartialAt(const Expr& thread, const Expr& row) const {
    return {thread, partial_slot_(row)};
  }

  Stmt Contribute(const Expr& thread) {
    const DType type = arithmetic_.type();
    const Stmt start = Over(contributors_, thread, [&](const Expr& row) {
      return ir::MakeStmt<ir::Store>(loc_, partial_, PartialAt(thread, row),
                                     arithmetic_.Identity(type));
    });
    const Stmt fold = level_->ForShare(answers_, thread, loc_, [&](const Expr& k, const Expr&) {
      const std::vector<Expr> at = PartialAt(thread, RowOf(k));
      const Expr element = ir::MakeLoad(level_->Registers(source_), SourceAt(thread, k));
      return ir::MakeStmt<ir::Store>(
          loc_, partial_, at,
          arithmetic_.Combine(ir::MakeLoad(partial_, at), arithmetic_.Element(element)));
    });
    return ir::MakeSeq({start, fold}, loc_);
  }

  // Into shared memory, by one of those who know the same.
  Stmt Put(const Expr& thread) {
    const std::vector<int64_t> ranks = Ranks();
    const int64_t step = StepOf(ranks);
    return Over(speakers_, thread, [&](const Expr& row) {
      const Expr rank = step > 0
                            ? FloorMod(FloorDiv(thread, MakeInt(step)), MakeInt(MostSpeakers()))
                            : ir::MakeLoad(Table(ranks), {row, thread});
      return ir::MakeStmt<ir::Store>(loc_, exchange_, std::vector<Expr>{row, rank},
                                     ir::MakeLoad(partial_, PartialAt(thread, row)));
    });
  }

  // Which of a result's contributions comes from a thread, or -1: [results, threads].
  std::vector<int64_t> Ranks() const {
    std::vector<int64_t> ranks(results_.size() * Columns(), -1);
    for (int64_t row = 0; row < results_.size(); ++row) {
      const layout::ThreadSet& from = speakers_.Owners(row);
      int64_t rank = 0;
      for (size_t t = from._Find_first(); t < from.size(); t = from._Find_next(t)) {
        ranks[row * Columns() + static_cast<int64_t>(t)] = rank++;
      }
    }
    return ranks;
  }
  int64_t MostSpeakers() const { return std::max<int64_t>(speakers_.Copies(), 1); }
  int64_t Columns() const { return level_->threads().first + level_->threads().count; }
  ir::Buffer Table(const std::vector<int64_t>& ranks) {
    return level_->tables()->Add("ranks", {results_.size(), Columns()}, ranks);
  }

  // The s for which thread / s % MostSpeakers() is the rank wherever there is one; 0 where none is.
  int64_t StepOf(const std::vector<int64_t>& ranks) const {
    for (int64_t step = 1; step < Columns(); step *= 2) {
      bool right = true;
      for (size_t i = 0; right && i < ranks.size(); ++i) {
        const int64_t thread = static_cast<int64_t>(i) % Columns();
        right = ranks[i] < 0 || ranks[i] == thread / step % MostSpeakers();
      }
      if (right) return step;
    }
    return 0;
  }

  Stmt Collect(const Expr& thread) {
    const DType type = arithmetic_.type();
    return Over(results_, thread, [&](const Expr& row) {
      const ir::Buffer total = ir::MakeBuffer("total", type, {MakeInt(1)}, ir::Scope::kVar);
      const std::vector<Expr> whole = {MakeInt(0)}, to = TargetAt(thread, row);
      const ir::Buffer& registers = level_->Registers(target_);
      const auto take = [&](const Expr& next) {
        return ir::MakeStmt<ir::Store>(loc_, total, whole,
                                       arithmetic_.Combine(ir::MakeLoad(total, whole), next));
      };
      const Stmt fold = together_
                            ? take(ir::MakeLoad(partial_, PartialAt(thread, row)))
                            : SerialLoop("rank", Contributions(row), loc_, [&](const Expr& rank) {
                                return take(ir::MakeLoad(exchange_, {row, rank}));
                              });
      Expr result = ir::MakeLoad(total, whole);
      if (!reduce_.clear) {
        result = arithmetic_.Combine(ir::MakeCast(type, ir::MakeLoad(registers, to)), result);
      }
      return ir::MakeStmt<ir::Seq>(
          loc_,
          std::vector<Stmt>{ir::MakeStmt<ir::Alloc>(loc_, total, arithmetic_.Identity(type)), fold,
                            ir::MakeStmt<ir::Store>(loc_, registers, to,
                                                    ir::MakeCast(registers->dtype, result))});
    });
  }

  // How many threads contribute to a result.
  Expr Contributions(const Expr& row) {
    std::vector<int64_t> counts;
    for (int64_t row = 0; row < speakers_.size(); ++row) {
      counts.push_back(static_cast<int64_t>(speakers_.Owners(row).count()));
    }
    const bool equal = std::all_of(counts.begin(), counts.end(),
                                   [&](int64_t count) { return count == counts[0]; });
    if (equal) return MakeInt(counts.empty() ? 0 : counts[0]);
    const int64_t rows = static_cast<int64_t>(counts.size());
    return ir::MakeLoad(level_->tables()->Add("contributions", {rows}, std::move(counts)), {row});
  }

  Stmt Over(const Ownership& rows, const Expr& thread,
            const std::function<Stmt(const Expr& row)>& body) {
    return level_->ForShare(rows, thread, loc_,
                            [&](const Expr& row, const Expr&) { return body(row); });
  }

  ThreadLevel* const level_;
  const Operation& op_;
  const ir::Reduce& reduce_;
  const SourceLoc loc_;
  const int source_, target_;  // fragments
  const ReduceArithmetic arithmetic_;
  std::vector<int64_t> rows_shape_;  // the source's extents without the reduced one
  Ownership results_;                // who holds each result
  Ownership answers_;                // the one thread that answers for a source element
  Ownership contributors_;           // the threads that answer for a part of a result
  std::vector<int64_t> masks_;       // of the shuffles
  Ownership speakers_;               // of contributors who know the same after them, the first
  bool together_ = false;            // all who hold a result know it then
  ir::Buffer partial_, exchange_;
  std::function<Expr(const Expr&)> partial_slot_;
};

}  // namespace

Stmt PartitionReduction(int operation, const ir::Reduce& reduce, ThreadLevel* level) {
  return ReductionBetweenThreads(operation, reduce, level).Build();
}

}  // namespace kiln::passes
