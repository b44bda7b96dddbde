// A block at thread level, as the lowering to it sees it: fragments have become registers, loops
// over threads are written with the builders here. Shared by partition-loops and its two halves for
// tile operations; lives for one launch.
#ifndef KILN_COMPILER_PASSES_THREAD_LEVEL_H_
#define KILN_COMPILER_PASSES_THREAD_LEVEL_H_

#include <functional>
#include <vector>

#include "compiler/passes/infer_layouts.h"
#include "compiler/passes/thread_maps.h"

namespace kiln::passes {

class ThreadLevel {
 public:
  ThreadLevel(const LayoutProblem& problem, const LayoutSolution& solution);

  const LayoutProblem& problem() const { return problem_; }
  const LayoutSolution& solution() const { return solution_; }
  ConstantTables* tables() { return &tables_; }

  // The registers of a fragment, kRegister [threads, slots], and one of them by the flat index of
  // its element.
  const ir::Buffer& Registers(int fragment) const { return tiles_[fragment].registers; }
  std::vector<ir::Expr> PlaceOf(int fragment, const ir::Expr& thread, const ir::Expr& flat) const;
  // The same by the row-major position `i` in a constant region of it.
  std::vector<ir::Expr> PlaceIn(int fragment, const ir::Region& region, const ir::Expr& thread,
                                const ir::Expr& i) const;

  // The threads that run what is being built: all, but for what a part of the block does.
  const layout::ThreadRange& threads() const { return threads_; }
  void SetThreads(layout::ThreadRange threads) { threads_ = threads; }
  // The one of them whose copy is read where all copies are equal.
  ir::Expr FirstThread() const { return ir::MakeInt(threads_.first); }

  // for thread in threads(): body(thread)
  ir::Stmt ForThreads(SourceLoc loc,
                      const std::function<ir::Stmt(const ir::Expr& thread)>& body) const;
  // What `thread` runs of a loop that is dealt out as `loop` says: body(i, acts), where `acts`
  // (undefined: always) picks one of the threads that run i.
  ir::Stmt ForShare(const layout::Ownership& loop, const ir::Expr& thread, SourceLoc loc,
                    const std::function<ir::Stmt(const ir::Expr& i, const ir::Expr& acts)>& body);

 private:
  struct Tile {
    ir::Buffer registers;
    std::function<ir::Expr(const ir::Expr& flat)> slot;
  };

  const LayoutProblem& problem_;
  const LayoutSolution& solution_;
  layout::ThreadRange threads_;
  ConstantTables tables_;
  std::vector<Tile> tiles_;  // by fragment
};

// A loop all of whose steps become lanes (unroll_lanes.h); what is no loop stays as it is.
ir::Stmt UnrolledWhole(const ir::Stmt& s);

// Extents of a region, which are constants here.
std::vector<int64_t> ExtentsOf(const ir::Region& region);

// The coordinate of row-major flat index `flat`, and the flat index of a coordinate.
std::vector<ir::Expr> UnflattenExpr(const ir::Expr& flat, const std::vector<int64_t>& shape);
ir::Expr FlattenExpr(const std::vector<ir::Expr>& indices, const std::vector<int64_t>& shape);

// kRegister [threads, registers].
ir::Buffer MakeRegisters(const std::string& name, DType type, layout::ThreadRange threads,
                         int64_t registers);

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_THREAD_LEVEL_H_
