#include "compiler/lang/classes.h"

#include <algorithm>
#include <bit>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/lang/lazy.h"
#include "compiler/lang/parser.h"
#include "compiler/lang/python_attributes.h"
#include "compiler/lang/raised.h"
#include "compiler/lang/suggest.h"

namespace kiln::lang {
namespace {

// A class that no text of the file defines.
struct MadeClass : Object {
  ast::Class def{SourceLoc()};
};

absl::string_view NameOf(ast::ExprPtr expr) {
  if (expr == nullptr) return {};
  if (const auto* call = expr->As<ast::Call>()) expr = call->callee;
  if (const auto* subscript = expr->As<ast::Subscript>()) expr = subscript->value;
  if (const auto* name = expr->As<ast::Name>()) return name->id;
  if (const auto* attribute = expr->As<ast::Attribute>()) return attribute->attr;
  return {};
}

bool IsOfPython(absl::string_view name) {  // _x_ and __x__, which make no member of an enum
  return name.size() > 2 && absl::StartsWith(name, "_") && absl::EndsWith(name, "_");
}

// __x in the class's body
bool IsPrivate(const ClassObject& type, absl::string_view name) {
  const std::string prefix = PrivateName(type.def->name, "__x");
  return absl::StartsWith(name, absl::string_view(prefix).substr(0, prefix.size() - 1));
}

Value OfClass(const ClassObject* type) { return Value::Of(Type::kClass, type); }

ClassField* FindField(std::vector<ClassField>* fields, absl::string_view name) {
  const auto found = std::find_if(fields->begin(), fields->end(),
                                  [&](const ClassField& field) { return field.name == name; });
  return found == fields->end() ? nullptr : &*found;
}

}  // namespace

const ClassObject* Elaborator::Classes::Of(const Value& v) {
  if (v.Is(Type::kInstance)) return v.instance().type;
  return v.Is(Type::kTuple) ? v.seq().named : nullptr;
}

absl::StatusOr<bool> Elaborator::Classes::TakeBase(const Value& base, SourceLoc loc,
                                                   ClassObject* type) {
  if (!base.Is(Type::kTypeName)) return false;
  const absl::string_view name = base.type_name();
  if (name == "object" || name == "ABC" || name == "Generic" || name == "Protocol") return true;
  if (name == "NamedTuple") {
    type->kind = ClassKind::kNamedTuple;
    return true;
  }
  const bool flag = name == "Flag" || name == "IntFlag";
  const bool values = name == "IntEnum" || name == "StrEnum" || name == "IntFlag";
  if (name == "Enum" || flag || values) {
    type->kind = ClassKind::kEnum;
    type->is_flag |= flag;
    type->is_value |= values;
    type->shows_value |= values;
    type->is_text |= name == "StrEnum";
    return true;
  }
  if (name != "int" && name != "str" && name != "float") return false;
  type->is_value = true;  // class Mode(str, Enum)
  return true;
}

absl::Status Elaborator::Classes::Inherit(const ClassObject& base, SourceLoc loc,
                                          ClassObject* type) {
  if (base.kind == ClassKind::kPlain) return absl::OkStatus();
  if (base.kind == ClassKind::kEnum) {
    if (!base.cases.empty()) {
      return e_.Error(loc,
                      absl::StrCat("the class '", type->def->name, "' is based on the enum '",
                                   base.def->name, "', which has members"),
                      "base it on an enum without members, or list them all");
    }
    type->kind = ClassKind::kEnum;
    type->is_flag |= base.is_flag;
    type->is_value |= base.is_value;
    type->shows_value |= base.shows_value;
    type->is_text |= base.is_text;
    return absl::OkStatus();
  }
  if (base.kind == ClassKind::kNamedTuple) {
    if (type->kind == ClassKind::kPlain) type->kind = ClassKind::kNamedTuple;
    type->fields = base.fields;
    return absl::OkStatus();
  }
  // A class without @dataclass of its own is made by what its base has.
  type->kind = ClassKind::kDataclass;
  type->frozen = base.frozen;
  type->ordered = base.ordered;
  type->identical = base.identical;
  for (const ClassField& field : base.fields) {
    if (ClassField* own = FindField(&type->fields, field.name)) {
      *own = field;
    } else {
      type->fields.push_back(field);
    }
  }
  return absl::OkStatus();
}

absl::Status Elaborator::Classes::ReadDataclass(ast::ExprPtr decorator, ClassObject* type) {
  type->kind = ClassKind::kDataclass;
  type->frozen = false;
  static const auto& none = *new std::vector<ast::Keyword>();
  const auto* call = decorator->As<ast::Call>();
  for (const ast::Keyword& keyword : call == nullptr ? none : call->keywords) {
    KILN_ASSIGN_OR_RETURN(const Value value, e_.Eval(keyword.value));
    KILN_ASSIGN_OR_RETURN(const bool on, e_.DecideNow(value, keyword.loc, "an option"));
    if (keyword.name == "frozen") {
      type->frozen = on;
    } else if (keyword.name == "order") {
      type->ordered = on;
    } else if (keyword.name == "kw_only") {
      type->by_keyword = on;
    } else if (keyword.name == "eq") {
      type->identical = !on;
    } else if (keyword.name == "slots") {
      if (on) type->slots.emplace();
    } else if (keyword.name == "unsafe_hash") {
      type->hashed = on;
    } else if (keyword.name == "weakref_slot" || keyword.name == "match_args") {
      continue;        // nothing that a kernel sees
    } else if (!on) {  // repr, init
      return e_.Unimplemented(keyword.loc, absl::StrCat("@dataclass(", keyword.name, "=False)"),
                              "leave it out, or write a class with an __init__");
    }
  }
  for (const Value& base : type->bases) {
    const ClassObject& other = base.type_object();
    if (other.kind != ClassKind::kDataclass || other.frozen == type->frozen) continue;
    return e_.Error(decorator->loc,
                    absl::StrCat("the dataclass '", type->def->name, "' is ",
                                 type->frozen ? "frozen" : "not frozen", ", and its base '",
                                 other.def->name, type->frozen ? "' is not" : "' is"),
                    "give both frozen=True or neither");
  }
  return absl::OkStatus();
}

// No field without a default follows one with it.
absl::Status Elaborator::Classes::CheckOrder(const ClassObject& type, const ClassField& field,
                                             SourceLoc loc) {
  if (field.optional || field.by_keyword || !field.taken) return absl::OkStatus();
  for (const ClassField& before : type.fields) {
    if (!before.optional || before.by_keyword || before.name == field.name) continue;
    return e_.Error(loc,
                    absl::StrCat("the field '", field.name, "' has no default, but follows '",
                                 before.name, "', which has one"),
                    "give it a default, or put it first");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Elaborator::Classes::TakeField(const ast::AnnAssign& node, ClassObject* type) {
  const bool tuple = type->kind == ClassKind::kNamedTuple;
  const auto* name = node.target->As<ast::Name>();
  if ((!tuple && type->kind != ClassKind::kDataclass) || name == nullptr) return false;
  const absl::string_view annotation = NameOf(node.annotation);
  if (annotation == "ClassVar") return false;
  if (annotation == "KW_ONLY") {
    type->by_keyword = true;
    return true;
  }
  ClassField field;
  field.name = name->id;
  field.by_keyword = type->by_keyword && !tuple;
  if (annotation == "InitVar" && !tuple) {
    field.passed_on = true;
    field.shown = field.compared = false;
  }
  const auto* call = node.value == nullptr ? nullptr : node.value->As<ast::Call>();
  if (call != nullptr && NameOf(node.value) == "field" && !tuple) {
    for (const ast::Keyword& keyword : call->keywords) {
      KILN_ASSIGN_OR_RETURN(const Value value, e_.Eval(keyword.value));
      if (keyword.name == "default" || keyword.name == "default_factory") {
        field.optional = true;
        field.made = keyword.name == "default_factory";
        field.value = value;
        continue;
      }
      bool on = true;
      if (keyword.name != "metadata") {
        KILN_ASSIGN_OR_RETURN(on, e_.DecideNow(value, keyword.loc, "an option of a field"));
      }
      if (keyword.name == "kw_only") field.by_keyword = on;
      if (keyword.name == "init") field.taken = on;
      if (keyword.name == "repr") field.shown = on;
      if (keyword.name == "compare") field.compared = on;
    }
  } else if (node.value != nullptr) {
    KILN_ASSIGN_OR_RETURN(field.value, e_.Eval(node.value));
    field.optional = true;
    if (!tuple && (field.value.Is(Type::kList) || field.value.Is(Type::kDict))) {
      return e_.Error(node.loc,
                      absl::StrCat("the default of '", field.name, "' is ", Describe(field.value),
                                   ", which all objects would share"),
                      "write dataclasses.field(default_factory=...)");
    }
  }
  KILN_RETURN_IF_ERROR(CheckOrder(*type, field, node.loc));
  if (field.optional && !field.made) {  // the class has it too
    KILN_RETURN_IF_ERROR(e_.Bind(name->id, field.value, node.loc));
  }
  if (ClassField* own = FindField(&type->fields, field.name)) {
    *own = std::move(field);
  } else {
    type->fields.push_back(std::move(field));
  }
  return true;
}

absl::Status Elaborator::Classes::MakeCases(const Value& self, SourceLoc loc) {
  ClassObject& type = self.type_object();
  std::vector<Value> made_so_far;
  for (auto& [name, member] : type.members) {
    const bool hidden = IsOfPython(name) || IsPrivate(type, name);
    if (hidden || member.Is(Type::kFunction) || member.Is(Type::kClass)) continue;
    const Value value = type.is_value ? Plain(member) : member;
    if (type.is_flag && !(value.is_integer() && value.int_value() >= 0)) {
      return e_.Error(loc,
                      absl::StrCat("the member '", name, "' of the flag '", type.def->name, "' is ",
                                   Repr(value), ", which is no set of bits"),
                      "give it a number that is not negative, or base the class on enum.Enum");
    }
    if (type.is_value && !value.is_number() && !value.Is(Type::kStr)) {
      return e_.Error(loc,
                      absl::StrCat("the member '", name, "' of the enum '", type.def->name, "' is ",
                                   Describe(value), ", and no number or text"),
                      "base the class on enum.Enum");
    }
    Value known;
    for (const Value& other : made_so_far) {
      KILN_ASSIGN_OR_RETURN(const bool same,
                            e_.Equal(*AttributeOf(other.instance(), "value"), value, loc));
      if (same && known.is_none()) known = other;
    }
    if (!known.is_none()) {  // a second name
      member = known;
      continue;
    }
    auto* made = e_.arena_.New<InstanceObject>();
    made->type = &type;
    made->name = name;
    made->attributes = {{"name", e_.NewStr(name)}, {"value", value}};
    member = Value::Of(Type::kInstance, made);
    made_so_far.push_back(member);
    const bool one_bit =
        !type.is_flag || std::has_single_bit(static_cast<uint64_t>(value.int_value()));
    if (one_bit) type.cases.push_back(member);
    KILN_RETURN_IF_ERROR(e_.ChargeBytes(loc, 256));
    KILN_ASSIGN_OR_RETURN(const Value* init, e_.FindInClass(self, "__init__", loc));
    if (init != nullptr) {
      CallArgs args;
      args.loc = loc;
      args.positional = {value};
      if (value.Is(Type::kTuple)) args.positional = value.seq().items;
      args.locs.assign(args.positional.size(), loc);
      KILN_RETURN_IF_ERROR(e_.CallFunction(*init, args, &member).status());
    }
    made->closed = true;
  }
  return absl::OkStatus();
}

Value Elaborator::Classes::NewClass(const std::string& name) {
  auto* made = e_.arena_.New<MadeClass>();
  made->def.name = name;
  auto* type = e_.arena_.New<ClassObject>();
  type->def = &made->def;
  type->ready = true;
  return OfClass(type);
}

absl::StatusOr<Value> Elaborator::Classes::NamedTuple(const std::string& name,
                                                      std::vector<ClassField> fields,
                                                      SourceLoc loc) {
  const Value made = NewClass(name);
  ClassObject* type = &made.type_object();
  type->kind = ClassKind::kNamedTuple;
  std::set<std::string> names;
  for (const ClassField& field : fields) {
    const bool word = !field.name.empty() && !absl::ascii_isdigit(field.name[0]) &&
                      field.name[0] != '_' &&
                      std::all_of(field.name.begin(), field.name.end(), [](char c) {
                        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
                               static_cast<unsigned char>(c) >= 0x80;
                      });
    if (!word || !names.insert(field.name).second) {
      return e_.Error(loc,
                      absl::StrCat("'", field.name, "' cannot be a field of '", name, "'",
                                   word ? ": it has one of that name" : ""),
                      "fields are names that differ and do not begin with '_'");
    }
  }
  KILN_RETURN_IF_ERROR(e_.ChargeBytes(loc, 64 * static_cast<int64_t>(fields.size()) + 256));
  type->fields = std::move(fields);
  return made;
}

// The values of the fields, in their order.
absl::StatusOr<Value> Elaborator::Classes::Fill(const ClassObject& type, const CallArgs& args,
                                                std::vector<Value>* values) {
  size_t next = 0;
  std::vector<bool> used(args.keywords.size(), false);
  for (const ClassField& field : type.fields) {
    Value value;
    size_t keyword = 0;
    while (keyword < args.keywords.size() && args.keywords[keyword].name != field.name) ++keyword;
    const bool given = field.taken && keyword < args.keywords.size();
    if (field.taken && !field.by_keyword && next < args.positional.size()) {
      if (given) {
        return e_.Error(args.keywords[keyword].loc,
                        absl::StrCat("'", field.name, "' of '", type.def->name, "' is given twice"),
                        "drop one of them");
      }
      value = args.positional[next++];
    } else if (given) {
      value = args.keywords[keyword].value;
      used[keyword] = true;
    } else if (field.optional && field.made) {
      CallArgs none;
      none.loc = args.loc;
      KILN_ASSIGN_OR_RETURN(value, e_.Call(field.value, none));
    } else if (field.optional) {
      value = field.value;
    } else if (!field.taken) {
      return e_.Unimplemented(args.loc,
                              absl::StrCat("the field '", field.name, "' of '", type.def->name,
                                           "', which has no value before __post_init__"),
                              "give it a default");
    } else {
      return e_.Error(args.loc,
                      absl::StrCat("'", type.def->name, "' needs its argument '", field.name, "'"),
                      "pass it");
    }
    KILN_ASSIGN_OR_RETURN(value, e_.Keep(std::move(value), field.name, args.loc));
    values->push_back(value);
  }
  if (next < args.positional.size()) {
    return e_.Error(args.locs[next], absl::StrCat("'", type.def->name, "' has ", next, " fields"),
                    "drop the extra arguments");
  }
  for (size_t k = 0; k < used.size(); ++k) {
    if (used[k]) continue;
    std::vector<std::string> names;
    for (const ClassField& field : type.fields) names.push_back(field.name);
    return e_.Error(
        args.keywords[k].loc,
        absl::StrCat("'", type.def->name, "' has no field '", args.keywords[k].name, "'"),
        DidYouMean(args.keywords[k].name, names, "drop it"));
  }
  return Value::None();
}

absl::StatusOr<Value> Elaborator::Classes::Make(const Value& of, const CallArgs& args,
                                                const Value& self) {
  const ClassObject& type = of.type_object();
  if (type.kind == ClassKind::kEnum) {
    if (args.positional.size() == 1 && args.keywords.empty()) {
      return CaseOf(of, args.positional[0], args.loc);
    }
    return e_.Error(args.loc, absl::StrCat(Describe(of), " is called with a value of its members"),
                    "name a member, as in Mode.A, or give one value");
  }
  std::vector<Value> values;
  KILN_RETURN_IF_ERROR(Fill(type, args, &values).status());
  if (type.kind == ClassKind::kNamedTuple) {
    const Value tuple = e_.NewTuple(std::move(values));
    tuple.seq().named = &type;
    return tuple;
  }
  InstanceObject& instance = self.instance();
  CallArgs passed_on;
  passed_on.loc = args.loc;
  for (size_t i = 0; i < values.size(); ++i) {
    if (type.fields[i].passed_on) {
      passed_on.positional.push_back(values[i]);
    } else {
      instance.attributes.emplace_back(type.fields[i].name, values[i]);
    }
  }
  passed_on.locs.assign(passed_on.positional.size(), args.loc);
  instance.closed = type.frozen;
  KILN_ASSIGN_OR_RETURN(const Value* after, e_.FindInClass(of, "__post_init__", args.loc));
  if (after != nullptr) KILN_RETURN_IF_ERROR(e_.CallFunction(*after, passed_on, &self).status());
  return self;
}

absl::StatusOr<std::vector<Value>> Elaborator::Classes::Cases(const Value& of, SourceLoc loc) {
  KILN_RETURN_IF_ERROR(e_.Prepare(&of.type_object(), loc));
  const ClassObject& type = of.type_object();
  if (type.kind == ClassKind::kEnum) {
    KILN_RETURN_IF_ERROR(e_.Step(loc, static_cast<int64_t>(type.cases.size())));
    return type.cases;
  }
  return e_.Error(loc, absl::StrCat(Describe(of), " is no enum and has no members to go over"),
                  "base it on enum.Enum, or use a list");
}

absl::StatusOr<Value> Elaborator::Classes::CaseOf(const Value& of, const Value& value,
                                                  SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> cases, Cases(of, loc));
  const ClassObject& type = of.type_object();
  if (type.is_flag) {
    if (value.Is(Type::kInstance) && value.instance().type == &type) return value;
    KILN_ASSIGN_OR_RETURN(const int64_t bits, e_.ToInt(value, loc, "the value of a flag"));
    return FlagWith(type, bits, loc);
  }
  for (const Value& one : cases) {
    if (value.Is(Type::kInstance) && &value.instance() == &one.instance()) return one;
    KILN_ASSIGN_OR_RETURN(const bool same,
                          e_.Equal(*AttributeOf(one.instance(), "value"), value, loc));
    if (same) return one;
  }
  return e_.Error(
      loc,
      absl::StrCat(Repr(value), " is not the value of a member of the enum '", type.def->name, "'"),
      "check the value");
}

absl::StatusOr<Value> Elaborator::Classes::CaseNamed(const Value& of, const Value& name,
                                                     SourceLoc loc) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> cases, Cases(of, loc));
  KILN_ASSIGN_OR_RETURN(const std::string text, e_.ToStr(name, loc, "the name of a member"));
  std::vector<std::string> names;
  for (const auto& [known, member] : of.type_object().members) {
    const bool is_case = member.Is(Type::kInstance) && member.instance().type == &of.type_object();
    if (is_case && known == text) return member;
    if (is_case) names.push_back(known);
  }
  return e_.Error(
      loc, absl::StrCat("the enum '", of.type_object().def->name, "' has no member '", text, "'"),
      DidYouMean(text, names, "check the name"));
}

