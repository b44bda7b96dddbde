// Classes and their instances: objects of compile time, whose attributes may stand for run-time
// things. A method that stores runs like a macro inside a kernel, any other like a plain function.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/lang/bundled.h"
#include "compiler/lang/classes.h"
#include "compiler/lang/lazy.h"
#include "compiler/lang/raised.h"
#include "compiler/lang/suggest.h"

namespace kiln::lang {
namespace {

// x[i], x.a, or a list of targets with one of them.
bool IsPlace(ast::ExprPtr target) {
  if (const auto* tuple = target->As<ast::Tuple>()) {
    return std::any_of(tuple->items.begin(), tuple->items.end(), IsPlace);
  }
  if (const auto* list = target->As<ast::List>()) {
    return std::any_of(list->items.begin(), list->items.end(), IsPlace);
  }
  return target->kind == ast::ExprKind::kSubscript || target->kind == ast::ExprKind::kAttribute;
}

bool AnyStores(const ast::Block& block);

// A statement that stores, to a buffer or a variable that an object holds.
bool Stores(ast::StmtPtr stmt) {
  switch (stmt->kind) {
    case ast::StmtKind::kAssign: {
      const auto& targets = stmt->As<ast::Assign>()->targets;
      return std::any_of(targets.begin(), targets.end(), IsPlace);
    }
    case ast::StmtKind::kAugAssign:
      return IsPlace(stmt->As<ast::AugAssign>()->target);
    case ast::StmtKind::kIf: {
      const auto& node = *stmt->As<ast::If>();
      return AnyStores(node.otherwise) ||
             std::any_of(node.branches.begin(), node.branches.end(),
                         [](const ast::Branch& branch) { return AnyStores(branch.body); });
    }
    case ast::StmtKind::kFor:
      return AnyStores(stmt->As<ast::For>()->body);
    case ast::StmtKind::kWhile:
      return AnyStores(stmt->As<ast::While>()->body);
    case ast::StmtKind::kWith:
      return AnyStores(stmt->As<ast::With>()->body);
    default:
      return false;
  }
}

bool AnyStores(const ast::Block& block) { return std::any_of(block.begin(), block.end(), Stores); }

const Value* MemberOf(const std::vector<std::pair<std::string, Value>>& members,
                      absl::string_view name) {
  for (const auto& [key, value] : members) {
    if (key == name) return &value;
  }
  return nullptr;
}

bool IsVariable(const Value& v) {
  return v.Is(Type::kBuffer) && v.buffer().buffer->scope == ir::Scope::kVar;
}

}  // namespace

// Methods by which Python would make objects or find attributes in another way than the language
// does.
static absl::Status CheckHooks(Elaborator& e, const ast::Class& def) {
  static constexpr absl::string_view kHooks[] = {
      "__new__",           "__setattr__",       "__getattr__",      "__getattribute__",
      "__delattr__",       "__get__",           "__set__",          "__set_name__",
      "__delete__",        "__missing__",       "__prepare__",      "__init_subclass__",
      "__class_getitem__", "__subclasscheck__", "__instancecheck__"};
  std::vector<absl::string_view> names;
  for (ast::StmtPtr stmt : def.body) {
    names.clear();
    CollectBindings(stmt, &names);
    for (absl::string_view name : names) {
      if (std::find(std::begin(kHooks), std::end(kHooks), name) == std::end(kHooks)) continue;
      return e.Unimplemented(stmt->loc,
                             absl::StrCat("the method '", name, "' of the class '", def.name, "'"),
                             "set attributes in __init__, and call methods by their names");
    }
  }
  return absl::OkStatus();
}

// Python's order of the classes that a class is based on: each before its own bases, and these as
// it names them (C3). False: there is none.
static bool SetOrder(ClassObject* type) {
  std::vector<std::vector<Value>> rows;
  for (const Value& base : type->bases) {
    rows.push_back({base});
    const std::vector<Value>& more = base.type_object().order;
    rows.back().insert(rows.back().end(), more.begin(), more.end());
  }
  rows.push_back(type->bases);
  const auto is_later = [&](const Value& v) {
    return std::any_of(rows.begin(), rows.end(), [&](const std::vector<Value>& row) {
      return std::any_of(row.begin() + std::min<size_t>(1, row.size()), row.end(),
                         [&](const Value& other) { return other.pointer() == v.pointer(); });
    });
  };
  for (;;) {
    std::erase_if(rows, [](const std::vector<Value>& row) { return row.empty(); });
    if (rows.empty()) return true;
    const auto first = std::find_if(
        rows.begin(), rows.end(), [&](const std::vector<Value>& row) { return !is_later(row[0]); });
    if (first == rows.end()) return false;
    const Value next = (*first)[0];
    type->order.push_back(next);
    for (std::vector<Value>& row : rows) {
      if (row[0].pointer() == next.pointer()) row.erase(row.begin());
    }
  }
}

// Of the order of `own`, what follows `owner`.
static std::vector<Value> Behind(const ClassObject& own, const ClassObject& owner) {
  const auto at = std::find_if(own.order.begin(), own.order.end(),
                               [&](const Value& v) { return &v.type_object() == &owner; });
  return at == own.order.end() ? owner.order : std::vector<Value>(at + 1, own.order.end());
}

// A metaclass may make of the class what it likes.
static absl::Status CheckMetaclass(Elaborator& e, const ast::Class& def) {
  if (def.metaclass == nullptr) return absl::OkStatus();
  const absl::string_view name = LastName(def.metaclass);
  for (absl::string_view known : {"ABCMeta", "type", "EnumMeta", "EnumType"}) {
    if (name == known) return absl::OkStatus();
  }
  return e.Unimplemented(
      def.metaclass->loc, absl::StrCat("the metaclass '", name, "' of the class '", def.name, "'"),
      "do what it does in the class itself, in a base, or in a function that is called with it");
}

absl::StatusOr<Value> Elaborator::MakeClass(const ast::Class& def) {
  auto* type = arena_.New<ClassObject>();
  type->def = &def;
  type->around = frame_->module_index == SIZE_MAX ? frame_->scope : nullptr;
  type->closure = PastClasses(type->around);
  type->before = frame_->before;
  return Value::Of(Type::kClass, type);
}

// What the class is based on, and what its decorators say: read where its statement stands.
absl::Status Elaborator::PrepareBases(ClassObject* type, SourceLoc loc) {
  const ast::Class& def = *type->def;
  Classes library(this);
  for (ast::ExprPtr base : def.bases) {
    const absl::StatusOr<Value> known = Eval(base);
    const bool host = &def == module_.owner && (!known.ok() || known->Is(Type::kUnknown));
    if (host) continue;  // torch.nn.Module: nothing that a kernel reads
    KILN_ASSIGN_OR_RETURN(const Value value, known);
    KILN_ASSIGN_OR_RETURN(const bool taken, library.TakeBase(value, base->loc, type));
    if (taken) continue;
    if (!value.Is(Type::kClass)) {
      return Unimplemented(base->loc,
                           absl::StrCat("the class '", def.name, "' is based on ", Describe(value),
                                        ", which is no class that kernels know"),
                           "base it on a class of this file, on T.BaseTileScheduler, or on Enum, "
                           "IntEnum or NamedTuple");
    }
    KILN_RETURN_IF_ERROR(Prepare(&value.type_object(), loc));
    type->bases.push_back(value);
  }
  if (!SetOrder(type)) {
    return Error(loc, absl::StrCat("the bases of the class '", def.name, "' have no common order"),
                 "name a class before those that it is based on");
  }
  for (size_t i = type->order.size(); i-- > 0;) {
    KILN_RETURN_IF_ERROR(library.Inherit(type->order[i].type_object(), def.loc, type));
  }
  if (type->is_value && type->kind != ClassKind::kEnum) {
    return Unimplemented(def.loc,
                         absl::StrCat("the class '", def.name, "', which is a number or text"),
                         "base it on enum.Enum too, or keep the value in an attribute");
  }
  for (ast::ExprPtr decorator : def.decorators) {
    if (LastName(decorator) != "dataclass") continue;
    KILN_RETURN_IF_ERROR(library.ReadDataclass(decorator, type));
  }
  return absl::OkStatus();
}

absl::Status Elaborator::Prepare(ClassObject* type, SourceLoc loc) {
  if (type->ready) return absl::OkStatus();
  if (const auto failed = unready_.find(type); failed != unready_.end()) return failed->second;
  const ast::Class& def = *type->def;
  if (type->preparing) {
    return Error(loc, absl::StrCat("the class '", def.name, "' needs itself to be defined"),
                 "break the cycle");
  }
  type->preparing = true;
  KILN_RETURN_IF_ERROR(CheckHooks(*this, def));
  if (&def != module_.owner) KILN_RETURN_IF_ERROR(CheckMetaclass(*this, def));
  for (ast::ExprPtr decorator : def.decorators) {
    const absl::string_view name = LastName(decorator);
    if (name == "dataclass" || name == "meta_class" || name == "unique" || name == "final") {
      continue;
    }
    return Unimplemented(decorator->loc, absl::StrCat("the decorator '", name, "' of a class"),
                         "use @T.meta_class, @dataclass or none");
  }
  Classes library(this);
  Scope* scope = arena_.New<Scope>();
  scope->parent = type->closure;
  scope->of_class = &def;
  Frame frame;
  frame.name = def.name;
  frame.what = "class";
  frame.call = loc;
  frame.scope = scope;
  frame.before = type->before;
  CountGuard depth(&depth_);
  FrameGuard guard(this, &frame);
  KILN_RETURN_IF_ERROR(CheckDepth(loc));
  {
    ScopeGuard outside(&frame, type->around != nullptr ? type->around : arena_.New<Scope>());
    KILN_RETURN_IF_ERROR(PrepareBases(type, loc));
  }
  std::vector<Value> values;  // of the members of an enum
  for (ast::StmtPtr stmt : def.body) {
    if (const auto* field = stmt->As<ast::AnnAssign>()) {
      KILN_ASSIGN_OR_RETURN(const bool taken, library.TakeField(*field, type));
      if (taken) continue;
    }
    if (const auto* text = stmt->As<ast::ExprStmt>();
        text && text->value->kind == ast::ExprKind::kConstant) {
      continue;  // what the class says of itself
    }
    KILN_RETURN_IF_ERROR(Exec(stmt).status());
    if (type->kind != ClassKind::kEnum) continue;
    std::vector<absl::string_view> names;
    CollectBindings(stmt, &names);
    for (absl::string_view name : names) {
      const auto found = scope->names.find(name);
      if (found == scope->names.end()) continue;
      KILN_RETURN_IF_ERROR(
          library.SettleAuto(*type, std::string(name), &values, &found->second.value, stmt->loc));
    }
  }
  for (ast::StmtPtr stmt : def.body) {  // in the order of the text
    std::vector<absl::string_view> names;
    CollectBindings(stmt, &names);
    for (absl::string_view name : names) {
      const auto found = scope->names.find(name);
      if (found == scope->names.end() || MemberOf(type->members, name)) continue;
      const Value value = found->second.value;
      if (value.Is(Type::kFunction) && value.function().def != nullptr) {
        FunctionObject& function = value.function();
        function.owner = type;
        function.closure = type->closure;  // a method does not see the names of its class
        const ast::Block& body = function.def->body;
        function.stores = function.def->name != "__init__" && AnyStores(body);
      }
      type->members.emplace_back(std::string(name), value);
    }
  }
  KILN_RETURN_IF_ERROR(library.ReadSlots(type, loc));
  type->ready = true;
  if (type->kind != ClassKind::kEnum) return absl::OkStatus();
  return library.MakeCases(Value::Of(Type::kClass, type), loc);
}

absl::StatusOr<const Value*> Elaborator::FindInClass(const Value& type, absl::string_view name,
                                                     SourceLoc loc) {
  KILN_RETURN_IF_ERROR(Step(loc));
  KILN_RETURN_IF_ERROR(Prepare(&type.type_object(), loc));
  const Value* member = nullptr;
  const auto find = [&](const ClassObject& object) {
    if (reads_ != nullptr) reads_->NoteObject(object);
    member = MemberOf(object.members, name);
    return member != nullptr;
  };
  if (find(type.type_object())) return member;
  for (const Value& next : type.type_object().order) {
    KILN_RETURN_IF_ERROR(Step(loc));
    if (find(next.type_object())) return member;
  }
  return nullptr;
}

absl::StatusOr<Value> Elaborator::ReadMember(const Value& member, const Value& self,
                                             SourceLoc loc) {
  if (!member.Is(Type::kFunction) || member.function().owner == nullptr) return member;
  const MethodKind kind = member.function().method;
  if (kind == MethodKind::kStatic) return member;
  if (kind == MethodKind::kProperty) {
    CallArgs args;
    args.loc = loc;
    return CallFunction(member, args, &self);
  }
  auto* method = arena_.New<MethodObject>();
  method->self = self;
  if (kind == MethodKind::kClass && self.Is(Type::kInstance)) {
    method->self = Value::Of(Type::kClass, self.instance().type);
  }
  method->callee = member;
  return Value::Of(Type::kMethod, method);
}

absl::StatusOr<Value> Elaborator::ClassAttribute(const Value& type, const Value& self,
                                                 const std::string& attr, SourceLoc loc) {
  KILN_RETURN_IF_ERROR(Prepare(&type.type_object(), loc));
  if (type.type_object().kind == ClassKind::kNamedTuple && attr == "_fields") {
    std::vector<Value> names;
    for (const ClassField& field : type.type_object().fields) names.push_back(NewStr(field.name));
    return NewTuple(std::move(names));
  }
  KILN_ASSIGN_OR_RETURN(const Value* member, FindInClass(type, attr, loc));
  if (member == nullptr) {
    if (Classes::IsSlot(type.type_object(), attr)) {
      return Unimplemented(loc, absl::StrCat("'", attr, "' of ", Describe(type), ", a slot"),
                           "read it from an object of the class");
    }
    return Error(loc, absl::StrCat(Describe(type), " has no attribute '", attr, "'"),
                 "check the name");
  }
  const bool function = member->Is(Type::kFunction) && member->function().owner != nullptr;
  const bool unbound =
      self.Is(Type::kClass) && function && member->function().method != MethodKind::kClass;
  return unbound ? *member : ReadMember(*member, self, loc);
}

// Those of its bases too.
static void AppendMemberNames(const ClassObject& type, std::vector<std::string>* names) {
  for (const auto& entry : type.members) names->push_back(entry.first);
  for (const Value& base : type.bases) {
    if (base.Is(Type::kClass)) AppendMemberNames(base.type_object(), names);
  }
}

absl::StatusOr<Value> Elaborator::InstanceAttribute(const Value& self, const std::string& attr,
                                                    SourceLoc loc) {
  const InstanceObject& instance = self.instance();
  if (reads_ != nullptr) reads_->NoteAttribute(instance, attr);
  if (const Value* value = AttributeOf(instance, attr)) return *value;
  if (instance.type != nullptr) {
    const Value type = Value::Of(Type::kClass, instance.type);
    if (attr == "__class__") return type;
    KILN_ASSIGN_OR_RETURN(const Value* member, FindInClass(type, attr, loc));
    if (member != nullptr) {
      KILN_ASSIGN_OR_RETURN(const Value value, ReadMember(*member, self, loc));
      const bool kept = member->Is(Type::kFunction) && member->function().kept;
      if (kept && !InRuntimeRegion()) self.instance().attributes.emplace_back(attr, value);
      return value;
    }
    const bool is_case = instance.type->kind == ClassKind::kEnum;
    if (is_case && (attr == "_name_" || attr == "_value_")) {
      return *AttributeOf(instance, attr == "_name_" ? "name" : "value");
    }
    if (is_case && instance.type->is_value) return GetAttribute(Plain(self), attr, loc);
  }
  std::vector<std::string> names;
  for (const auto& entry : instance.attributes) names.push_back(entry.first);
  if (instance.type != nullptr) AppendMemberNames(*instance.type, &names);
  return Error(loc, absl::StrCat(Describe(self), " has no attribute '", attr, "'"),
               DidYouMean(attr, names, "set it in __init__"));
}

absl::Status Elaborator::SetAttribute(const Value& self, const std::string& attr, Value value,
                                      SourceLoc loc) {
  if (!frame_->traced && self.Is(Type::kClass)) {
    ClassObject& type = self.type_object();
    KILN_RETURN_IF_ERROR(Prepare(&type, loc));
    NoteChange(type);
    std::erase_if(type.members, [&](const auto& member) { return member.first == attr; });
    type.members.emplace_back(attr, value);
    return absl::OkStatus();
  }
  if (self.Is(Type::kUnknown) && module_.FindSection(self.unknown().path) != nullptr) {
    return Error(loc,
                 absl::StrCat("'", attr, "' of the file of '", self.unknown().path,
                              "' is given another value from outside of it"),
                 "give it that value in its own file, or pass it as an argument");
  }
  // What the file sets for its own host code: torch.backends.x = True, function.calls = 0.
  const bool host = self.Is(Type::kModule) || self.is_import() || self.Is(Type::kFunction);
  if (host && frame_->module_index != SIZE_MAX) return absl::OkStatus();
  if (!self.Is(Type::kInstance) || self.instance().type == nullptr) {
    return Error(loc, absl::StrCat(Describe(self), " has no attributes to assign to"),
                 "keep the value in a name or a T.alloc_var");
  }
  InstanceObject& instance = self.instance();
  if (instance.closed) {
    return Error(loc, absl::StrCat("'", attr, "' of ", Describe(self), " cannot be assigned to"),
                 instance.type->kind == ClassKind::kEnum
                     ? "members of an enum do not change"
                     : "its class is frozen: make another object, as with dataclasses.replace");
  }
  if (attr == "__name__" && value.Is(Type::kStr)) {
    instance.name = value.str();
    return absl::OkStatus();
  }
  const auto found = std::find_if(instance.attributes.begin(), instance.attributes.end(),
                                  [&](const auto& entry) { return entry.first == attr; });
  const bool known = found != instance.attributes.end();
  const bool scalar = IsRuntime(value) ? !IsVariable(value) : value.is_number();
  if (known && IsVariable(found->second) && scalar && !regions_.empty()) {
    KILN_RETURN_IF_ERROR(RequireLaunch(loc, "a store"));
    return StoreElement(found->second.buffer().buffer, {ir::MakeInt(0)}, value, loc);
  }
  if (!known && instance.type != nullptr) {
    const Value type = Value::Of(Type::kClass, instance.type);
    KILN_ASSIGN_OR_RETURN(const Value* member, FindInClass(type, attr, loc));
    if (member != nullptr && member->Is(Type::kFunction) &&
        member->function().method == MethodKind::kProperty) {
      return Error(loc, absl::StrCat("'", attr, "' is a property of ", Describe(self)),
                   "assign to the attribute that it reads");
    }
  }
  if (!known && !Classes::HasRoom(*instance.type, attr)) {
    return Raised(Error(loc,
                        absl::StrCat("'", attr, "' of ", Describe(self),
                                     " cannot be assigned to: it is none of the __slots__"),
                        "name it in __slots__, or leave __slots__ out"),
                  "AttributeError");
  }
  if (!MayMutate(instance)) {
    return Error(
        loc,
        absl::StrCat("the attribute '", attr,
                     "' is changed inside a run-time branch or loop, which would change "
                     "it once, not at run time"),
        absl::StrCat("make it a variable in __init__: self.", attr, " = T.alloc_var(dtype)"));
  }
  KILN_ASSIGN_OR_RETURN(value, Keep(std::move(value), attr, loc));
  KILN_RETURN_IF_ERROR(ChargeBytes(loc, 48));
  if (known) {
    found->second = value;
  } else {
    instance.attributes.emplace_back(attr, value);
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Elaborator::Construct(const Value& type, const CallArgs& args) {
  KILN_RETURN_IF_ERROR(Prepare(&type.type_object(), args.loc));
  const ClassKind kind = type.type_object().kind;
  if (kind == ClassKind::kEnum || kind == ClassKind::kNamedTuple) {
    return Classes(this).Make(type, args, Value::None());
  }
  auto* instance = arena_.New<InstanceObject>();
  instance->type = &type.type_object();
  instance->name = std::string(name_hint_);
  instance->region = CurrentRegion();
  const Value self = Value::Of(Type::kInstance, instance);
  KILN_RETURN_IF_ERROR(ChargeBytes(args.loc, 128));
  KILN_ASSIGN_OR_RETURN(const Value* init, FindInClass(type, "__init__", args.loc));
  if (init != nullptr) {
    KILN_RETURN_IF_ERROR(CallFunction(*init, args, &self).status());
    return self;
  }
  if (kind == ClassKind::kDataclass) return Classes(this).Make(type, args, self);
  if (!args.positional.empty() || !args.keywords.empty()) {
    return Error(args.loc, absl::StrCat(Describe(type), " takes no arguments"),
                 "give it an __init__");
  }
  return self;
}

// super(): what comes behind the class whose method runs in the order of its own object's.
absl::StatusOr<Value> Elaborator::Super(const CallArgs& args) {
  const Frame* frame = frame_;
  while (frame != nullptr && frame->function == nullptr) frame = frame->parent;
  const ClassObject* owner = frame == nullptr ? nullptr : frame->function->owner;
  const bool object = owner != nullptr && frame->self.Is(Type::kInstance);
  if (!object && (owner == nullptr || !frame->self.Is(Type::kClass))) {
    return Error(args.loc, "super() outside of a method", "call it in a method of a class");
  }
  const ClassObject* own = object ? frame->self.instance().type : &frame->self.type_object();
  auto* bases = arena_.New<ClassObject>();  // a class without members of its own
  bases->def = owner->def;
  bases->bases = owner->bases;
  bases->order = own == owner ? owner->order : Behind(*own, *owner);
  bases->ready = true;
  auto* method = arena_.New<MethodObject>();
  method->self = frame->self;
  method->callee = Value::Of(Type::kClass, bases);
  return Value::Of(Type::kMethod, method);
}

absl::StatusOr<Value> Elaborator::BundledClass(absl::string_view name, SourceLoc loc) {
  if (bundled_ == nullptr) {
    bundled_ = arena_.New<Scope>();
    Binding language;
    language.value = Value::OfModule(FindModule("tilelang.language"));
    bundled_->names.insert_or_assign("T", language);
    language.value = Value::OfModule(FindModule("tilelang.carver.arch.driver"));
    bundled_->names.insert_or_assign("driver", language);
    for (const auto& [name, value] : PythonBuiltins().members) {
      language.value = value;
      bundled_->names.insert_or_assign(name, language);
    }
    for (ast::StmtPtr stmt : BundledTree().body) {
      const auto& def = *stmt->As<ast::Class>();
      auto* type = arena_.New<ClassObject>();
      type->def = &def;
      type->closure = type->around = bundled_;
      Binding binding;
      binding.value = Value::Of(Type::kClass, type);
      bundled_->names.insert_or_assign(def.name, binding);
    }
  }
  const auto found = bundled_->names.find(name);
  if (found != bundled_->names.end()) return found->second.value;
  return Error(loc, absl::StrCat("no class '", name, "' comes with the language"),
               "check the name");
}

}  // namespace kiln::lang
