// Which names may share parts of their values, and which have values that never change.
#include "absl/strings/str_cat.h"
#include "compiler/lang/ast_walk.h"
#include "compiler/lang/touches.h"
#include "compiler/lang/touches_syntax.h"

namespace kiln::lang {
namespace {

// Of Python's library, which passes on what it is given; other packages make things of their own.
bool PassesOn(absl::string_view module) {
  static constexpr absl::string_view kModules[] = {
      "copy",        "functools", "itertools", "operator", "collections", "contextlib",
      "dataclasses", "types",     "heapq",     "bisect",   "random",      "builtins"};
  return IsOneOf(module.substr(0, module.find('.')), kModules);
}

// Of Python's own functions: those whose result is no part of what they are given.
bool MakesNew(absl::string_view builtin) {
  static constexpr absl::string_view kFunctions[] = {
      "len",    "int", "float", "bool", "str",      "abs",        "round",      "range", "repr",
      "format", "ord", "chr",   "hash", "callable", "isinstance", "issubclass", "all",   "any",
      "divmod", "pow", "print", "id",   "hasattr",  "hex",        "bin",        "oct",   "bytes"};
  return IsOneOf(builtin, kFunctions);
}

}  // namespace

void Touches::Collect(StmtPtr stmt) {
  if (const auto* function = stmt->As<ast::Function>()) {
    functions_[function->name].push_back(function);
    files_->owners_.emplace(function, &Root());
  } else if (const auto* type = stmt->As<ast::Class>()) {
    classes_[type->name] = type;
    CollectClass(*type);
  } else if (const auto* import = stmt->As<ast::Import>()) {
    CollectImport(*import);
  }
}

void Touches::CollectClass(const ast::Class& type) {
  auto& methods = outer_ == nullptr ? files_->methods_ : methods_;
  files_->class_owners_.emplace(&type, &Root());
  for (StmtPtr stmt : type.body) {
    Walk(stmt, [&](StmtPtr s) {
      if (const auto* method = s->As<ast::Function>()) {
        methods[method->name].push_back(method);
        files_->owners_.emplace(method, &Root());
      }
      if (const auto* inner = s->As<ast::Class>()) CollectClass(*inner);
    });
  }
}

void Touches::NoteBinding(ExprPtr target, ExprPtr value) {
  if (value != nullptr && IsPaired(target, value)) {
    for (size_t i = 0; i < ItemsOf(target)->size(); ++i) {
      NoteBinding((*ItemsOf(target))[i], (*ItemsOf(value))[i]);
    }
    return;
  }
  Names names;
  TargetNames(target, &names);
  for (absl::string_view name : names) bound_[name].push_back(value);
}

void Touches::Bindings(StmtPtr stmt) {
  if (const auto* assign = stmt->As<ast::Assign>()) {
    for (ExprPtr target : assign->targets) NoteBinding(target, assign->value);
  } else if (const auto* annotated = stmt->As<ast::AnnAssign>()) {
    if (annotated->value != nullptr) NoteBinding(annotated->target, annotated->value);
  } else if (const auto* aug = stmt->As<ast::AugAssign>()) {
    NoteBinding(aug->target, aug->value);
  } else if (const auto* loop = stmt->As<ast::For>()) {
    const auto* items = ItemsOf(loop->iterable);
    if (items == nullptr) NoteBinding(loop->target, loop->iterable);
    for (size_t i = 0; items != nullptr && i < items->size(); ++i) {
      NoteBinding(loop->target, (*items)[i]);
    }
  } else if (const auto* with = stmt->As<ast::With>()) {
    for (const ast::WithItem& item : with->items) {
      if (item.target != nullptr) NoteBinding(item.target, item.context);
    }
  } else if (const auto* function = stmt->As<ast::Function>()) {
    bound_[function->name].push_back(nullptr);
  } else if (const auto* type = stmt->As<ast::Class>()) {
    bound_[type->name].push_back(nullptr);
  }
  ForExprs(stmt, [&](ExprPtr expr) {
    WalkExpr(expr, [&](ExprPtr part) {
      if (const auto* named = part->As<ast::Named>()) NoteBinding(named->target, named->value);
      const auto* comprehension = part->As<ast::Comprehension>();
      for (size_t i = 0; comprehension != nullptr && i < comprehension->clauses.size(); ++i) {
        NoteBinding(comprehension->clauses[i].target, comprehension->clauses[i].iterable);
      }
      const auto* lambda = part->As<ast::Lambda>();
      for (size_t i = 0; lambda != nullptr && i < lambda->params.size(); ++i) {
        bound_[lambda->params[i].name].push_back(nullptr);
      }
    });
  });
}

// Begins with all names, and takes out those of which something else is known.
bool Touches::FindFixed() {
  bool any = false;
  for (bool more = true; more;) {
    more = false;
    for (const auto& [name, values] : bound_) {
      if (!fixed_.contains(name)) continue;
      const bool fixed = std::all_of(values.begin(), values.end(), [&](ExprPtr value) {
        return value != nullptr && IsFixed(value);
      });
      if (!fixed) {
        fixed_.erase(name);
        any = more = true;
      }
    }
  }
  return any;
}

bool Touches::Binds(absl::string_view name) const { return bound_.contains(name); }

bool Touches::IsFixedName(absl::string_view name) const {
  if (bound_.contains(name) && !fixed_.contains(name)) return false;
  if (const auto place = PlaceOf(name)) return place->file->fixed_.contains(place->name);
  if (bound_.contains(name) || imported_.contains(name) || modules_.contains(name)) return true;
  return outer_ == nullptr || outer_->IsFixedName(name);
}

bool Touches::IsNode(absl::string_view name) const {
  if (IsFixedName(name)) return false;
  const auto* functions = FunctionsOf(name);
  return functions == nullptr || !std::all_of(functions->begin(), functions->end(),
                                              [](const auto* f) { return IsKernelLike(*f); });
}

const std::string* Touches::ModuleOf(absl::string_view name) const {
  const auto found = modules_.find(name);
  if (found != modules_.end()) return &found->second;
  return outer_ == nullptr || bound_.contains(name) ? nullptr : outer_->ModuleOf(name);
}

const std::vector<const ast::Function*>* Touches::FunctionsOf(absl::string_view name) const {
  const auto found = functions_.find(name);
  if (found != functions_.end()) return &found->second;
  if (const auto place = PlaceOf(name)) return place->file->FunctionsOf(place->name);
  return outer_ == nullptr || bound_.contains(name) ? nullptr : outer_->FunctionsOf(name);
}

const std::vector<const ast::Function*>* Touches::MethodsOf(absl::string_view name) const {
  if (outer_ == nullptr) {  // of the classes of all files
    const auto found = files_->methods_.find(name);
    return found == files_->methods_.end() ? nullptr : &found->second;
  }
  const auto found = methods_.find(name);
  return found == methods_.end() ? outer_->MethodsOf(name) : &found->second;
}

const ast::Class* Touches::ClassOf(absl::string_view name) const {
  const auto found = classes_.find(name);
  if (found != classes_.end()) return found->second;
  if (const auto place = PlaceOf(name)) return place->file->ClassOf(place->name);
  return outer_ == nullptr || bound_.contains(name) ? nullptr : outer_->ClassOf(name);
}

const std::vector<const ast::Function*>* Touches::FunctionsAt(ExprPtr callee) const {
  if (const auto* name = callee->As<ast::Name>()) return FunctionsOf(name->id);
  const auto place = PlaceOf(callee);
  return place.has_value() ? place->file->FunctionsOf(place->name) : nullptr;
}

const ast::Class* Touches::ClassAt(ExprPtr callee) const {
  if (const auto* name = callee->As<ast::Name>()) return ClassOf(name->id);
  const auto place = PlaceOf(callee);
  return place.has_value() ? place->file->ClassOf(place->name) : nullptr;
}

bool Touches::IsFixedCall(const ast::Call& call) const {
  if (const auto* functions = FunctionsAt(call.callee)) {
    return std::all_of(functions->begin(), functions->end(),
                       [](const ast::Function* f) { return IsKernelLike(*f); });
  }
  if (ClassAt(call.callee) != nullptr) return false;
  if (const std::string* module = ModuleOf(RootOf(call.callee))) return !PassesOn(*module);
  if (const auto* name = call.callee->As<ast::Name>()) {
    for (const Touches* t = this; t != nullptr; t = t->outer_) {
      if (t->Binds(name->id)) return IsFixedName(name->id);
    }
    return MakesNew(name->id);
  }
  if (const auto* method = call.callee->As<ast::Attribute>()) {
    if (MethodsOf(method->attr) != nullptr) return false;
  }
  return IsFixed(call.callee);
}

bool Touches::IsFixed(ExprPtr expr) const {
  switch (expr->kind) {
    case ast::ExprKind::kConstant:
    case ast::ExprKind::kFString:
    case ast::ExprKind::kCompare:
    case ast::ExprKind::kSlice:
    case ast::ExprKind::kUnsupported:
      return true;
    case ast::ExprKind::kName:
      return IsFixedName(expr->As<ast::Name>()->id);
    case ast::ExprKind::kAttribute:
      if (const auto place = PlaceOf(expr)) return place->file->fixed_.contains(place->name);
      return IsFixed(expr->As<ast::Attribute>()->value);
    case ast::ExprKind::kSubscript:
      return IsFixed(expr->As<ast::Subscript>()->value);
    case ast::ExprKind::kCall:
      return IsFixedCall(*expr->As<ast::Call>());
    case ast::ExprKind::kUnary:
      if (expr->As<ast::Unary>()->op == ast::UnaryOp::kNot) return true;
      [[fallthrough]];
    case ast::ExprKind::kBinary:
    case ast::ExprKind::kBool:
    case ast::ExprKind::kConditional:
    case ast::ExprKind::kTuple:
    case ast::ExprKind::kStarred: {
      bool fixed = true;
      ForChildren(expr, [&](ExprPtr part) { fixed = fixed && IsFixed(part); });
      return fixed;
    }
    default:
      return false;
  }
}

absl::string_view Touches::InstancesOf(const ast::Class& type) const {
  Touches* owner = files_->class_owners_.at(&type);
  const std::string text = absl::StrCat(type.name, "()");
  absl::string_view& name = files_->interned_[text];
  if (name.empty()) {
    files_->texts_.push_back(text);
    name = files_->texts_.back();
  }
  return NodeOf({owner, name});
}

void Touches::Held(ExprPtr expr, Names* names) {
  if (const auto module = ModuleAt(expr)) return NodesOfModule(*module, names);
  if (IsFixed(expr)) return;
  if (expr->kind == ast::ExprKind::kAttribute) {
    if (const auto place = PlaceOf(expr)) return names->push_back(NodeOf(*place));
  }
  if (const auto* name = expr->As<ast::Name>()) {
    if (IsNode(name->id)) names->push_back(name->id);
    return;
  }
  const auto* call = expr->As<ast::Call>();
  const ast::Class* type = call == nullptr ? nullptr : ClassAt(call->callee);
  if (type != nullptr) {
    names->push_back(InstancesOf(*type));
    for (ExprPtr arg : call->args) Held(arg, names);
    for (const ast::Keyword& keyword : call->keywords) Held(keyword.value, names);
    return;
  }
  if (const auto* attribute = expr->As<ast::Attribute>()) {
    const auto* methods = MethodsOf(attribute->attr);
    for (size_t i = 0; methods != nullptr && i < methods->size(); ++i) {
      for (absl::string_view name : EffectsOf(*(*methods)[i]).kept) names->push_back(name);
    }
  }
  ForChildren(expr, [&](ExprPtr part) { Held(part, names); });
}

absl::string_view Touches::Group(absl::string_view name) {
  for (auto next = group_.find(name); next != group_.end(); next = group_.find(name)) {
    const auto further = group_.find(next->second);
    if (further != group_.end()) next->second = further->second;  // shorter the next time
    name = next->second;
  }
  return name;
}

void Touches::Link(const Names& names) {
  for (size_t i = 1; i < names.size(); ++i) {
    const absl::string_view a = Group(names[0]), b = Group(names[i]);
    if (a != b) group_[a] = b;
  }
}

void Touches::Pair(ExprPtr target, ExprPtr value) {
  if (IsPaired(target, value)) {
    for (size_t i = 0; i < ItemsOf(target)->size(); ++i) {
      Pair((*ItemsOf(target))[i], (*ItemsOf(value))[i]);
    }
    return;
  }
  Names names;
  Held(value, &names);
  Held(target, &names);
  Link(names);
}

// It has data of its own, which its objects may change.
bool Touches::HoldsData(const ast::Class& type, int depth) const {
  for (StmtPtr stmt : type.body) {
    const auto* assign = stmt->As<ast::Assign>();
    if (assign != nullptr && !IsFixed(assign->value)) return true;
  }
  return depth < kMaxCalls && std::any_of(type.bases.begin(), type.bases.end(), [&](ExprPtr base) {
           const ast::Class* known = ClassAt(base);
           return known != nullptr && known != &type &&
                  files_->class_owners_.at(known)->HoldsData(*known, depth + 1);
         });
}

void Touches::LearnClass(const ast::Class& type) {
  Names names = {InstancesOf(type)};
  for (StmtPtr stmt : type.body) {
    Walk(stmt, [&](StmtPtr s) {
      Learn(s);
      const auto* assign = s->As<ast::Assign>();
      if (assign != nullptr) Held(assign->value, &names);
      const auto* method = s->As<ast::Function>();
      if (method == nullptr || IsKernelLike(*method)) return;
      for (absl::string_view name : Of(*method).kept) names.push_back(name);
    });
  }
  for (ExprPtr base : type.bases) {
    const ast::Class* known = ClassAt(base);
    if (known != nullptr && known != &type) names.push_back(InstancesOf(*known));
  }
  if (HoldsData(type, 0)) names.push_back(type.name);
  Link(names);
}

void Touches::Learn(StmtPtr stmt) {
  if (const auto* assign = stmt->As<ast::Assign>()) {
    Names names;  // x = y = []
    for (ExprPtr target : assign->targets) {
      Pair(target, assign->value);
      if (assign->targets.size() > 1) Held(target, &names);
    }
    Link(names);
  } else if (const auto* annotated = stmt->As<ast::AnnAssign>()) {
    if (annotated->value != nullptr) Pair(annotated->target, annotated->value);
  } else if (const auto* aug = stmt->As<ast::AugAssign>()) {
    Pair(aug->target, aug->value);
  } else if (const auto* loop = stmt->As<ast::For>()) {
    Pair(loop->target, loop->iterable);
  } else if (const auto* with = stmt->As<ast::With>()) {
    for (const ast::WithItem& item : with->items) {
      if (item.target != nullptr) Pair(item.target, item.context);
    }
  } else if (const auto* function = stmt->As<ast::Function>()) {
    if (IsKernelLike(*function)) return;
    Names names = {function->name};
    for (const ast::Param& param : function->params) {
      if (param.default_value != nullptr) Held(param.default_value, &names);
    }
    for (absl::string_view name : Of(*function).kept) names.push_back(name);
    Link(names);
  } else if (const auto* type = stmt->As<ast::Class>()) {
    LearnClass(*type);
  }
  ForExprs(stmt, [&](ExprPtr expr) {
    WalkExpr(expr, [&](ExprPtr part) {
      if (const auto* named = part->As<ast::Named>()) Pair(named->target, named->value);
      const auto* comprehension = part->As<ast::Comprehension>();
      for (size_t i = 0; comprehension != nullptr && i < comprehension->clauses.size(); ++i) {
        Pair(comprehension->clauses[i].target, comprehension->clauses[i].iterable);
      }
      const auto* call = part->As<ast::Call>();
      if (call == nullptr) return;
      NameSet changed, rebound;
      OfCall(*call, &changed, &rebound);
      const auto* method = call->callee->As<ast::Attribute>();
      if (changed.empty() && (method == nullptr || !IsMutator(method->attr))) return;
      Names names;  // what is changed may hold them from then on
      Held(call->callee, &names);
      for (ExprPtr arg : call->args) Held(arg, &names);
      for (const ast::Keyword& keyword : call->keywords) Held(keyword.value, &names);
      Link(names);
    });
  });
}

}  // namespace kiln::lang
