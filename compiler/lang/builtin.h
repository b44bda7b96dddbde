// Built-in functions and modules of the kernel language, and how a call's arguments reach them.
//
// To add one: write a BuiltinFunction, and add a row to the table of its module (see README.md).
#ifndef KILN_COMPILER_LANG_BUILTIN_H_
#define KILN_COMPILER_LANG_BUILTIN_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/lang/value.h"

namespace kiln::lang {

class Elaborator;

// Arguments as written, in order. Names of `mutable` scalars arrive as their buffers.
struct CallArgs {
  SourceLoc loc;  // of the whole call
  std::vector<Value> positional;
  std::vector<SourceLoc> locs;  // one a positional argument
  struct Keyword {
    absl::string_view name;
    Value value;
    SourceLoc loc;
    ast::ExprPtr expr = nullptr;  // as written; null: it is not
  };
  std::vector<Keyword> keywords;
  std::vector<ast::ExprPtr> exprs;  // the positional ones as written; may be shorter
};

// Arguments bound to a builtin's parameters.
class BoundArgs {
 public:
  SourceLoc loc;  // of the call
  const Value& operator[](size_t i) const { return values[i]; }
  bool Has(size_t i) const { return i < present.size() && present[i]; }
  // Given and not None.
  bool Given(size_t i) const { return Has(i) && !values[i].is_none(); }
  SourceLoc LocOf(size_t i) const { return Has(i) ? locs[i] : loc; }

