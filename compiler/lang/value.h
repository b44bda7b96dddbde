// Compile-time values of the elaborator: Python's plain data, functions, dtypes, and the handles
// that stand for run-time things (expressions, buffers, regions).
//
// A Value is a 16-byte tagged word, copied freely. What it points to belongs to the Arena of one
// elaboration and lives as long as it; cycles are harmless. Integers are 64-bit: an overflow is
// an error, never a wrap.
#ifndef KILN_COMPILER_LANG_VALUE_H_
#define KILN_COMPILER_LANG_VALUE_H_

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/base/diagnostic.h"
#include "compiler/base/dtype.h"
#include "compiler/ir/stmt.h"
#include "compiler/lang/ast.h"
#include "compiler/lang/operand.h"

namespace kiln::lang {

enum class Type : uint8_t {
  kNone,
  kEllipsis,
  kBool,
  kInt,
  kFloat,
  kStr,
  kDType,
  kTuple,
  kList,
  kDict,
  kSet,   // a DictObject of its items, without values
  kLazy,  // what Python computes when it is used (lazy.h)
  kRange,
  kSlice,
  kFunction,
  kBuiltin,
  kMethod,
  kModule,
  kEnum,
  kExpr,
  kBuffer,
  kAccess,
  kLoop,
  kLaunch,
  kThreads,
  kCombiner,
  kTensorType,
  kTypeName,
  kLayout,
  kTerm,
  kClass,
  kInstance,
  kArray,
  kPartial,
  kUnknown,
};

struct Object {
  virtual ~Object() = default;
  int64_t number = 0;           // of all that the arena made, in order
  mutable int64_t changes = 0;  // of a list, dict, set or instance: how often it was changed
};
struct StrObject;
struct SeqObject;
struct DictObject;
struct RangeObject;
struct SliceObject;
struct FunctionObject;
struct MethodObject;
struct ExprObject;
struct BufferObject;
struct AccessObject;
struct LoopObject;
struct LaunchObject;
struct ThreadsObject;
struct CombinerObject;
struct TensorTypeObject;
struct LayoutObject;
struct TermObject;
struct ClassObject;
struct InstanceObject;
struct ArrayObject;
struct PartialObject;
struct UnknownObject;
struct Builtin;
struct Module;
struct EnumMember;

class Value {
 public:
  Value() = default;
  static Value None() { return Value(); }
  static Value Ellipsis() { return Value(Type::kEllipsis, int64_t{0}); }
  static Value Bool(bool b) { return Value(Type::kBool, int64_t{b}); }
  static Value Int(int64_t i) { return Value(Type::kInt, i); }
  static Value Float(double f);
  static Value OfDType(DType type);
  static Value OfBuiltin(const Builtin* b) { return Value(Type::kBuiltin, b); }
  static Value OfModule(const Module* m) { return Value(Type::kModule, m); }
  static Value OfEnum(const EnumMember* m) { return Value(Type::kEnum, m); }
  // A Python type used as a value: its name is a literal ("int", "float", "Any").
  static Value TypeName(const char* name) { return Value(Type::kTypeName, name); }
  static Value Of(Type type, const Object* object) { return Value(type, object); }

  Type type() const { return type_; }
  bool Is(Type t) const { return type_ == t; }
  bool is_none() const { return type_ == Type::kNone; }
  bool is_sequence() const { return type_ == Type::kTuple || type_ == Type::kList; }
  // bool, int or float: Python's numbers.
  bool is_number() const {
    return type_ == Type::kBool || type_ == Type::kInt || type_ == Type::kFloat;
  }
  bool is_import() const;  // without a value
  bool is_integer() const { return type_ == Type::kBool || type_ == Type::kInt; }

  bool bool_value() const { return int_ != 0; }
  int64_t int_value() const { return int_; }
  double float_value() const { return float_; }
  double as_double() const { return type_ == Type::kFloat ? float_ : static_cast<double>(int_); }
  DType dtype() const;
  const Builtin* builtin() const { return static_cast<const Builtin*>(pointer_); }
  const Module* module() const { return static_cast<const Module*>(pointer_); }
  const EnumMember* member() const { return static_cast<const EnumMember*>(pointer_); }
  const char* type_name() const { return static_cast<const char*>(pointer_); }
  const void* pointer() const { return pointer_; }