absl::StatusOr<Value> Elaborator::Classes::TupleAttribute(const Value& tuple,
                                                          const std::string& attr, SourceLoc loc,
                                                          bool* found) {
  const ClassObject& type = *tuple.seq().named;
  *found = true;
  for (size_t i = 0; i < type.fields.size(); ++i) {
    if (type.fields[i].name == attr) return tuple.seq().items[i];
  }
  if (attr == "__class__") return OfClass(&type);
  if (attr == "_fields") return e_.GetAttribute(OfClass(&type), attr, loc);
  KILN_ASSIGN_OR_RETURN(const Value* member, e_.FindInClass(OfClass(&type), attr, loc));
  if (member != nullptr) return e_.ReadMember(*member, tuple, loc);
  *found = false;
  return Value::None();
}

absl::Status Elaborator::Classes::CheckKey(const Value& v, SourceLoc loc) {
  const ClassObject& type = *Of(v);
  const Value of = OfClass(&type);
  KILN_ASSIGN_OR_RETURN(const Value* equal, e_.FindInClass(of, "__eq__", loc));
  KILN_ASSIGN_OR_RETURN(const Value* hash, e_.FindInClass(of, "__hash__", loc));
  const bool by_fields = type.kind == ClassKind::kDataclass && !type.identical;
  const bool changes = by_fields && !type.frozen && !type.hashed;
  if ((equal != nullptr || changes) && hash == nullptr) {
    return Raised(
        e_.Error(loc,
                 absl::StrCat(Describe(v),
                              " as the key of a dict or in a set: its class has an __eq__ and no "
                              "__hash__"),
                 "use a tuple or a string, or make its class a dataclass with frozen=True"),
        "TypeError");
  }
  if (equal == nullptr && hash == nullptr) {
    for (const ClassField& field : type.fields) {
      if (!by_fields || !field.compared || !v.Is(Type::kInstance)) continue;
      KILN_ASSIGN_OR_RETURN(const Value part, e_.GetAttribute(v, field.name, loc));
      KILN_RETURN_IF_ERROR(e_.CheckKey(part, loc));
    }
    return absl::OkStatus();
  }
  return e_.Unimplemented(
      loc,
      absl::StrCat(Describe(v),
                   " as the key of a dict or in a set: its class has a __hash__ or "
                   "__eq__ of its own, which are not asked"),
      "use a tuple or a string, or make its class a dataclass with frozen=True");
}

