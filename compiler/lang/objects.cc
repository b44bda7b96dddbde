// Classes and their instances: objects of compile time, whose attributes may stand for run-time
// things. A method that stores runs like a macro inside a kernel, any other like a plain function.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/lang/bundled.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/suggest.h"

namespace kiln::lang {
namespace {

absl::string_view LastName(ast::ExprPtr expr) {
  if (const auto* call = expr->As<ast::Call>()) expr = call->callee;
  if (const auto* name = expr->As<ast::Name>()) return name->id;
  if (const auto* attribute = expr->As<ast::Attribute>()) return attribute->attr;
  return {};
}

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

absl::StatusOr<Value> Elaborator::MakeClass(const ast::Class& def) {
  auto* type = arena_.New<ClassObject>();
  type->def = &def;
  type->closure = frame_->module_index == SIZE_MAX ? frame_->scope : nullptr;
  return Value::Of(Type::kClass, type);
}

absl::Status Elaborator::Prepare(ClassObject* type, SourceLoc loc) {
  if (type->ready) return absl::OkStatus();
  const ast::Class& def = *type->def;
  if (type->preparing) {
    return Error(loc, absl::StrCat("the class '", def.name, "' needs itself to be defined"),
                 "break the cycle");
  }
  type->preparing = true;
  for (ast::ExprPtr decorator : def.decorators) {
    const absl::string_view name = LastName(decorator);
    if (name == "dataclass") type->is_dataclass = true;
    if (name == "dataclass" || name == "meta_class") continue;
    return Unimplemented(decorator->loc, absl::StrCat("the decorator '", name, "' of a class"),
                         "use @T.meta_class, @dataclass or none");
  }
  Scope* scope = arena_.New<Scope>();
  scope->parent = type->closure;
  Frame frame;
  frame.name = def.name;
  frame.what = "class";
  frame.call = loc;
  frame.scope = scope;
  CountGuard depth(&depth_);
  FrameGuard guard(this, &frame);
  KILN_RETURN_IF_ERROR(CheckDepth(loc));
  for (ast::ExprPtr base : def.bases) {
    KILN_ASSIGN_OR_RETURN(const Value value, Eval(base));
    if (value.Is(Type::kTypeName) && absl::string_view(value.type_name()) == "object") continue;
    if (!value.Is(Type::kClass)) {
      return Unimplemented(base->loc,
                           absl::StrCat("the class '", def.name, "' is based on ", Describe(value),
                                        ", which is no class that kernels know"),
                           "base it on a class of this file, or on T.BaseTileScheduler");
    }
    KILN_RETURN_IF_ERROR(Prepare(&value.type_object(), loc));
    type->bases.push_back(value);
  }
  for (ast::StmtPtr stmt : def.body) {
    if (const auto* field = stmt->As<ast::AnnAssign>(); field && type->is_dataclass) {
      type->fields.push_back(field);
      continue;
    }
    if (const auto* text = stmt->As<ast::ExprStmt>();
        text && text->value->kind == ast::ExprKind::kConstant) {
      continue;  // what the class says of itself
    }
    KILN_RETURN_IF_ERROR(Exec(stmt).status());
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
  type->ready = true;
  return absl::OkStatus();
}

absl::StatusOr<const Value*> Elaborator::FindInClass(const Value& type, absl::string_view name,
                                                     SourceLoc loc) {
  ClassObject& object = type.type_object();
  KILN_RETURN_IF_ERROR(Step(loc));
  KILN_RETURN_IF_ERROR(Prepare(&object, loc));
  if (const Value* member = MemberOf(object.members, name)) return member;
  for (const Value& base : object.bases) {
    KILN_ASSIGN_OR_RETURN(const Value* member, FindInClass(base, name, loc));
    if (member != nullptr) return member;
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
  KILN_ASSIGN_OR_RETURN(const Value* member, FindInClass(type, attr, loc));
  if (member == nullptr) {
    return Error(loc, absl::StrCat(Describe(type), " has no attribute '", attr, "'"),
                 "check the name");
  }
  const bool function = member->Is(Type::kFunction) && member->function().owner != nullptr;
  const bool unbound =
      self.Is(Type::kClass) && function && member->function().method != MethodKind::kClass;
  return unbound ? *member : ReadMember(*member, self, loc);
}

absl::StatusOr<Value> Elaborator::InstanceAttribute(const Value& self, const std::string& attr,
                                                    SourceLoc loc) {
  const InstanceObject& instance = self.instance();
  if (const Value* value = MemberOf(instance.attributes, attr)) return *value;
  if (instance.type != nullptr) {
    const Value type = Value::Of(Type::kClass, instance.type);
    if (attr == "__class__") return type;
    KILN_ASSIGN_OR_RETURN(const Value* member, FindInClass(type, attr, loc));
    if (member != nullptr) return ReadMember(*member, self, loc);
  }
  std::vector<std::string> names;
  for (const auto& entry : instance.attributes) names.push_back(entry.first);
  if (instance.type != nullptr) {
    for (const auto& entry : instance.type->members) names.push_back(entry.first);
  }
  return Error(loc, absl::StrCat(Describe(self), " has no attribute '", attr, "'"),
               DidYouMean(attr, names, "set it in __init__"));
}

absl::Status Elaborator::SetAttribute(const Value& self, const std::string& attr, Value value,
                                      SourceLoc loc) {
  if (!self.Is(Type::kInstance) || self.instance().type == nullptr) {
    return Error(loc, absl::StrCat(Describe(self), " has no attributes to assign to"),
                 "keep the value in a name or a T.alloc_var");
  }
  InstanceObject& instance = self.instance();
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
  if (!MayMutate(instance.region)) {
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

absl::Status Elaborator::FillFields(const ClassObject& type, const CallArgs& args,
                                    InstanceObject* instance) {
  size_t next = 0;
  std::vector<bool> used(args.keywords.size(), false);
  for (const ast::AnnAssign* field : type.fields) {
    const auto* name = field->target->As<ast::Name>();
    if (name == nullptr) continue;
    Value value;
    size_t keyword = 0;
    while (keyword < args.keywords.size() && args.keywords[keyword].name != name->id) ++keyword;
    if (next < args.positional.size()) {
      value = args.positional[next++];
    } else if (keyword < args.keywords.size()) {
      value = args.keywords[keyword].value;
      used[keyword] = true;
    } else if (field->value != nullptr) {
      KILN_ASSIGN_OR_RETURN(value, Eval(field->value));
    } else {
      return Error(args.loc,
                   absl::StrCat("'", type.def->name, "' needs its argument '", name->id, "'"),
                   "pass it");
    }
    KILN_ASSIGN_OR_RETURN(value, Keep(std::move(value), name->id, args.loc));
    instance->attributes.emplace_back(name->id, value);
  }
  if (next < args.positional.size()) {
    return Error(args.locs[next], absl::StrCat("'", type.def->name, "' has ", next, " fields"),
                 "drop the extra arguments");
  }
  for (size_t k = 0; k < used.size(); ++k) {
    if (used[k]) continue;
    return Error(args.keywords[k].loc,
                 absl::StrCat("'", type.def->name, "' has no field '", args.keywords[k].name, "'"),
                 "drop it");
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Elaborator::Construct(const Value& type, const CallArgs& args) {
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
  if (type.type_object().is_dataclass) {
    KILN_RETURN_IF_ERROR(FillFields(type.type_object(), args, instance));
    return self;
  }
  if (!args.positional.empty() || !args.keywords.empty()) {
    return Error(args.loc, absl::StrCat(Describe(type), " takes no arguments"),
                 "give it an __init__");
  }
  return self;
}

// super(): the bases of the class whose method runs, on its own object.
absl::StatusOr<Value> Elaborator::Super(const CallArgs& args) {
  const Frame* frame = frame_;
  while (frame != nullptr && frame->function == nullptr) frame = frame->parent;
  const ClassObject* owner = frame == nullptr ? nullptr : frame->function->owner;
  if (owner == nullptr || !frame->self.Is(Type::kInstance)) {
    return Error(args.loc, "super() outside of a method", "call it in a method of a class");
  }
  auto* bases = arena_.New<ClassObject>();  // a class without members of its own
  bases->def = owner->def;
  bases->bases = owner->bases;
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
      type->closure = bundled_;
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