  std::vector<Value> values;
  std::vector<bool> present;
  std::vector<SourceLoc> locs;
  std::vector<Value> rest;  // of a variadic builtin
  std::vector<SourceLoc> rest_locs;
  std::vector<CallArgs::Keyword> extra;  // unknown keywords of a builtin that takes "**"
};

using BuiltinFunction = absl::StatusOr<Value> (*)(Elaborator&, const BoundArgs&);

struct Builtin {
  const char* name;  // as users write it: "T.gemm"
  // Parameter names in order, separated by spaces; "name?" may be left out; "*" takes the
  // remaining positional arguments; what follows "*" is by keyword only; "**" takes any keyword.
  const char* params;
  BuiltinFunction function;
  bool subscriptable = false;  // T.Tensor[shape, dtype] means T.Tensor(shape, dtype)
  int tag = 0;                 // which of several ops one function implements
  bool chooses = false;        // the first argument says which of the others is read
};

struct BuiltinSignature {
  std::vector<absl::string_view> names;
  std::vector<bool> optional;
  size_t positional = 0;  // how many may be given by position
  bool variadic = false;
  bool any_keyword = false;
};
const BuiltinSignature& SignatureOf(const Builtin& builtin);

struct Module {
  std::string name;  // as users write it: "T", "math"
  absl::flat_hash_map<std::string, Value> members;
  // Names that exist in TileLang but not here: name -> what to do instead.
  absl::flat_hash_map<std::string, std::string> refused;
  bool has_dtypes = false;                   // every dtype name is a member
  absl::flat_hash_set<std::string> bundled;  // classes that BundledTree() holds
};

// The module of a Python import path ("tilelang.language"), or null. Lives forever.
const Module* FindModule(absl::string_view path);
// Python's own functions and names (len, range, int, ...).
const Module& PythonBuiltins();
// Methods of a value ("append" of a list), or null.
const Builtin* FindMethod(const Value& self, absl::string_view name);
// Their names, for "did you mean".
std::vector<std::string> MethodNames(const Value& self);

// The text of a loop_layout argument. An error for anything but a T.Fragment (builtins_layout.cc).
absl::StatusOr<std::string> LoopLayout(Elaborator& e, const BoundArgs& args, size_t i);

// `op` where one side is a part of TIRx's layout notation: 4 @ laneid, S[...] + R[...] + offset
// (builtins_tirx.cc).
absl::StatusOr<Value> LayoutTermOp(Elaborator& e, ast::BinaryOp op, const Value& a, const Value& b,
                                   SourceLoc loc);
// A function that belongs to another (TileLayout.from_iters), or null (builtins_tirx.cc).
const Builtin* FindMember(const Builtin& owner, absl::string_view name);
// `op` where one side is a tensor of the host (builtins_torch.cc).
absl::StatusOr<Value> ArrayOp(Elaborator& e, ast::BinaryOp op, const Value& a, const Value& b,
                              SourceLoc loc);
absl::StatusOr<Value> TransposedArray(Elaborator& e, const Value& array);
// Every axis of compiler/layout/axis.h by its name.
void AddLayoutAxes(absl::flat_hash_map<std::string, Value>* members);
// A second name for the memory of the buffer `source`, of the same number of bytes
// (builtins_view.cc). Null `shape`: the buffer's own; no `dtype`: the buffer's own.
absl::StatusOr<Value> MakeView(Elaborator& e, const Value& source, const Value* shape,
                               std::optional<DType> dtype, SourceLoc loc);
// Accepts text in CUDA as far as Kiln has its functions itself, and refuses any other
// (builtins_extern.cc). `what` brings it: "T.import_source".
absl::Status CheckImportedSource(Elaborator& e, const Value& text, SourceLoc loc, const char* what);
// An error where the text shows a number of run time, whose digits decide `what` ("the length")
// (builtins_method.cc).
absl::Status CheckKnownText(Elaborator& e, const Value& text, SourceLoc loc,
                            absl::string_view what);
// An error where the text holds more than ASCII, and `what` ("the length") hangs on its characters:
// text is bytes of UTF-8 here (builtins_method.cc).
absl::Status CheckAscii(Elaborator& e, const Value& text, SourceLoc loc, absl::string_view what);
// An error where repr() of the text may write characters beyond ASCII by their numbers
// (builtins_text.cc).
absl::Status CheckPrintable(Elaborator& e, const Value& text, SourceLoc loc);
// The row of PythonTable() by that name (builtins_python.cc).
const Builtin* PythonTableRow(absl::string_view name);
// What __len__ gave, as a length; an error where it is none (convert.cc).
absl::StatusOr<Value> CheckLength(Elaborator& e, const Value& said, SourceLoc loc);
// A set of the items (builtins_set.cc).
absl::StatusOr<Value> NewSet(Elaborator& e, const std::vector<Value>& items, SourceLoc loc);
// Elaborator::Iterate, for what does not tell the order: of a set too.
absl::StatusOr<std::vector<Value>> AnyOrder(Elaborator& e, const Value& v, SourceLoc loc);
// |, &, - and ^ of two sets; nullopt: they are none, or it is another operator.
absl::StatusOr<std::optional<Value>> SetOp(Elaborator& e, ast::BinaryOp op, const Value& a,
                                           const Value& b, SourceLoc loc);
// keys() and items() of a dict as a set; any other value as it is.
absl::StatusOr<Value> AsSet(Elaborator& e, const Value& v, SourceLoc loc);
// <, <=, > and >= of two sets: which is part of the other.
absl::StatusOr<bool> SetOrder(Elaborator& e, ast::CompareOp op, const Value& a, const Value& b,
                              SourceLoc loc);
// Gives the buffer a layout (a TIRx one, a T.Layout or T.Fragment, or a bare SwizzleLayout) by a
// note of the launch. Refused when it is of another shape, or on axes that the buffer's memory does
// not have (builtins_layout.cc).
absl::Status AttachLayout(Elaborator& e, const ir::Buffer& buffer, const Value& layout,
                          SourceLoc loc);

// The function of T by that name does it: its argument k is the call's argument from[k], or left
// out (builtins_barrier.cc).
absl::StatusOr<Value> CallAs(Elaborator& e, const char* name, const BoundArgs& args,
                             const std::vector<std::optional<size_t>>& from);
// One arrival at the barrier that argument i names, whoever comes by (builtins_barrier.cc).
absl::Status ArriveOnce(Elaborator& e, const BoundArgs& args, size_t i);

// Operations that carry a name for T.annotate_ws_schedule (builtins_schedule.cc): one by its
// `annotations` or by T.ws_op, in program order; at the end of the launch, whether the schedule, if
// there is one, is about them.
absl::Status NoteOperation(Elaborator& e, const Value& annotations, SourceLoc loc);
absl::Status NoteOperation(Elaborator& e, const InstanceObject& op, SourceLoc loc);
absl::Status CheckSchedule(Elaborator& e);

// Tables that the modules are built from, one a file.
struct BuiltinTable {
  const Builtin* rows;
  size_t size;
};
BuiltinTable TileBuiltins();      // builtins_tile.cc: copy, gemm, fill, reduce
BuiltinTable SparseBuiltins();    // builtins_sparse.cc: gemm_sp, and what it asks of metadata
BuiltinTable ScanBuiltins();      // builtins_scan.cc: cumsum, transpose, im2col
BuiltinTable AtomicBuiltins();    // builtins_atomic.cc: atomic updates
BuiltinTable BitBuiltins();       // builtins_bits.cc: integers by their bits, floats by exponents
BuiltinTable RoundingBuiltins();  // builtins_rounding.cc: ieee_*
BuiltinTable RandomBuiltins();    // builtins_random.cc: rng_*
BuiltinTable DebugBuiltins();     // builtins_debug.cc: print, asserts
BuiltinTable ExternBuiltins();    // builtins_extern.cc: call_extern, import_source, quantize.*
BuiltinTable DeviceBuiltins();    // builtins_device.cc: names of CUDA's that need no thread
BuiltinTable MathBuiltins();      // builtins_math.cc: scalar functions of T
BuiltinTable AllocBuiltins();     // builtins_alloc.cc: tensors, allocation, sizes
BuiltinTable LoopBuiltins();      // builtins_loop.cc: loops, launch, hints
BuiltinTable ClusterBuiltins();   // builtins_cluster.cc: blocks of a cluster that share memory
BuiltinTable BarrierBuiltins();   // builtins_barrier.cc: hand-written barriers, what they order
BuiltinTable OtherBuiltins();     // builtins_other.cc: other spellings, questions to dtypes
BuiltinTable TensorMemoryBuiltins();  // builtins_tensor_memory.cc: tensor memory, tcgen05
BuiltinTable ScheduleBuiltins();      // builtins_schedule.cc: who does what, as advice
BuiltinTable ThreadBuiltins();    // builtins_thread.cc: indices of threads, exchanges between them
BuiltinTable LayoutBuiltins();    // builtins_layout.cc: layouts by functions, and where they belong
BuiltinTable ViewBuiltins();      // builtins_view.cc: second names for a buffer's memory
BuiltinTable ReducerBuiltins();   // builtins_reducer.cc: reducers
BuiltinTable TirxBuiltins();      // builtins_tirx.cc: TIRx's layout notation
BuiltinTable PythonTable();       // builtins_python.cc: len, min, ...
BuiltinTable HostMathBuiltins();  // builtins_host.cc: math.*
BuiltinTable TilelangBuiltins();  // builtins_host.cc: tilelang.*, itertools.*
BuiltinTable TorchBuiltins();  // builtins_torch.cc: torch.*, numpy.*, and what asks of the target
BuiltinTable ArrayMethods();   // builtins_torch.cc: methods of a tensor of the host
BuiltinTable MethodTable();    // builtins_method.cc: every method of every type
BuiltinTable TextMethods();    // builtins_text.cc: methods of text that lay it out
BuiltinTable NumberTable();    // builtins_number.cc: math.*, numpy.* of numbers
BuiltinTable ObjectTable();    // builtins_object.cc: getattr, partial, operator.*, dataclasses.*
BuiltinTable TupleMethods();   // builtins_object.cc: methods of a named tuple
BuiltinTable LibraryTable();   // builtins_library.cc: logging.*, warnings.*, os.*, collections.*
BuiltinTable LoggerMethods();  // builtins_library.cc
BuiltinTable SetMethods();     // builtins_set.cc
BuiltinTable SetTypes();       // builtins_set.cc: set, frozenset

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_BUILTIN_H_