absl::Status Elaborator::Classes::ReadSlots(ClassObject* type, SourceLoc loc) {
  if (type->slots.has_value()) {  // of a dataclass, whose base's fields have theirs
    for (const ClassField& field : type->fields) {
      if (!field.passed_on) type->slots->push_back(field.name);
      std::erase_if(type->members, [&](const auto& member) { return member.first == field.name; });
    }
    return absl::OkStatus();
  }
  const auto given = std::find_if(type->members.begin(), type->members.end(),
                                  [](const auto& member) { return member.first == "__slots__"; });
  if (given == type->members.end()) return absl::OkStatus();
  std::vector<Value> names = {given->second};
  if (!given->second.Is(Type::kStr)) {
    KILN_ASSIGN_OR_RETURN(names, e_.Iterate(given->second, loc));
  }
  type->slots.emplace();
  for (const Value& name : names) {
    KILN_ASSIGN_OR_RETURN(std::string slot, e_.ToStr(name, loc, "one of __slots__"));
    slot = PrivateName(type->def->name, slot);
    const bool bound = std::any_of(type->members.begin(), type->members.end(),
                                   [&](const auto& member) { return member.first == slot; });
    if (bound) {
      return e_.Error(loc,
                      absl::StrCat("'", slot, "' is one of the __slots__ of the class '",
                                   type->def->name, "', whose body gives it a value"),
                      "give it its value in __init__");
    }
    type->slots->push_back(slot);
  }
  return absl::OkStatus();
}

