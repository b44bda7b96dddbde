// Reading values: from what the user wrote to what an operation needs, with the error when it
// does not fit.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/classes.h"
#include "compiler/lang/format_value.h"
#include "compiler/lang/lazy.h"
#include "compiler/lang/raised.h"
#include "compiler/lang/region.h"
#include "compiler/lang/suggest.h"
#include "compiler/lang/tables.h"
#include "compiler/lang/vector.h"

namespace kiln::lang {
namespace {

constexpr int kMaxChain = 6;              // notes about the calls that led to an error
constexpr uint32_t kMaxIrSize = 1 << 16;  // nodes of one IR expression, as a tree
constexpr int kMaxIrDepth = 1000;         // height of one IR expression
constexpr int64_t kMaxBytes = 512 << 20;  // of values in one elaboration

}  // namespace

Elaborator::Elaborator(const ParsedModule& module, const Limits& limits, const TargetFacts& target)
    : ElaboratorState(module, limits, target) {}

SourceLoc Elaborator::Known(SourceLoc loc) const {
  for (const Frame* f = frame_; !loc.known() && f != nullptr; f = f->parent) loc = f->call;
  return loc;
}

std::string Elaborator::At(SourceLoc loc) const {
  const SourceFile::Place place = file().PlaceOf(loc.line);
  return absl::StrCat(place.path, ":", place.line, ":", loc.column);
}

absl::Status Elaborator::Error(SourceLoc loc, std::string message, std::string remedy,
                               absl::StatusCode code) {
  loc = Known(loc);
  Diagnostic d;
  d.SetPlace(file(), loc);
  d.message = std::move(message);
  d.remedy = std::move(remedy);
  if (frame_ != nullptr && current_ != nullptr) d.notes = ValueChain(current_);
  int shown = 0;
  for (const Frame* f = frame_; f != nullptr && !f->is_entry; f = f->parent) {
    if (f->name.empty() || !f->call.known() || f->bundled) continue;
    if (++shown > kMaxChain) {
      d.notes.push_back("... more calls");
      break;
    }
    d.notes.push_back(absl::StrCat("in ", f->what, " '", f->name, "', called at ", At(f->call)));
  }
  return DiagnosticStatus(d, code);
}

absl::Status Elaborator::Unimplemented(SourceLoc loc, std::string message, std::string remedy) {
  return Error(loc, std::move(message), std::move(remedy), absl::StatusCode::kUnimplemented);
}

absl::Status Elaborator::Exhausted(SourceLoc loc, std::string message) {
  return Error(loc, std::move(message),
               "elaboration is bounded: keep compile-time loops and recursion small",
               absl::StatusCode::kResourceExhausted);
}

absl::Status Elaborator::NeedConcrete(SourceLoc loc, const ir::Expr& e, std::string why) {
  NeedsConcrete needs;
  ir::Walk(e, [&](const ir::Expr& x) {
    for (const auto& [name, var] : tunables_) {
      if (x.same_as(var) &&
          std::find(needs.tunables.begin(), needs.tunables.end(), name) == needs.tunables.end()) {
        needs.tunables.push_back(name);
      }
    }
    return true;
  });
  std::sort(needs.tunables.begin(), needs.tunables.end());
  needs.loc = loc;
  needs.why = std::move(why);
  needs_ = needs;
  return absl::AbortedError(
      absl::StrCat("needs the value of ", absl::StrJoin(needs.tunables, ", "), ": ", needs.why));
}

absl::Status Elaborator::Step(SourceLoc loc, int64_t count) {
  if (count <= limits_.steps - steps_) {
    steps_ += count;
    return absl::OkStatus();
  }
  return Exhausted(loc, absl::StrCat("elaboration took more than ", limits_.steps, " steps"));
}

absl::Status Elaborator::ChargeBytes(SourceLoc loc, int64_t bytes) {
  arena_.Charge(bytes);
  if (arena_.bytes() <= kMaxBytes) return absl::OkStatus();
  return Exhausted(loc,
                   absl::StrCat("compile-time values take more than ", kMaxBytes >> 20, " MiB"));
}

absl::Status Elaborator::CheckDepth(SourceLoc loc) {
  // A call takes about ten of these levels: the call, its blocks, its expressions.
  if (depth_ <= 10 * limits_.depth) return absl::OkStatus();
  return Exhausted(
      loc, absl::StrCat("evaluation is nested more than ", 10 * limits_.depth, " levels deep"));
}

Value AsText(Elaborator& e, const Value& v) {
  return v.Is(Type::kDType) ? e.NewStr(v.dtype().ToString()) : v;
}

Value Elaborator::NewStr(std::string text, Value shown) {
  auto* node = arena_.New<StrObject>();
  node->shown = shown;
  arena_.Charge(static_cast<int64_t>(text.size()));
  node->text = std::move(text);
  return Value::Of(Type::kStr, node);
}

Value Elaborator::NewSeq(Type type, std::vector<Value> items) {
  auto* node = arena_.New<SeqObject>();
  arena_.Charge(static_cast<int64_t>(items.size() * sizeof(Value)));
  node->items = std::move(items);
  node->region = regions_.empty() ? 0 : regions_.back().id;
  return Value::Of(type, node);
}

Value Elaborator::NewBuffer(ir::Buffer buffer) {
  auto* node = arena_.New<BufferObject>();
  node->buffer = std::move(buffer);
  return Value::Of(Type::kBuffer, node);
}

absl::StatusOr<Value> Elaborator::NewExpr(ir::Expr e, ExprInfo info, SourceLoc loc) {
  return NewExpr(Operand{std::move(e), info}, loc);
}

absl::StatusOr<Value> Elaborator::NewExpr(Operand operand, SourceLoc loc) {
  if (const auto* imm = operand.e.As<ir::IntImm>()) {
    if (imm->dtype == kInt32) return Value::Int(imm->value);
    if (imm->dtype.is_bool() && imm->dtype.is_scalar()) return Value::Bool(imm->value != 0);
  }
  nodes_ += 1;
  if (nodes_ > limits_.ir_nodes) {
    return Exhausted(
        loc, absl::StrCat("the program has more than ", limits_.ir_nodes, " expression nodes"));
  }
  if (operand.info.depth > kMaxIrDepth || operand.info.size > kMaxIrSize) {
    return Exhausted(
        loc, absl::StrCat("a run-time expression has more than ", kMaxIrSize, " operations, or ",
                          kMaxIrDepth, " inside each other; assign its parts to names"));
  }
  auto* node = arena_.New<ExprObject>();
  node->expr = std::move(operand.e);
  node->info = operand.info;
  if (node->expr.As<ir::IntImm>() || node->expr.As<ir::FloatImm>()) node->info = ExprInfo();
  return Value::Of(Type::kExpr, node);
}

bool Elaborator::IsRuntime(const Value& v) const {
  switch (v.type()) {
    case Type::kExpr:
      return true;
    case Type::kAccess:
      return v.access().is_point;
    case Type::kBuffer:
      return v.buffer().buffer->scope == ir::Scope::kVar;
    default:
      return false;
  }
}

absl::StatusOr<Operand> Elaborator::ToOperand(const Value& v, SourceLoc loc,
                                              absl::string_view what) {
  switch (v.type()) {
    case Type::kBool:
      return Operand{ir::MakeBool(v.bool_value()), {}};
    case Type::kInt: {
      const bool narrow = v.int_value() >= INT32_MIN && v.int_value() <= INT32_MAX;
      return Operand{ir::MakeInt(v.int_value(), narrow ? kInt32 : kInt64), {}};
    }
    case Type::kFloat:
      return Operand{ir::MakeFloat(v.float_value(), kFloat32), {}};
    case Type::kExpr:
      return Operand{v.expr().expr, v.expr().info};
    case Type::kBuffer:
      if (v.buffer().buffer->scope == ir::Scope::kVar) {
        ExprInfo info;
        info.size = 2;
        info.depth = 2;
        info.flags = ExprInfo::kRuntime | ExprInfo::kLoads;
        return Operand{ir::MakeLoad(v.buffer().buffer, {ir::MakeInt(0)}), info};
      }
      return Error(loc,
                   absl::StrCat(what, " must be a number or an element, not the whole buffer '",
                                v.buffer().buffer->name, "'"),
                   absl::StrCat("index it, as in ", v.buffer().buffer->name, "[...]"));
    case Type::kAccess: {
      if (!v.access().is_point) break;
      KILN_RETURN_IF_ERROR(CheckNoAddress(*this, v.access().buffer, loc));
      std::vector<ir::Expr> indices;
      for (const AccessIndex& index : v.access().indices) indices.push_back(index.min);
      ExprInfo info = v.access().info;
      info.flags |= ExprInfo::kRuntime | ExprInfo::kLoads;
      return Operand{ir::MakeLoad(v.access().buffer, std::move(indices)), info};
    }
    default:
      break;
  }
  if (v.is_import()) return NoValue(v, loc);
  if (const Value plain = Plain(v); !plain.Is(v.type())) return ToOperand(plain, loc, what);
  return Error(loc, absl::StrCat(what, " must be a number or a run-time value, not ", Describe(v)),
               LacksIndices(v)       ? IndexAll(v)
               : v.Is(Type::kAccess) ? "index every dimension with a point instead of a slice"
               : v.is_none()         ? "a parameter that is None by default gets its value in the "
                                       "config, as in block_M=64, or from what @autotune lists"
                                     : "pass a number, an element of a buffer or an expression");
}

absl::StatusOr<Operand> Elaborator::ToIndex(const Value& v, SourceLoc loc, absl::string_view what) {
  KILN_ASSIGN_OR_RETURN(Operand operand, ToOperand(v, loc, what));
  const DType type = operand.e.dtype();
  if (type.is_bool()) {
    operand.e = ir::MakeCast(kInt32, operand.e);
    return operand;
  }
  if (!type.is_int()) {
    return Error(loc, absl::StrCat(what, " must be an integer, not ", Describe(v)),
                 v.Is(Type::kFloat) ? "use // for integer division" : "use T.cast(x, \"int32\")");
  }
  if (type != kInt64 && type != kInt32) {
    operand.e = ir::MakeCast(
        type.bits < 32 || (type.bits == 32 && !type.is_uint()) ? kInt32 : kInt64, operand.e);
  }
  return operand;
}

absl::StatusOr<Operand> Elaborator::ToType(const Value& given, DType type, SourceLoc loc,
                                           absl::string_view what) {
  const Value v = given.Is(Type::kInstance) ? Plain(given) : given;
  if (v.is_number() && type.is_float()) {
    return Operand{ir::MakeFloat(v.as_double(), type), {}};
  }
  if (v.is_integer() && type.is_int()) {
    const Operand wrapped{ir::MakeInt(v.int_value(), type), {}};
    const bool fits = type.bits == 64 ? !type.is_uint() || v.int_value() >= 0
                                      : *ir::ConstInt(wrapped.e) == v.int_value();
    if (!fits) {
      return Error(
          loc,
          absl::StrCat(what, " is ", v.int_value(), ", which ", type.ToString(), " cannot hold"),
          "use a wider type");
    }
    return wrapped;
  }
  KILN_ASSIGN_OR_RETURN(Operand operand, ToOperand(v, loc, what));
  if (operand.e.dtype() == type) return operand;
  const auto* constant = operand.e.As<ir::FloatImm>();
  if (constant != nullptr && type.is_int() && constant->value != std::floor(constant->value)) {
    return Error(loc,
                 absl::StrCat(what, " is ", FormatFloat(constant->value), ", which ",
                              type.ToString(), " cannot hold"),
                 "round it with T.cast first, or use a float type");
  }
  if (constant != nullptr && type.is_int() && std::isinf(constant->value)) {
    return Error(loc, absl::StrCat(what, " is infinite, but ", type.ToString(), " has no infinity"),
                 "use T.max_value(dtype) or T.min_value(dtype)");
  }
  if (type.code == TypeCode::kHandle || operand.e.dtype().code == TypeCode::kHandle) {
    return Error(loc, absl::StrCat(what, " cannot be converted to ", type.ToString()),
                 "handles only name tensors");
  }
  if (type.is_bool()) {
    const DType from = operand.e.dtype();
    const ir::Expr zero = from.is_float() ? ir::MakeFloat(0, from) : ir::MakeInt(0, from);
    operand.e = ir::MakeBinary(ir::BinaryOp::kNe, operand.e, zero);
  } else {
    operand.e = ir::MakeCast(type, operand.e);
  }
  operand.info = Join(operand.info, {});
  return operand;
}

absl::StatusOr<int64_t> Elaborator::ToInt(const Value& v, SourceLoc loc, absl::string_view what) {
  if (v.is_integer()) return v.int_value();
  if (v.Is(Type::kExpr)) {
    const ExprObject& e = v.expr();
    if (const auto constant = ir::ConstInt(e.expr)) return *constant;
    if (e.info.open_only()) {
      return NeedConcrete(loc, e.expr, absl::StrCat(what, " must be a known integer"));
    }
  }
  if (IsRuntime(v)) {
    return NeedsValue(loc,
                      absl::StrCat(what, " must be known at compile time, but it is ", Describe(v)),
                      v.Is(Type::kExpr) ? v.expr().expr : ir::MakeInt(0),
                      "make it a parameter of the factory, a T.const size, or a constant");
  }
  if (v.is_import()) return NoValue(v, loc);
  if (const Value plain = Plain(v); !plain.Is(v.type())) return ToInt(plain, loc, what);
  return Error(loc, absl::StrCat(what, " must be an integer, not ", Describe(v)),
               v.Is(Type::kFloat) ? "use // for integer division, or int(x)" : "pass an integer");
}

absl::StatusOr<bool> Elaborator::ToBool(const Value& v, SourceLoc loc, absl::string_view what) {
  return DecideNow(v, loc, what);
}

absl::StatusOr<std::string> Elaborator::ToStr(const Value& v, SourceLoc loc,
                                              absl::string_view what) {
  if (v.Is(Type::kStr)) return v.str();
  if (v.Is(Type::kDType)) return v.dtype().ToString();
  if (v.is_import()) return NoValue(v, loc);
  if (const Value plain = Plain(v); !plain.Is(v.type())) return ToStr(plain, loc, what);
  return Error(loc, absl::StrCat(what, " must be a string, not ", Describe(v)),
               "write it in quotes");
}

absl::Status Elaborator::CheckKey(const Value& v, SourceLoc loc) {
  KILN_RETURN_IF_ERROR(Step(loc));
  if (v.Is(Type::kList) || v.Is(Type::kDict) || v.Is(Type::kSet) || v.Is(Type::kLazy)) {
    return Error(loc, absl::StrCat(Describe(v), " as the key of a dict or in a set"),
                 "keys do not change: use a tuple or a string");
  }
  if (Classes::Of(v) != nullptr) KILN_RETURN_IF_ERROR(Classes(this).CheckKey(v, loc));
  if (!v.Is(Type::kTuple)) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(CheckDepth(loc));
  CountGuard deeper(&depth_);
  for (const Value& item : v.seq().items) KILN_RETURN_IF_ERROR(CheckKey(item, loc));
  return absl::OkStatus();
}

absl::StatusOr<std::string> Elaborator::TextOf(const Value& v, SourceLoc loc) {
  constexpr size_t kLongest = 1 << 16;
  if (v.Is(Type::kStr)) return v.str();
  if (v.is_import()) return NoValue(v, loc);
  if (v.Is(Type::kInstance) || v.Is(Type::kTuple)) {
    KILN_ASSIGN_OR_RETURN(auto own, Classes(this).Text(v, /*repr=*/false, loc));
    if (own.has_value()) return *std::move(own);
  }
  KILN_RETURN_IF_ERROR(Classes(this).CheckItemTexts(v, loc));
  std::string text = Repr(v, kLongest);
  KILN_RETURN_IF_ERROR(Step(loc, static_cast<int64_t>(text.size() / 8)));
  if (text.size() <= kLongest) return text;
  return Exhausted(
      loc, absl::StrCat("the text of ", Describe(v), " is longer than ", kLongest, " characters"));
}

absl::StatusOr<DType> Elaborator::ToDType(const Value& v, SourceLoc loc) {
  if (v.Is(Type::kDType) && v.dtype().lanes > 1) {
    return Error(loc, absl::StrCat(v.dtype().ToString(), ", a type of vectors"),
                 "give the element's type, and the lanes as a dimension or with T.Ramp");
  }
  if (v.Is(Type::kDType)) return v.dtype();
  if (v.Is(Type::kStr)) {
    absl::string_view name = v.str();
    for (absl::string_view prefix : {"torch.", "T."}) {
      if (name.substr(0, prefix.size()) == prefix) name.remove_prefix(prefix.size());
    }
    if (const auto type = ParseDType(name)) return *type;
    if (const auto type = ParseVectorType(name)) return ToDType(Value::OfDType(*type), loc);
    return Error(loc, absl::StrCat("'", v.str(), "' is not a dtype that Kiln supports"),
                 DidYouMean(name,
                            {"float64", "float32", "float16", "bfloat16", "float8_e4m3fn",
                             "float8_e5m2", "int8", "int16", "int32", "int64", "uint8", "uint16",
                             "uint32", "uint64", "bool"},
                            "use float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, "
                            "int8 to int64, uint8 to uint64 or bool"));
  }
  if (v.Is(Type::kTypeName)) {
    const absl::string_view name = v.type_name();
    if (name == "int") return kInt32;
    if (name == "float") return kFloat32;
    if (name == "bool") return kBool;
  }
  if (v.is_import()) return NoValue(v, loc);
  if (const Value plain = Plain(v); !plain.Is(v.type())) return ToDType(plain, loc);
  return Error(loc, absl::StrCat("expected a dtype, found ", Describe(v)),
               "pass T.float32, \"float32\" or the like");
}

absl::StatusOr<std::vector<Value>> Elaborator::ToItems(const Value& v, SourceLoc loc,
                                                       absl::string_view what) {
  if (v.is_sequence() || v.Is(Type::kRange)) return Iterate(v, loc);
  return Error(loc, absl::StrCat(what, " must be a tuple or a list, not ", Describe(v)),
               "write (a, b) or [a, b]");
}

absl::StatusOr<std::vector<Operand>> Elaborator::ToShape(const Value& given, SourceLoc loc,
                                                         absl::string_view what) {
  const Value v = Plain(given);
  std::vector<Value> items;
  if (v.is_integer() || IsRuntime(v)) {
    items.push_back(v);
  } else {
    KILN_ASSIGN_OR_RETURN(items, ToItems(v, loc, what));
  }
  std::vector<Operand> shape;
  for (const Value& item : items) {
    KILN_ASSIGN_OR_RETURN(Operand extent, ToIndex(item, loc, what));
    shape.push_back(std::move(extent));
  }
  return shape;
}

// What __bool__ gave.
static absl::StatusOr<Value> CheckTruth(Elaborator& e, const Value& said, SourceLoc loc) {
  if (said.Is(Type::kBool) || e.IsRuntime(said)) return said;
  return Raised(e.Error(loc, absl::StrCat("__bool__ gives ", Describe(said), ", not True or False"),
                        "return a comparison, or bool(...) of the value"),
                "TypeError");
}

absl::StatusOr<Value> CheckLength(Elaborator& e, const Value& said, SourceLoc loc) {
  if (e.IsRuntime(said)) return said;
  const Value plain = Plain(said);
  if (!plain.is_integer()) {
    return Raised(e.Error(loc, absl::StrCat("__len__ gives ", Describe(said), ", not an integer"),
                          "return a number of items"),
                  "TypeError");
  }
  if (plain.int_value() >= 0) return Value::Int(plain.int_value());
  return Raised(
      e.Error(loc, absl::StrCat("__len__ gives ", plain.int_value(), ", which is negative"),
              "return a number of items"),
      "ValueError");
}

absl::StatusOr<Condition> Elaborator::Decide(const Value& v, SourceLoc loc) {
  Condition c;
  c.known = true;
  switch (v.type()) {
    case Type::kNone:
      c.value = false;
      return c;
    case Type::kBool:
    case Type::kInt:
      c.value = v.int_value() != 0;
      return c;
    case Type::kFloat:
      c.value = v.float_value() != 0;
      return c;
    case Type::kStr:
      c.value = !v.str().empty();
      return c;
    case Type::kInstance:
      if (const Value plain = Plain(v); !plain.Is(v.type())) return Decide(plain, loc);
      for (const bool length : {false, true}) {
        KILN_ASSIGN_OR_RETURN(const auto own,
                              Classes(this).Special(v, length ? "__len__" : "__bool__", {}, loc));
        if (!own.has_value()) continue;
        KILN_ASSIGN_OR_RETURN(const Value said, length ? CheckLength(*this, *own, loc)
                                                       : CheckTruth(*this, *own, loc));
        return Decide(said, loc);
      }
      if (const auto flags = Classes::FlagsIn(v)) {
        c.value = AttributeOf(v.instance(), "value")->int_value() != 0;
        return c;
      }
      c.value = true;
      return c;
    case Type::kLazy:
      c.value = IsIterator(v) || !LazyOf(v).sources[0].container.dict().items.empty();
      return c;
    case Type::kTuple:
    case Type::kList:
      c.value = !v.seq().items.empty();
      return c;
    case Type::kDict:
    case Type::kSet:
      c.value = !v.dict().items.empty();
      return c;
    case Type::kRange:
      c.value = v.range().Count() != 0;
      return c;
    case Type::kBuffer:
      if (v.buffer().buffer->scope != ir::Scope::kVar) {
        return Error(
            loc, absl::StrCat("the buffer '", v.buffer().buffer->name, "' cannot be a condition"),
            "compare one of its elements, as in x[i] > 0");
      }
      break;
    case Type::kExpr:
    case Type::kAccess:
      break;
    case Type::kLoop:
    case Type::kLaunch:
    case Type::kThreads:
    case Type::kCombiner:
    case Type::kUnknown:
    case Type::kTensorType:
    case Type::kArray:
      if (v.is_import()) return NoValue(v, loc);
      return Error(loc, absl::StrCat(Describe(v), " cannot be a condition"),
                   "compare a number instead");
    default:
      c.value = true;
      return c;
  }
  KILN_ASSIGN_OR_RETURN(c.expr, ToType(v, kBool, loc, "a condition"));
  if (const auto constant = ir::ConstInt(c.expr.e)) {
    c.value = *constant != 0;
    return c;
  }
  c.known = false;
  return c;
}

absl::StatusOr<bool> Elaborator::DecideNow(const Value& v, SourceLoc loc, absl::string_view what) {
  KILN_ASSIGN_OR_RETURN(const Condition c, Decide(v, loc));
  if (c.known) return c.value;
  if (c.expr.info.open_only()) {
    return NeedConcrete(loc, c.expr.e, absl::StrCat(what, " depends on it"));
  }
  return NeedsValue(loc,
                    absl::StrCat(what, " must be known at compile time, but it is ", Describe(v)),
                    c.expr.e, "decide on constants, parameters and T.const sizes only");
}

absl::StatusOr<Value> Elaborator::Decay(const Value& v, SourceLoc loc) {
  if (v.Is(Type::kExpr) || !IsRuntime(v)) return v;
  KILN_ASSIGN_OR_RETURN(Operand operand, ToOperand(v, loc, "the value"));
  return NewExpr(std::move(operand), loc);
}

absl::StatusOr<std::vector<Value>> Elaborator::Iterate(const Value& v, SourceLoc loc) {
  if (reads_ != nullptr) reads_->Note(v);
  switch (v.type()) {
    case Type::kLazy:
      return TakeItems(*this, LazyOf(v), loc);
    case Type::kTuple:
    case Type::kList:
      KILN_RETURN_IF_ERROR(Step(loc, static_cast<int64_t>(v.seq().items.size())));
      return v.seq().items;
    case Type::kRange: {
      const RangeObject& range = v.range();
      const int64_t count = range.Count();
      KILN_RETURN_IF_ERROR(Step(loc, count));
      KILN_RETURN_IF_ERROR(ChargeBytes(loc, count * static_cast<int64_t>(sizeof(Value))));
      std::vector<Value> items;
      items.reserve(count);
      for (int64_t i = 0; i < count; ++i) items.push_back(Value::Int(range.start + i * range.step));
      return items;
    }
    case Type::kDict: {
      std::vector<Value> keys;
      for (const auto& [key, item] : v.dict().items) keys.push_back(key);
      KILN_RETURN_IF_ERROR(Step(loc, static_cast<int64_t>(keys.size())));
      return keys;
    }
    case Type::kSet:
      return Error(loc, "a set has no order in which its items come",
                   "use sorted(...) of it, or a tuple or list in its place");
    case Type::kDType:
      return Iterate(AsText(*this, v), loc);
    case Type::kClass:
      return Classes(this).Cases(v, loc);
    case Type::kInstance:
      if (auto flags = Classes::FlagsIn(v)) return *std::move(flags);
      if (const Value plain = Plain(v); !plain.Is(v.type())) return Iterate(plain, loc);
      break;
    case Type::kStr: {
      std::vector<Value> chars;
      KILN_RETURN_IF_ERROR(CheckKnownText(*this, v, loc, "the number of characters"));
      KILN_RETURN_IF_ERROR(CheckAscii(*this, v, loc, "the characters"));
      KILN_RETURN_IF_ERROR(ChargeBytes(loc, static_cast<int64_t>(v.str().size()) * 96));
      KILN_RETURN_IF_ERROR(Step(loc, static_cast<int64_t>(v.str().size())));
      for (char c : v.str()) chars.push_back(NewStr(std::string(1, c)));
      return chars;
    }
    case Type::kLoop:
      if (v.loop().domain.empty() && v.loop().extents[0].info.open_only()) {
        return NeedConcrete(loc, v.loop().extents[0].e, "a range over it is evaluated now");
      }
      return NeedsValue(
          loc, absl::StrCat(v.loop().name, " makes a run-time loop and cannot be iterated here"),
          v.loop().domain.empty() ? v.loop().extents[0].e : ir::MakeInt(0),
          "use it in a for statement; a comprehension takes range(n) or a list");
    default:
      break;
  }
  if (v.is_import()) return NoValue(v, loc);
  if (v.Is(Type::kExpr) && v.expr().info.open_only()) {
    return NeedConcrete(loc, v.expr().expr, "it is iterated over");
  }
  return NeedsValue(loc, absl::StrCat(Describe(v), " cannot be iterated over"),
                    v.Is(Type::kExpr) ? v.expr().expr : ir::MakeInt(0),
                    "iterate over a range, list, tuple or dict");
}

ExprInfo Elaborator::InfoOf(const ir::Expr& e) const {
  ExprInfo info;
  if (!e.defined()) return info;
  uint32_t size = 0;
  ir::Walk(e, [&](const ir::Expr& x) {
    ++size;
    if (x.As<ir::Var>()) {
      const bool open = std::any_of(tunables_.begin(), tunables_.end(),
                                    [&](const auto& entry) { return x.same_as(entry.second); });
      info.flags |= open ? ExprInfo::kOpen : ExprInfo::kRuntime;
    }
    if (x.As<ir::Load>()) info.flags |= ExprInfo::kRuntime | ExprInfo::kLoads;
    return true;
  });
  info.size = size;
  info.depth = static_cast<uint16_t>(std::min<uint32_t>(size, 900));
  return info;
}

}  // namespace kiln::lang
