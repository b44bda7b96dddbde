#include "compiler/lang/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/ir/printer.h"
#include "compiler/lang/builtin.h"
#include "compiler/lang/lazy.h"

namespace kiln::lang {
namespace {

// Text of a value, up to a length and a nesting that bound what a list that holds itself costs.
struct ReprText {
  std::string text;
  size_t limit;
  int max_depth;
  bool full() const { return text.size() >= limit; }
};

void AppendRepr(const Value& value, int depth, ReprText* out);

void AppendItems(const std::vector<Value>& items, int depth, ReprText* out) {
  for (size_t i = 0; i < items.size() && !out->full(); ++i) {
    if (i) out->text.append(", ");
    AppendRepr(items[i], depth + 1, out);
  }
}

// dict_keys([...]); an iterator has no text of its own.
void AppendView(const LazyObject& view, int depth, ReprText* out) {
  static constexpr const char* kNames[] = {"dict_keys", "dict_values", "dict_items"};
  if (view.kind == LazyKind::kIterator) {
    out->text.append("<an iterator>");
    return;
  }
  absl::StrAppend(&out->text, kNames[static_cast<int>(view.kind)], "([");
  const char* between = "";
  for (const auto& [key, item] : view.sources[0].container.dict().items) {
    if (out->full()) break;
    out->text.append(std::exchange(between, ", "));
    if (view.kind == LazyKind::kItems) out->text.push_back('(');
    if (view.kind != LazyKind::kValues) AppendRepr(key, depth + 1, out);
    if (view.kind == LazyKind::kItems) out->text.append(", ");
    if (view.kind != LazyKind::kKeys) AppendRepr(item, depth + 1, out);
    if (view.kind == LazyKind::kItems) out->text.push_back(')');
  }
  out->text.append("])");
}

void AppendStr(const std::string& text, ReprText* out) {
  const char quote =
      text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  out->text.push_back(quote);
  for (char c : text.substr(0, out->limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n' || c == '\t' || c == '\r') {
      out->text.append(c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r");
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&out->text, "\\x%02x", byte);
    } else if (c == '\\' || c == quote) {
      out->text.push_back('\\');
      out->text.push_back(c);
    } else {
      out->text.push_back(c);
    }
  }
  out->text.push_back(quote);
}

// Of a dataclass or named tuple: "Tile(m=64, n=16)".
void AppendFields(const ClassObject& type, const Value& value, int depth, ReprText* out) {
  absl::StrAppend(&out->text, type.def->name, "(");
  bool first = true;
  for (size_t i = 0; i < type.fields.size() && !out->full(); ++i) {
    const ClassField& field = type.fields[i];
    const Value* item =
        value.Is(Type::kTuple) ? &value.seq().items[i] : AttributeOf(value.instance(), field.name);
    if (!field.shown || item == nullptr) continue;
    absl::StrAppend(&out->text, first ? "" : ", ", field.name, "=");
    first = false;
    AppendRepr(*item, depth + 1, out);
  }
  out->text.push_back(')');
}

void AppendRepr(const Value& value, int depth, ReprText* out) {
  if (out->full() || depth > out->max_depth) {
    out->text.append("...");
    return;
  }
  switch (value.type()) {
    case Type::kNone:
      out->text.append("None");
      return;
    case Type::kEllipsis:
      out->text.append("Ellipsis");
      return;
    case Type::kBool:
      out->text.append(value.bool_value() ? "True" : "False");
      return;
    case Type::kInt:
      absl::StrAppend(&out->text, value.int_value());
      return;
    case Type::kFloat:
      out->text.append(FormatFloat(value.float_value()));
      return;
    case Type::kStr:
      AppendStr(value.str(), out);
      return;
    case Type::kDType:
      out->text.append(value.dtype().ToString());
      return;
    case Type::kRange: {
      const RangeObject& r = value.range();
      absl::StrAppend(&out->text, "range(", r.start, ", ", r.stop);
      absl::StrAppend(&out->text, r.step == 1 ? "" : absl::StrCat(", ", r.step), ")");
      return;
    }
    case Type::kTuple:
      if (value.seq().named != nullptr) {
        AppendFields(*value.seq().named, value, depth, out);
        return;
      }
      out->text.push_back('(');
      AppendItems(value.seq().items, depth, out);
      if (value.seq().items.size() == 1) out->text.push_back(',');
      out->text.push_back(')');
      return;
    case Type::kList:
      out->text.push_back('[');
      AppendItems(value.seq().items, depth, out);
      out->text.push_back(']');
      return;
    case Type::kLazy:
      AppendView(LazyOf(value), depth, out);
      return;
    case Type::kDict: {
      out->text.push_back('{');
      bool first = true;
      for (const auto& [key, item] : value.dict().items) {
        if (!first) out->text.append(", ");
        first = false;
        AppendRepr(key, depth + 1, out);
        out->text.append(": ");
        AppendRepr(item, depth + 1, out);
        if (out->full()) break;
      }
      out->text.push_back('}');
      return;
    }
    case Type::kSet: {
      const bool frozen = value.dict().frozen;
      if (value.dict().items.empty()) {
        out->text.append(frozen ? "frozenset()" : "set()");
        return;
      }
      if (frozen) out->text.append("frozenset(");
      std::vector<Value> items;
      for (const auto& [item, unused] : value.dict().items) items.push_back(item);
      out->text.push_back('{');
      AppendItems(items, depth, out);
      out->text.append(frozen ? "})" : "}");
      return;
    }
    case Type::kExpr:
      if (value.expr().info.size > 200) {
        out->text.append("<expression>");
      } else {
        out->text.append(ir::ToString(value.expr().expr));
      }
      return;
    case Type::kBuffer:
      out->text.append(value.buffer().buffer->name);
      return;
    case Type::kEnum:
      absl::StrAppend(&out->text, value.member()->enum_name, ".", value.member()->name);
      return;
    case Type::kTypeName:
      out->text.append(value.type_name());
      return;
    case Type::kInstance: {
      const InstanceObject& instance = value.instance();
      const ClassKind kind = instance.type == nullptr ? ClassKind::kPlain : instance.type->kind;
      if (kind == ClassKind::kEnum) {
        absl::StrAppend(&out->text, "<", instance.type->def->name, instance.name.empty() ? "" : ".",
                        instance.name, ": ");
        AppendRepr(*AttributeOf(instance, "value"), depth + 1, out);
        out->text.push_back('>');
        return;
      }
      if (kind == ClassKind::kDataclass) {
        AppendFields(*instance.type, value, depth, out);
        return;
      }
      absl::StrAppend(&out->text, "<", Describe(value), ">");
      return;
    }
    default:
      absl::StrAppend(&out->text, "<", Describe(value), ">");
      return;
  }
}

}  // namespace

Value Value::Float(double f) {
  Value v;
  v.type_ = Type::kFloat;
  v.float_ = f;
  return v;
}

const Value* AttributeOf(const InstanceObject& instance, absl::string_view name) {
  for (const auto& [key, value] : instance.attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

Value Plain(const Value& value) {
  if (!value.Is(Type::kInstance)) return value;
  const InstanceObject& instance = value.instance();
  if (instance.type == nullptr || !instance.type->is_value) return value;
  const Value* held = AttributeOf(instance, "value");
  return held == nullptr ? value : *held;
}

Value Value::OfDType(DType type) {
  return Value(Type::kDType,
               static_cast<int64_t>(type.code) << 32 | int64_t{type.bits} << 16 | type.lanes);
}

DType Value::dtype() const {
  return {static_cast<TypeCode>(int_ >> 32), static_cast<uint8_t>(int_ >> 16 & 0xFF),
          static_cast<uint16_t>(int_ & 0xFFFF)};
}

const std::string& Value::str() const {
  return static_cast<const StrObject*>(static_cast<const Object*>(pointer_))->text;
}

bool Value::is_import() const { return Is(Type::kUnknown) && !unknown().module.empty(); }

int64_t RangeObject::Count() const {
  const __int128 distance =
      step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  if (distance <= 0) return 0;
  const __int128 width = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 count = (distance + width - 1) / width;
  return count > INT64_MAX ? INT64_MAX : static_cast<int64_t>(count);
}

ExprInfo Join(const ExprInfo& a, const ExprInfo& b) {
  ExprInfo info;
  const uint64_t size = uint64_t{a.size} + b.size + 1;
  info.size = size > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(size);
  const int depth = std::max(a.depth, b.depth) + 1;
  info.depth = static_cast<uint16_t>(std::min(depth, 65535));
  info.flags = a.flags | b.flags;
  return info;
}

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // Python's repr: the shortest digits that read back, with an exponent outside [1e-4, 1e16).
  const double size = std::abs(value);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  char text[400];
  const auto result =
      std::to_chars(text, text + sizeof(text), value,
                    fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string out(text, result.ptr);
  if (fixed && out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::string Describe(const Value& value) {
  switch (value.type()) {
    case Type::kNone:
      return "None";
    case Type::kEllipsis:
      return "an ellipsis";
    case Type::kBool:
      return "a bool";
    case Type::kInt:
      return "an integer";
    case Type::kFloat:
      return "a float";
    case Type::kStr:
      return "a string";
    case Type::kDType:
      return "a dtype";
    case Type::kTuple:
      return "a tuple";
    case Type::kList:
      return "a list";
    case Type::kLazy: {
      static constexpr const char* kNames[] = {"the keys of a dict", "the values of a dict",
                                               "the items of a dict", "an iterator"};
      return kNames[static_cast<int>(LazyOf(value).kind)];
    }
    case Type::kDict:
      return "a dict";
    case Type::kSet:
      return "a set";
    case Type::kRange:
      return "a range";
    case Type::kSlice:
      return "a slice";
    case Type::kFunction:
      switch (value.function().kind) {
        case FunctionKind::kMacro:
          return "a macro";
        case FunctionKind::kPrimFunc:
        case FunctionKind::kJit:
          return "a kernel";
        default:
          return "a function";
      }
    case Type::kBuiltin:
      return absl::StrCat("the function ", value.builtin()->name);
    case Type::kMethod:
      return "a method";
    case Type::kModule:
      return "a module";
    case Type::kEnum:
      return "an enum member";
    case Type::kExpr:
      return absl::StrCat("a run-time ", value.expr().expr.dtype().ToString());
    case Type::kBuffer:
      return absl::StrCat("the buffer '", value.buffer().buffer->name, "'");
    case Type::kAccess:
      if (value.access().missing > 0) {
        const size_t rank = value.access().indices.size(), given = rank - value.access().missing;
        return absl::StrCat("a part of '", value.access().buffer->name, "' (", rank,
                            " dimensions, ", given, given == 1 ? " index)" : " indices)");
      }
      return absl::StrCat(value.access().is_point ? "an element of '" : "a region of '",
                          value.access().buffer->name, "'");
    case Type::kLoop:
      return absl::StrCat("the loop ", value.loop().name);
    case Type::kLaunch:
      return "T.Kernel(...)";
    case Type::kThreads:
      return "T.ws(...)";
    case Type::kCombiner:
      return "T.comm_reducer(...)";
    case Type::kTensorType:
      return "a tensor annotation";
    case Type::kTypeName:
      return absl::StrCat("the type '", value.type_name(), "'");
    case Type::kLayout:
      return "a layout";
    case Type::kTerm:
      return absl::StrCat("'", value.term().text, "', a part of a layout");
    case Type::kClass:
      return absl::StrCat("the class '", value.type_object().def->name, "'");
    case Type::kInstance: {
      const InstanceObject& instance = value.instance();
      return instance.type == nullptr ? std::string(instance.what)
                                      : absl::StrCat("a ", instance.type->def->name);
    }
    case Type::kArray:
      return "a tensor of the host";
    case Type::kPartial:
      return "a function with some arguments given";
    case Type::kUnknown:
      return absl::StrCat("'", value.unknown().path, "'");
  }
  return "a value";
}

namespace {

Value FindShown(const Value& value, int depth, int* work) {
  if (value.Is(Type::kExpr)) {
    const bool constant =
        value.expr().expr.As<ir::IntImm>() || value.expr().expr.As<ir::FloatImm>();
    return constant ? Value() : value;
  }
  if (value.Is(Type::kStr)) return value.text().shown;
  if (depth > 8 || --*work < 0) return Value();
  const auto first = [&](const Value& item) { return FindShown(item, depth + 1, work); };
  if (value.is_sequence()) {
    for (const Value& item : value.seq().items) {
      if (const Value shown = first(item); !shown.is_none()) return shown;
    }
  }
  if (value.Is(Type::kInstance)) {
    for (const auto& [name, item] : value.instance().attributes) {
      if (const Value shown = first(item); !shown.is_none()) return shown;
    }
  }
  if (value.Is(Type::kDict)) {
    for (const auto& [key, item] : value.dict().items) {
      if (const Value shown = first(key); !shown.is_none()) return shown;
      if (const Value shown = first(item); !shown.is_none()) return shown;
    }
  }
  return Value();
}

}  // namespace

Value ShownIn(const Value& value) {
  int work = 10000;
  return FindShown(value, 0, &work);
}

std::partial_ordering OrderOf(const Value& a, const Value& b) {
  const bool left = a.Is(Type::kFloat), right = b.Is(Type::kFloat);
  if (left == right) {
    return left ? a.float_value() <=> b.float_value() : a.int_value() <=> b.int_value();
  }
  if (right) return 0 <=> OrderOf(b, a);
  const double x = a.float_value();
  if (std::isnan(x)) return std::partial_ordering::unordered;
  if (std::fabs(x) >= 0x1p63) return x <=> 0.0;
  const auto whole = static_cast<int64_t>(std::floor(x));
  if (whole != b.int_value()) return whole <=> b.int_value();
  return x <=> std::floor(x);
}

std::string Repr(const Value& value, size_t limit) {
  ReprText out{{}, limit, limit > 1000 ? 64 : 8};
  AppendRepr(value, 0, &out);
  if (out.text.size() > limit) {
    out.text.resize(limit);
    out.text += "...";
  }
  return out.text;
}

}  // namespace kiln::lang