bool Elaborator::Classes::IsSlot(const ClassObject& type, absl::string_view attr) {
  const auto has = [&](const ClassObject& own) {
    return own.slots.has_value() &&
           std::find(own.slots->begin(), own.slots->end(), attr) != own.slots->end();
  };
  return has(type) || std::any_of(type.order.begin(), type.order.end(),
                                  [&](const Value& base) { return has(base.type_object()); });
}

bool Elaborator::Classes::HasRoom(const ClassObject& type, absl::string_view attr) {
  const bool open = !type.slots.has_value() ||
                    std::any_of(type.order.begin(), type.order.end(), [](const Value& base) {
                      return !base.type_object().slots.has_value();
                    });
  return open || IsSlot(type, "__dict__") || IsSlot(type, attr);
}

absl::StatusOr<bool> Elaborator::Classes::Has(const Value& self, const std::string& attr,
                                              SourceLoc loc) {
  if (self.is_import()) return e_.NoValue(self, loc);
  if (self.Is(Type::kInstance) && AttributeOf(self.instance(), attr) == nullptr &&
      self.instance().type != nullptr && !self.instance().type->is_value) {
    const Value type = OfClass(self.instance().type);
    KILN_ASSIGN_OR_RETURN(const Value* member, e_.FindInClass(type, attr, loc));
    if (member == nullptr) return attr == "__class__";
    KILN_RETURN_IF_ERROR(e_.GetAttribute(self, attr, loc).status());
    return true;
  }
  if (self.Is(Type::kModule)) {
    const Module& module = *self.module();
    if (module.refused.contains(attr)) return true;
    const absl::StatusOr<Value> member = e_.GetAttribute(self, attr, loc);
    // Every public name of the language is known; of other modules those that kernels use.
    if (member.ok() || module.name == "T" || module.name == "math") return member.ok();
    return e_.Unimplemented(
        loc, absl::StrCat("whether '", module.name, "' has '", attr, "' is not known to kernels"),
        "decide it outside, and pass the answer as a parameter");
  }
  const absl::StatusOr<Value> value = e_.GetAttribute(self, attr, loc);
  if (value.ok()) return true;
  if (self.Is(Type::kLazy) || IsPythonData(self)) {
    const std::optional<bool> has = PythonHas(self, attr);
    if (has.has_value()) return *has;
    return e_.Unimplemented(
        loc, absl::StrCat("whether ", Describe(self), " has '", attr, "' is not known to kernels"),
        "ask with isinstance");
  }
  if (value.status().code() == absl::StatusCode::kInvalidArgument) return false;
  return value.status();
}