  const std::string& str() const;
  const StrObject& text() const { return Get<StrObject>(); }
  SeqObject& seq() const { return Get<SeqObject>(); }
  DictObject& dict() const { return Get<DictObject>(); }
  const RangeObject& range() const { return Get<RangeObject>(); }
  const SliceObject& slice() const { return Get<SliceObject>(); }
  FunctionObject& function() const { return Get<FunctionObject>(); }
  const MethodObject& method() const { return Get<MethodObject>(); }
  const ExprObject& expr() const { return Get<ExprObject>(); }
  const BufferObject& buffer() const { return Get<BufferObject>(); }
  const AccessObject& access() const { return Get<AccessObject>(); }
  LoopObject& loop() const { return Get<LoopObject>(); }
  LaunchObject& launch() const { return Get<LaunchObject>(); }
  ThreadsObject& threads() const { return Get<ThreadsObject>(); }
  CombinerObject& combiner() const { return Get<CombinerObject>(); }
  const TensorTypeObject& tensor_type() const { return Get<TensorTypeObject>(); }
  const LayoutObject& layout() const { return Get<LayoutObject>(); }
  const TermObject& term() const { return Get<TermObject>(); }
  ClassObject& type_object() const { return Get<ClassObject>(); }
  InstanceObject& instance() const { return Get<InstanceObject>(); }
  const ArrayObject& array() const { return Get<ArrayObject>(); }
  const PartialObject& partial() const { return Get<PartialObject>(); }
  const UnknownObject& unknown() const { return Get<UnknownObject>(); }

 private:
  Value(Type type, int64_t i) : type_(type), int_(i) {}
  Value(Type type, const void* p) : type_(type), pointer_(p) {}
  template <typename T>
  T& Get() const {
    return *static_cast<T*>(const_cast<Object*>(static_cast<const Object*>(pointer_)));
  }

