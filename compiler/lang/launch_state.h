// What is known of the launch (T.Kernel) that is being elaborated. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_LAUNCH_STATE_H_
#define KILN_COMPILER_LANG_LAUNCH_STATE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/stmt.h"
#include "compiler/lang/value.h"

namespace kiln::lang {

// T.annotate_safe_value({tensor: value}).
struct SafeValue {
  ir::Buffer tensor;
  ir::Expr value;  // of its element type
  SourceLoc loc;
};

struct LaunchState {
  std::map<std::string, std::string> notes;  // of ir::Launch
  std::vector<ir::Axis> grid;
  std::vector<ir::Expr> threads;                  // extents, x first
  int64_t thread_count = 0;                       // 0 where they are open
  std::map<std::string, std::string> copy_notes;  // of the T.copy that is being made
  Value cluster_rank = Value::Int(0);             // of a block in its cluster
  std::vector<int64_t> cluster;                   // blocks along each axis of the grid; empty: one
  std::vector<ir::Stmt> grid_meetings;            // of all blocks: empty statements where they meet
  std::vector<SafeValue> outside;                 // what is read outside of tensors, as it is said
  std::vector<std::pair<ir::Buffer, SourceLoc>> padded;  // by zeros of T.im2col
  std::vector<CombinerObject*> around;  // T.attr(reducer, "reduce_scope", ...), innermost last

  // T.annotate_ws_schedule, and the operations that carry a name for it, in program order.
  const InstanceObject* schedule = nullptr;
  SourceLoc schedule_loc;
  std::vector<std::pair<std::string, SourceLoc>> operations;

  // The index of a thread of the block, x first: variables of the elaboration, which
  // ir::ResolveThreads takes out again.
  const std::vector<ir::Expr> indices = {ir::MakeVar("tx"), ir::MakeVar("ty"), ir::MakeVar("tz")};

  bool IsIndex(const ir::Expr& e) const {
    for (const ir::Expr& index : indices) {
      if (e.same_as(index)) return true;
    }
    return false;
  }

  int64_t ClusterBlocks() const {
    int64_t blocks = 1;
    for (const int64_t n : cluster) blocks *= n;
    return blocks;
  }

  void Begin(std::vector<ir::Expr> extents, std::vector<int64_t> blocks = {}) {
    notes.clear();
    cluster = std::move(blocks);
    grid.clear();
    around.clear();
    outside.clear();
    padded.clear();
    grid_meetings.clear();
    schedule = nullptr;
    operations.clear();
    cluster_rank = Value::Int(0);
    threads = std::move(extents);
    thread_count = 1;
    for (const ir::Expr& extent : threads) thread_count *= ir::ConstInt(extent).value_or(0);
  }
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_LAUNCH_STATE_H_