absl::StatusOr<std::vector<std::pair<std::string, Value>>> Elaborator::Classes::FieldsOf(
    const Value& v, SourceLoc loc, absl::string_view what) {
  const ClassObject* type = Of(v);
  std::vector<std::pair<std::string, Value>> fields;
  const bool known = type != nullptr &&
                     (type->kind == ClassKind::kDataclass || type->kind == ClassKind::kNamedTuple);
  if (!known) {
    return e_.Error(loc, absl::StrCat(what, " takes an object of a dataclass, not ", Describe(v)),
                    "put @dataclass over its class");
  }
  KILN_RETURN_IF_ERROR(e_.Step(loc, static_cast<int64_t>(type->fields.size())));
  KILN_RETURN_IF_ERROR(e_.ChargeBytes(loc, 64 * static_cast<int64_t>(type->fields.size())));
  for (size_t i = 0; i < type->fields.size(); ++i) {
    const std::string& name = type->fields[i].name;
    if (type->fields[i].passed_on) continue;
    if (v.Is(Type::kTuple)) {
      fields.emplace_back(name, v.seq().items[i]);
      continue;
    }
    KILN_ASSIGN_OR_RETURN(const Value value, e_.GetAttribute(v, name, loc));
    fields.emplace_back(name, value);
  }
  return fields;
}

