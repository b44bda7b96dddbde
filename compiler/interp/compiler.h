// From IR to nodes. Private to compiler/interp.
#ifndef KILN_COMPILER_INTERP_COMPILER_H_
#define KILN_COMPILER_INTERP_COMPILER_H_

#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/interp/clusters.h"
#include "compiler/interp/node.h"
#include "compiler/ir/instruct.h"

namespace kiln::interp {

// A tensor parameter's shape and strides, evaluated when the program starts.
struct ParamLayout {
  int slot = 0;
  std::vector<NodePtr> shape, strides;
};

struct Compiled {
  ActionPtr body;
  std::vector<ParamLayout> tensors;  // tensor parameters in order
  int int_slots = 0, real_slots = 0, buffer_slots = 0;
};

struct LoopAxis {
  int slot;
  NodePtr min, extent;
  std::string name;
};

// Compiles one program. The program must pass ir::Verify; what verification does not cover (rank,
// lanes) is an error here.
class Compiler {
 public:
  Compiler(const ir::Program& program, const Options& options)
      : program_(program), options_(options) {}

  absl::StatusOr<Compiled> Compile();

  // Slots of variables and buffers, for the caller that sets parameters.
  int SlotOf(const ir::Expr& var);
  int SlotOf(const ir::Buffer& buffer);

  // Expressions: `loc` is the statement's position, for messages.
  NodePtr Expr(const ir::Expr& e, SourceLoc loc);
  std::vector<NodePtr> Exprs(const std::vector<ir::Expr>& list, SourceLoc loc);
  Access MakeAccess(const ir::Buffer& b, const std::vector<ir::Expr>& indices,
                    const ir::Expr& predicate, SourceLoc loc);
  Box MakeBox(const ir::Region& region, SourceLoc loc);

  ActionPtr Statement(const ir::Stmt& s);

  const Options& options() const { return options_; }
  Rounding RoundingFor(DType type) const { return RoundingOf(type, options_.mode); }
  // Some enclosing level of concurrency writes the buffer.
  bool Tracked(const ir::Buffer& b) const;
  void Error(absl::Status status) {
    if (error_.ok()) error_ = std::move(status);
  }

 private:
  NodePtr UnaryNode(const ir::Expr& e, SourceLoc loc);
  NodePtr BinaryNode(const ir::Expr& e, SourceLoc loc);
  NodePtr SelectNode(const ir::Expr& e, SourceLoc loc);
  NodePtr CastNode(const ir::Expr& e, SourceLoc loc);
  NodePtr LoadNode(const ir::Expr& e, SourceLoc loc);
  NodePtr CallNode(const ir::Expr& e, SourceLoc loc);
  NodePtr ReinterpretNode(const ir::Expr& e, SourceLoc loc);
  NodePtr ReduceLanesNode(const ir::Expr& e, SourceLoc loc);

  ActionPtr SeqAction(const ir::Stmt& s);
  ActionPtr ForAction(const ir::Stmt& s);
  ActionPtr LaunchAction(const ir::Stmt& s);
  ActionPtr ClusterAction(const ir::Launch& launch, int number, std::vector<LoopAxis> grid);
  ActionPtr BindAction(const ir::Stmt& s);
  ActionPtr AllocAction(const ir::Stmt& s);
  // In instruct.cc.
  ActionPtr InstructAction(const ir::Instruct& x);
  ActionPtr MoveAction(const ir::Instruct& x);  // instruct_copies.cc
  ActionPtr ProductAction(const ir::Instruct& x);
  ActionPtr ExchangeAction(const ir::Instruct& x);      // exchange.cc
  ActionPtr TensorMemoryAction(const ir::Instruct& x);  // tensor_memory.cc
  ActionPtr PartsAction(std::vector<ActionPtr> bodies, SourceLoc loc);
  ActionPtr StoreAction(const ir::Stmt& s);
  ActionPtr PrintAction(const ir::Stmt& s);  // print.cc
  // Tile operations, in tile_ops.cc and gemm.cc.
  ActionPtr CopyAction(const ir::Stmt& s);
  ActionPtr FillAction(const ir::Stmt& s);
  ActionPtr ReduceAction(const ir::Stmt& s);
  ActionPtr ScanAction(const ir::Stmt& s);
  ActionPtr AtomicAction(const ir::Stmt& s);
  ActionPtr GlobalAddAction(const ir::Instruct& x);
  ActionPtr StoreMatricesAction(const ir::Instruct& x);
  ActionPtr GemmAction(const ir::Stmt& s);
  ActionPtr PairGemmAction(const ir::Stmt& s);

  const ir::Program& program_;
  const Options& options_;
  absl::Status error_;
  std::unordered_map<const ir::ExprNode*, int> var_slots_;
  std::unordered_map<const ir::BufferNode*, int> buffer_slots_;
  std::vector<std::unordered_set<const ir::BufferNode*>> level_writes_;
  int int_slots_ = 0, real_slots_ = 0;
  int launches_ = 0;
  struct Part {
    int64_t first = 0, count = 1;
    int64_t number = 0;  // among all parts
  };
  int64_t parts_ = 0;
  Part part_;             // the threads of the block that do what is being compiled
  bool in_part_ = false;  // one of those that run beside each other
  bool in_cluster_ = false;
  std::deque<RankedLaunch> ranked_;  // slots go by the addresses of their names
};

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_COMPILER_H_