  Type type_ = Type::kNone;
  union {
    int64_t int_ = 0;
    double float_;
    const void* pointer_;
  };
};

struct StrObject : Object {
  std::string text;
  Value shown;  // a number of run time whose name stands in it for its digits (kExpr), or None
};
struct SeqObject : Object {  // tuple and list
  std::vector<Value> items;
  int region = 0;                      // where it was made: a mutation elsewhere would be lost
  const ClassObject* named = nullptr;  // of a named tuple: its class
};
struct DictObject : Object {
  std::vector<std::pair<Value, Value>> items;  // in order of insertion
  int region = 0;
  Value factory;        // of a defaultdict: makes the value of a key that is not there
  bool frozen = false;  // of a set: it does not change
};
struct RangeObject : Object {
  int64_t start = 0, stop = 0, step = 1;
  int64_t Count() const;
};
struct SliceObject : Object {
  Value start, stop, step;
};

struct Scope;
enum class FunctionKind : uint8_t { kPlain, kMacro, kPrimFunc, kJit };

// What the decorators of a function say.
struct JitOptions {
  std::vector<int64_t> out_idx;
  bool has_out_idx = false;
  std::vector<std::pair<std::string, std::string>> attrs;
};

// How a function of a class is read through an instance.
enum class MethodKind : uint8_t { kMethod, kProperty, kStatic, kClass };

struct FunctionObject : Object {
  FunctionKind kind = FunctionKind::kPlain;
  MethodKind method = MethodKind::kMethod;
  const ClassObject* owner = nullptr;  // the class that defines it
  bool stores = false;                 // of a class: its statements become IR
  const ast::Function* def = nullptr;  // one of def, lambda
  const ast::Lambda* lambda = nullptr;
  Scope* closure = nullptr;       // null: the module
  bool traced = false;            // a lambda written inside a kernel
  DictObject* results = nullptr;  // under functools.cache: of calls, by their arguments
  int64_t most_results = -1;      // that lru_cache keeps, those used last; -1: all
  bool typed = false;             // of lru_cache: arguments of other types are others
  bool kept = false;              // of a property: the object keeps its value
  Value wrapped;                  // by functools.wraps: the function that it is named after
  std::vector<Value> defaults;    // one a parameter; ignored where it has none
  JitOptions jit;
  const std::vector<ast::Param>& params() const { return def ? def->params : lambda->params; }
  absl::string_view name() const { return def ? absl::string_view(def->name) : "<lambda>"; }
};

struct MethodObject : Object {
  Value self;
  const Builtin* function = nullptr;  // takes self as its first argument
  Value callee;                       // or a function of a class that does
};

// A field of a dataclass or a named tuple.
struct ClassField {
  std::string name;
  Value value;  // its default, or the function that makes it
  bool optional = false, made = false, by_keyword = false;
  bool taken = true, shown = true, compared = true;  // by the constructor, repr, ==
  bool passed_on = false;                            // to __post_init__ alone (InitVar)
};
enum class ClassKind : uint8_t { kPlain, kDataclass, kEnum, kNamedTuple };

// A class: evaluated when it is first used, so that classes of host code cost nothing.
struct ClassObject : Object {
  const ast::Class* def = nullptr;
  Scope* closure = nullptr;  // of its functions; null: the module
  Scope* around = nullptr;   // where its statement stands, the body of a class too
  bool ready = false, preparing = false;
  size_t before = SIZE_MAX;  // its body reads globals as they are before this statement
  std::vector<Value> bases;
  std::vector<Value> order;  // the classes that a member is looked for in, behind its own
  std::vector<std::pair<std::string, Value>> members;
  ClassKind kind = ClassKind::kPlain;  // what Python's library makes of it (classes.h)
  std::vector<ClassField> fields;
  bool frozen = false, ordered = false, identical = false, by_keyword = false;  // of a dataclass
  bool hashed = false;                            // of a dataclass: by unsafe_hash
  std::optional<std::vector<std::string>> slots;  // of its own, by __slots__ or slots=True
  // Members of an enum: numbers or text; shown as those; of StrEnum.
  bool is_value = false, shows_value = false, is_text = false;
  bool is_flag = false;         // members are sets of bits
  std::vector<Value> cases;     // of an enum, each value once; of a flag those of one bit
  std::vector<Value> combined;  // other members of a flag that were asked for
};
struct InstanceObject : Object {
  const ClassObject* type = nullptr;  // null: of the host (what names it)
  const char* what = "";
  std::string name;  // that it was first bound to; its buffers are named after it
  std::vector<std::pair<std::string, Value>> attributes;
  int region = 0;
  bool closed = false;  // no attribute may be assigned
};
struct PartialObject : Object {  // functools.partial
  Value callee;
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
};
// A tensor of the host (torch, numpy): its shape and element type, no data.
struct ArrayObject : Object {
  std::vector<Value> shape;
  DType dtype;
};
struct ExprObject : Object {
  ir::Expr expr;
  ExprInfo info;
  const AccessObject* origin = nullptr;  // the element that a bound name stands for
};
struct BufferObject : Object {
  ir::Buffer buffer;
};

// One index of a subscripted buffer.
struct AccessIndex {
  ir::Expr min;
  ir::Expr extent;  // 1 for a point
  bool is_slice = false;
};
struct AccessObject : Object {
  ir::Buffer buffer;
  std::vector<AccessIndex> indices;  // one a dimension
  bool is_point = false;             // an element; as a tile: its start, extents to be found
  size_t missing = 0;                // of the indices, at the end: the kernel gives none
  ExprInfo info;
};

struct LoopObject : Object {
  const char* name = "";  // "T.serial"
  ir::ForKind kind = ir::ForKind::kSerial;
  bool grid = false;                     // T.grid: nested serial loops
  std::vector<Operand> starts, extents;  // one an axis
  Operand step;                          // undefined = 1; one-axis loops only
  ir::Expr num_stages;
  std::map<std::string, std::string> annotations;
  std::vector<Value> domain;  // T.Persistent: of the tiles, in place of starts and extents
  Value wave, index, group;
};
struct LaunchObject : Object {
  std::vector<Operand> grid;
  std::vector<ir::Expr> threads;
  std::vector<int64_t> cluster;  // blocks along each axis of the grid; empty: one
};
struct ThreadsObject : Object {  // T.ws: threads [first, first + count) of the block
  int64_t first = 0, count = 0;
};
struct CombinerObject : Object {  // T.comm_reducer: how the values of two threads become one
  Value function, identity;
};
struct TensorTypeObject : Object {
  const char* name = "T.Tensor";
  std::vector<Value> shape;
  std::vector<Value> strides;  // empty: row-major
  Value dtype;
};
struct LayoutObject : Object {
  std::string text;
  bool of_threads = false;  // T.Fragment: says who holds an element; else where in memory it lies
  std::vector<ir::Expr> shape;  // empty: of whatever buffer it is given to
  int64_t elements = 0;         // of a TIRx layout, whose buffer has as many; else 0
};
// A part of TIRx's notation (builtins_tirx.cc), as the text that layout/text.h reads.
struct TermObject : Object {
  enum class Kind : uint8_t {
    kAxis,     // laneid
    kStep,     // 4@laneid
    kSpec,     // S[(8,4):(4@laneid,1@laneid)] + 5@warpid
    kSwizzle,  // <3,3,3>
  };
  Kind kind = Kind::kSpec;
  std::string text;
};
struct UnknownObject : Object {
  std::string path;    // "numpy.random"
  std::string reason;  // why it has no value
  std::string module;  // of an import: the module that is not there
  std::string remedy;  // what to do instead, where that is known
};

// A member of one of the language's enums (T.GemmWarpPolicy.FullRow).
struct EnumMember {
  const char* enum_name;
  const char* name;
  int64_t value;
  const char* text = nullptr;  // its value, where that is a string
};

// Of two numbers of Python's, exactly: a float is not rounded to an integer, nor one to a float.
std::partial_ordering OrderOf(const Value& a, const Value& b);

// A member of an IntEnum or its like as the number or text that it is; anything else as it is.
Value Plain(const Value& value);
// The attribute of the instance by that name, null: it has none of its own.
const Value* AttributeOf(const InstanceObject& instance, absl::string_view name);
// "an integer", "a buffer", ...: what diagnostics call a value.
std::string Describe(const Value& value);
// Python's repr of plain data: "(128, 64)", "'float16'". Longer text is cut at `limit` and ends in
// "...".
std::string Repr(const Value& value, size_t limit = 200);
// The first number of run time (kExpr) that a text of the value would show; None: there is none.
Value ShownIn(const Value& value);
std::string FormatFloat(double value);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_VALUE_H_