absl::StatusOr<Value> Elaborator::Classes::Replace(const Value& v, const CallArgs& changes,
                                                   absl::string_view what) {
  KILN_ASSIGN_OR_RETURN(const auto fields, FieldsOf(v, changes.loc, what));
  CallArgs args = changes;
  const ClassObject& type = *Of(v);
  std::vector<ClassField> declared = type.fields;
  for (const auto& [name, value] : fields) {
    const bool changed =
        std::any_of(changes.keywords.begin(), changes.keywords.end(),
                    [&, &key = name](const auto& keyword) { return keyword.name == key; });
    if (changed || !FindField(&declared, name)->taken) continue;
    args.keywords.push_back({name, value, changes.loc});
  }
  return e_.Construct(OfClass(&type), args);
}

absl::StatusOr<std::optional<Value>> Elaborator::Classes::Order(ast::CompareOp op, const Value& a,
                                                                const Value& b, SourceLoc loc) {
  const ClassObject* type = a.Is(Type::kInstance) ? a.instance().type : nullptr;
  if (type == nullptr || !type->ordered || !b.Is(Type::kInstance) || b.instance().type != type) {
    return std::optional<Value>();
  }
  std::vector<Value> sides;
  for (const Value& v : {a, b}) {
    std::vector<Value> items;
    for (const ClassField& field : type->fields) {
      if (!field.compared) continue;
      KILN_ASSIGN_OR_RETURN(const Value value, e_.GetAttribute(v, field.name, loc));
      items.push_back(value);
    }
    sides.push_back(e_.NewTuple(std::move(items)));
  }
  KILN_ASSIGN_OR_RETURN(const Value result, e_.CompareOp(op, sides[0], sides[1], loc));
  return std::optional<Value>(result);
}

