// What the elaborator keeps of the place where it is, and hands to builtins. Private to
// compiler/lang.
#ifndef KILN_COMPILER_LANG_STATE_H_
#define KILN_COMPILER_LANG_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/stmt.h"
#include "compiler/lang/scope.h"
#include "compiler/lang/value.h"

namespace kiln::lang {

// Why a block of statements ended.
enum class Flow : uint8_t {
  kNormal,
  kReturn,
  kBreak,
  kContinue,
  kAbsent,  // an import that is not there, on the way to the `try` that catches it
};

enum class RegionKind : uint8_t { kRoot, kLaunch, kThreads, kBranch, kLoop, kWhile };

// A place where IR statements are collected: names bound in it end with it.
struct IrRegion {
  RegionKind kind = RegionKind::kRoot;
  ir::ForKind loop = ir::ForKind::kSerial;
  int id = 0;
  int64_t start = 0;  // step count at its beginning
  SourceLoc loc;
  std::vector<ir::Stmt> stmts;
  std::vector<ir::Axis> axes;   // of a loop
  std::vector<ir::Stmt> after;  // what follows the loop once it is done
};

// A condition that is known now, or left to run time.
struct Condition {
  bool known = false;
  bool value = false;
  Operand expr;  // when not known: a bool expression
};

// A value, and whether it is true where that was asked on the way to it.
struct Tested {
  Value value;
  std::optional<bool> truth;
  bool acted = false;  // who was asked changed something
};

// What was emitted so far where an expression stands (order.cc).
struct Moment {
  int region = -1;
  size_t statements = 0;
};

// What T.make_tensor says of the elements at an address.
struct AddressedTensor {
  DType dtype;
  std::vector<ir::Expr> shape, strides;  // no strides: row-major
};

// A box of a buffer as an operand of a tile op.
struct Tile {
  ir::Region region;
  bool is_base = false;      // only the start is given; extents come from the other operand
  std::vector<int> dropped;  // dimensions of the buffer that an index took
  ExprInfo info;
  std::string shape;  // what a message says of its shape, where that is not as written
};

// A body in execution: of the kernel, a function, a macro, a class, module-level code.
struct Frame {
  absl::string_view name;
  const char* what = "function";
  SourceLoc call;
  Scope* scope = nullptr;
  bool traced = false;
  const FunctionObject* function = nullptr;  // that it runs, where it is one of a class
  Value self;                                // of a method
  bool is_entry = false;                     // the kernel's own body
  bool bundled = false;                      // of a class that comes with the language
  size_t region_base = 0;                    // regions_.size() at entry
  size_t module_index = SIZE_MAX;            // module-level code: names bound before this statement
  size_t before = SIZE_MAX;  // globals are read as they are before this statement of the module
  Value result;
  SourceLoc result_loc;
  bool returned = false;
  std::vector<Value>* yielded = nullptr;  // of a generator
  int trying = 0;  // `try` statements around this place that catch an import that is not there
  Frame* parent = nullptr;
};

// Counts on construction, and back on destruction.
class CountGuard {
 public:
  explicit CountGuard(int* count) : count_(count) { ++*count_; }
  ~CountGuard() { --*count_; }
  CountGuard(const CountGuard&) = delete;

 private:
  int* count_;
};

// What T.rng_init began (builtins_random.cc).
struct RandomState {
  ir::Expr seed, sequence;  // uint64
  ir::Buffer drawn;         // uint64 var: numbers drawn so far
  int region = 0;           // where it was begun
  // In the loop over elements at hand: what calls before this one take of it.
  ir::Expr taken;
  int loop = -1;
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_STATE_H_