absl::StatusOr<std::optional<std::string>> Elaborator::Classes::Text(const Value& v, bool repr,
                                                                     SourceLoc loc) {
  const ClassObject* type = Of(v);
  if (type == nullptr) return std::optional<std::string>();
  for (const char* name : {"__str__", "__repr__"}) {
    KILN_ASSIGN_OR_RETURN(const Value* method, e_.FindInClass(OfClass(type), name, loc));
    if (method == nullptr || (repr && absl::string_view(name) == "__str__")) continue;
    CallArgs none;
    none.loc = loc;
    KILN_ASSIGN_OR_RETURN(const Value text, e_.CallFunction(*method, none, &v));
    KILN_ASSIGN_OR_RETURN(std::string made,
                          e_.ToStr(text, loc, absl::StrCat("what ", name, " returns")));
    return std::optional<std::string>(std::move(made));
  }
  if (type->kind != ClassKind::kEnum || repr) return std::optional<std::string>();
  if (type->shows_value) {
    KILN_ASSIGN_OR_RETURN(std::string text, e_.TextOf(Plain(v), loc));
    return std::optional<std::string>(std::move(text));
  }
  const Value& name = *AttributeOf(v.instance(), "name");
  if (name.is_none()) {  // no member of a flag
    return std::optional<std::string>(
        absl::StrCat(type->def->name, "(", Repr(*AttributeOf(v.instance(), "value")), ")"));
  }
  return std::optional<std::string>(absl::StrCat(type->def->name, ".", name.str()));
}

// What Python shows by its place in memory, or by names that the language does not keep.
static bool HasOwnText(const Value& v) {
  switch (v.type()) {
    case Type::kFunction:
    case Type::kBuiltin:
    case Type::kMethod:
    case Type::kModule:
    case Type::kClass:
    case Type::kTypeName:
    case Type::kPartial:
    case Type::kSlice:
      return false;
    case Type::kDict:
      return v.dict().factory.is_none();
    case Type::kInstance: {
      const ClassObject* type = v.instance().type;
      return type == nullptr || type->kind != ClassKind::kPlain;
    }
    default:
      return true;
  }
}

// Items of a container are shown without a call of what a class says of its objects' text.
absl::Status Elaborator::Classes::CheckItemTexts(const Value& v, SourceLoc loc) {
  if (e_.telling_ == 0 && !HasOwnText(v)) {
    const bool named = v.Is(Type::kFunction) || v.Is(Type::kClass) || v.Is(Type::kTypeName);
    return e_.Unimplemented(loc, absl::StrCat("the text of ", Describe(v)),
                            named ? "show its __name__"
                                  : "show what is of interest of it, or give its class a __str__");
  }
  if (IsIterator(v)) {
    return e_.Error(loc, "the text of an iterator, which is its place in memory in Python",
                    "show a list of its items: list(...)");
  }
  if (v.Is(Type::kLazy)) return CheckItemTexts(LazyOf(v).sources[0].container, loc);
  if (v.Is(Type::kSet) && v.dict().items.size() > 1) {
    return e_.Error(loc, "the text of a set, which has no order in which its items are shown",
                    "show sorted(...) of it");
  }
  const bool keyed = v.Is(Type::kDict) || v.Is(Type::kSet);
  if (!v.is_sequence() && !keyed) return absl::OkStatus();
  CountGuard depth(&e_.depth_);
  KILN_RETURN_IF_ERROR(e_.CheckDepth(loc));
  std::vector<Value> items;
  if (v.is_sequence()) items = v.seq().items;
  for (size_t i = 0; keyed && i < v.dict().items.size(); ++i) {
    items.insert(items.end(), {v.dict().items[i].first, v.dict().items[i].second});
  }
  KILN_RETURN_IF_ERROR(e_.Step(loc, static_cast<int64_t>(items.size())));
  for (const Value& item : items) {
    KILN_RETURN_IF_ERROR(CheckPrintable(e_, item, loc));
    const Value* repr = nullptr;
    if (Of(item) != nullptr) {
      KILN_ASSIGN_OR_RETURN(repr, e_.FindInClass(OfClass(Of(item)), "__repr__", loc));
    }
    if (repr == nullptr) KILN_RETURN_IF_ERROR(CheckItemTexts(item, loc));
    if (repr == nullptr) continue;
    return e_.Unimplemented(loc, "the text of a container whose items have a __repr__",
                            "join the texts of the items: ', '.join(repr(x) for x in items)");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Value>> Elaborator::Classes::Special(const Value& self,
                                                                  absl::string_view name,
                                                                  std::vector<Value> args,
                                                                  SourceLoc loc) {
  const ClassObject* type = Of(self);
  if (type == nullptr) return std::optional<Value>();
  KILN_ASSIGN_OR_RETURN(const Value* method, e_.FindInClass(OfClass(type), name, loc));
  if (method == nullptr || !method->Is(Type::kFunction)) return std::optional<Value>();
  CallArgs call;
  call.loc = loc;
  call.locs.assign(args.size(), loc);
  call.positional = std::move(args);
  KILN_ASSIGN_OR_RETURN(const Value result, e_.CallFunction(*method, call, &self));
  return std::optional<Value>(result);
}

absl::StatusOr<Value> Elaborator::Classes::CallPartial(const PartialObject& partial,
                                                       const CallArgs& args) {
  CountGuard depth(&e_.depth_);
  KILN_RETURN_IF_ERROR(e_.CheckDepth(args.loc));
  CallArgs whole = args;
  const size_t count = partial.positional.size();
  KILN_RETURN_IF_ERROR(e_.Step(args.loc, static_cast<int64_t>(count)));
  whole.positional.insert(whole.positional.begin(), partial.positional.begin(),
                          partial.positional.end());
  whole.locs.insert(whole.locs.begin(), count, args.loc);
  whole.exprs.insert(whole.exprs.begin(), count, nullptr);
  for (const auto& [name, value] : partial.keywords) {
    const bool given = std::any_of(args.keywords.begin(), args.keywords.end(),
                                   [&, &key = name](const auto& k) { return k.name == key; });
    if (!given) whole.keywords.push_back({name, value, args.loc});
  }
  return e_.Call(partial.callee, whole);
}

}  // namespace kiln::lang
