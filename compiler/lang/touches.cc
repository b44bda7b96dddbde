#include "compiler/lang/touches.h"

#include <algorithm>

#include "compiler/lang/ast_walk.h"
#include "compiler/lang/module.h"

namespace kiln::lang {
namespace {

using ast::ExprPtr;
using ast::StmtPtr;

constexpr int kMaxCalls = 100;            // of functions inside of each other that are followed
constexpr size_t kMostNames = 1'000'000;  // a file has memory for
constexpr int kMaxHeld = 50;              // nesting of data that is looked through

// `x` of x.a[0].b; empty: it begins with something else.
absl::string_view RootOf(ExprPtr expr) {
  while (true) {
    if (const auto* name = expr->As<ast::Name>()) return name->id;
    if (const auto* attribute = expr->As<ast::Attribute>()) {
      expr = attribute->value;
    } else if (const auto* subscript = expr->As<ast::Subscript>()) {
      expr = subscript->value;
    } else {
      return {};
    }
  }
}

bool IsMutator(absl::string_view name) {
  static constexpr absl::string_view kMutators[] = {
      "append", "extend", "insert",  "update",     "pop",     "remove",  "sort",      "reverse",
      "clear",  "add",    "discard", "setdefault", "popitem", "popleft", "appendleft"};
  return std::find(std::begin(kMutators), std::end(kMutators), name) != std::end(kMutators);
}

void AddPlace(ExprPtr target, std::vector<absl::string_view>* roots) {
  if (const auto* tuple = target->As<ast::Tuple>()) {
    for (ExprPtr item : tuple->items) AddPlace(item, roots);
  } else if (const auto* list = target->As<ast::List>()) {
    for (ExprPtr item : list->items) AddPlace(item, roots);
  } else if (target->kind != ast::ExprKind::kName) {
    roots->push_back(RootOf(target));
  }
}

const ast::Call* CallIn(StmtPtr stmt) {
  const auto* annotated = stmt->As<ast::AnnAssign>();
  if (annotated != nullptr && annotated->value != nullptr) return annotated->value->As<ast::Call>();
  return CallOf(stmt);
}

}  // namespace

std::vector<absl::string_view> ChangedRoots(StmtPtr stmt) {
  std::vector<absl::string_view> roots;
  if (const auto* assign = stmt->As<ast::Assign>()) {
    for (ExprPtr target : assign->targets) AddPlace(target, &roots);
  } else if (const auto* annotated = stmt->As<ast::AnnAssign>()) {
    if (annotated->value != nullptr) AddPlace(annotated->target, &roots);
  } else if (const auto* aug = stmt->As<ast::AugAssign>()) {
    roots.push_back(RootOf(aug->target));
  } else if (const auto* removal = stmt->As<ast::Delete>()) {
    for (ExprPtr target : removal->targets) AddPlace(target, &roots);
  }
  if (const ast::Call* call = CallIn(stmt)) {
    const auto* attribute = call->callee->As<ast::Attribute>();
    if (attribute != nullptr && IsMutator(attribute->attr)) {
      roots.push_back(RootOf(attribute->value));
    }
    const auto* name = call->callee->As<ast::Name>();
    if (name != nullptr && !call->args.empty() &&
        (name->id == "setattr" || name->id == "delattr")) {
      roots.push_back(RootOf(call->args[0]));
    }
  }
  std::erase_if(roots, [](absl::string_view root) { return root.empty(); });
  return roots;
}

namespace {

// Of statements that change what a name says directly: x.append(...), x[...] = ...
bool IsDirect(StmtPtr stmt) {
  ExprPtr base = nullptr;
  if (const auto* assign = stmt->As<ast::Assign>()) {
    const auto* place = assign->targets[0]->As<ast::Subscript>();
    if (place != nullptr) base = place->value;
  } else if (const auto* aug = stmt->As<ast::AugAssign>()) {
    const auto* place = aug->target->As<ast::Subscript>();
    base = place != nullptr ? place->value : aug->target;
  }
  const ast::Call* call = base == nullptr ? CallIn(stmt) : nullptr;
  if (call != nullptr && call->callee->kind == ast::ExprKind::kAttribute) {
    base = call->callee->As<ast::Attribute>()->value;
  }
  return base != nullptr && base->kind == ast::ExprKind::kName;
}

// A number, text or what operators make of them: nothing that changes.
bool IsScalar(ExprPtr value) {
  switch (value->kind) {
    case ast::ExprKind::kConstant:
    case ast::ExprKind::kFString:
    case ast::ExprKind::kUnary:
    case ast::ExprKind::kCompare:
      return true;
    case ast::ExprKind::kBinary:
      return IsScalar(value->As<ast::Binary>()->left) || IsScalar(value->As<ast::Binary>()->right);
    default:
      return false;
  }
}

}  // namespace

Touches::Touches(const ast::Block& body, size_t first, size_t last) {
  for (size_t i = first; i < last; ++i) {
    Walk(body[i], [&](StmtPtr s) {
      if (const auto* function = s->As<ast::Function>()) functions_[function->name] = function;
      if (const auto* type = s->As<ast::Class>()) classes_[type->name] = type;
      if (s->kind != ast::StmtKind::kImport) return;
      std::vector<absl::string_view> names;
      CollectBindings(s, &names);
      imports_.insert(names.begin(), names.end());
    });
  }
  for (size_t i = first; i < last; ++i) {
    Walk(body[i], [&](StmtPtr s) {
      if (s->kind == ast::StmtKind::kAugAssign || s->kind == ast::StmtKind::kImport ||
          s->kind == ast::StmtKind::kIf || s->kind == ast::StmtKind::kTry) {
        return;  // names that others bind
      }
      const auto* assign = s->As<ast::Assign>();
      std::vector<absl::string_view> names;
      CollectBindings(s, &names);
      NameSet& kind = assign != nullptr && IsFixed(assign->value) ? fixed_ : others_;
      kind.insert(names.begin(), names.end());
    });
  }
  for (size_t i = first; i < last; ++i) {
    Walk(body[i], [&](StmtPtr s) { Learn(s); });
  }
  std::vector<absl::string_view> grouped;
  for (const auto& [name, unused] : group_) grouped.push_back(name);
  for (absl::string_view name : grouped) members_[Group(name)].push_back(name);
}

// What no statement of the file changes by another name: a number, text, what a module has, and
// what its functions make, but for containers.
bool Touches::IsFixed(ExprPtr value) const {
  if (IsScalar(value)) return true;
  const absl::string_view root = RootOf(value);
  if (!root.empty()) return imports_.contains(root);
  const auto* call = value->As<ast::Call>();
  return call != nullptr && !MakesData(*call);
}

bool Touches::MakesData(const ast::Call& call) const {
  const absl::string_view root = RootOf(call.callee), name = LastName(call.callee);
  return functions_.contains(root) || classes_.contains(root) || name == "list" || name == "dict" ||
         name == "set" || name == "tuple" || name == "defaultdict" || name == "OrderedDict" ||
         name == "copy" || name == "setdefault" || name == "get";
}

void Touches::Learn(StmtPtr stmt) {
  std::vector<ExprPtr> targets;
  ExprPtr value = nullptr;
  if (const auto* assign = stmt->As<ast::Assign>()) {
    targets = assign->targets;
    value = assign->value;
  } else if (const auto* annotated = stmt->As<ast::AnnAssign>()) {
    targets = {annotated->target};
    value = annotated->value;
  }
  if (value == nullptr) return;
  std::vector<absl::string_view> names;
  for (ExprPtr target : targets) Held(target, 0, &names);
  const auto* call = value->As<ast::Call>();
  const absl::string_view made = call == nullptr ? absl::string_view() : RootOf(call->callee);
  if (classes_.contains(made)) {
    for (absl::string_view name : names) instances_[name] = made;
  }
  Held(value, 0, &names);
  std::erase_if(names, [&](absl::string_view name) { return !MayBeShared(name); });
  for (size_t i = 1; i < names.size(); ++i) {
    const absl::string_view a = Group(names[0]), b = Group(names[i]);
    if (a != b) group_[a] = b;
  }
}

bool Touches::MayBeShared(absl::string_view name) const {
  return !imports_.contains(name) && !functions_.contains(name) && !classes_.contains(name) &&
         (others_.contains(name) || !fixed_.contains(name));
}

absl::string_view Touches::Group(absl::string_view name) {
  for (auto next = group_.find(name); next != group_.end(); next = group_.find(name)) {
    const auto further = group_.find(next->second);
    if (further != group_.end()) next->second = further->second;  // shorter the next time
    name = next->second;
  }
  return name;
}

void Touches::Held(ExprPtr expr, int depth, std::vector<absl::string_view>* names) const {
  if (expr == nullptr || depth > kMaxHeld) return;
  const auto all = [&](const std::vector<ExprPtr>& items) {
    for (ExprPtr item : items) Held(item, depth + 1, names);
  };
  const absl::string_view root = RootOf(expr);
  if (!root.empty()) {
    names->push_back(root);
  } else if (const auto* tuple = expr->As<ast::Tuple>()) {
    all(tuple->items);
  } else if (const auto* list = expr->As<ast::List>()) {
    all(list->items);
  } else if (const auto* dict = expr->As<ast::Dict>()) {
    all(dict->values);
  } else if (const auto* starred = expr->As<ast::Starred>()) {
    Held(starred->value, depth + 1, names);
  } else if (const auto* choice = expr->As<ast::Conditional>()) {
    all({choice->then, choice->otherwise});
  } else if (const auto* call = expr->As<ast::Call>()) {
    if (!MakesData(*call)) return;
    if (const auto* method = call->callee->As<ast::Attribute>()) {  // table.get("a")
      const absl::string_view object = RootOf(method->value);
      if (!object.empty()) names->push_back(object);
    }
    all(call->args);
    for (const ast::Keyword& keyword : call->keywords) Held(keyword.value, depth + 1, names);
  }
}

const ast::Function* Touches::MethodOf(absl::string_view type, absl::string_view name,
                                       int depth) const {
  const auto found = classes_.find(type);
  if (found == classes_.end() || depth > kMaxHeld) return nullptr;
  for (StmtPtr stmt : found->second->body) {
    const auto* function = stmt->As<ast::Function>();
    if (function != nullptr && function->name == name) return function;
  }
  for (ExprPtr base : found->second->bases) {
    const ast::Function* inherited = MethodOf(RootOf(base), name, depth + 1);
    if (inherited != nullptr) return inherited;
  }
  return nullptr;
}

// A method that one of another object's, of whatever class of the file, calls on itself.
const ast::Function* Touches::AnyMethod(absl::string_view name) const {
  for (const auto& [type, unused] : classes_) {
    const ast::Function* method = MethodOf(type, name, 0);
    if (method != nullptr) return method;
  }
  return nullptr;
}

const Touches::Effects& Touches::Of(const ast::Function& function) {
  const auto [place, fresh] = effects_.try_emplace(&function);
  if (!fresh || depth_ > kMaxCalls) return place->second;  // of a recursive one: what is known yet
  ++depth_;
  NameSet changed;
  for (StmtPtr stmt : function.body) {
    Walk(stmt, [&](StmtPtr s) {
      OfStatement(s, /*top=*/false, &changed);
      if (const auto* inner = s->As<ast::Function>()) {  // which it may call, or return
        const NameSet further = Of(*inner).globals;
        changed.insert(further.begin(), further.end());
      }
      const auto* skipped = s->As<ast::UnsupportedStmt>();
      if (skipped != nullptr) changed.insert(skipped->names.begin(), skipped->names.end());
    });
  }
  std::vector<absl::string_view> own;
  NameSet global;
  for (StmtPtr stmt : function.body) {
    CollectBindings(stmt, &own);
    Walk(stmt, [&](StmtPtr s) {
      const auto* skipped = s->As<ast::UnsupportedStmt>();
      if (skipped != nullptr) global.insert(skipped->names.begin(), skipped->names.end());
    });
  }
  Effects effects;
  for (size_t i = 0; i < function.params.size(); ++i) {
    if (changed.erase(function.params[i].name) > 0) effects.params.insert(i);
  }
  for (absl::string_view name : own) {
    if (!global.contains(name)) changed.erase(name);
  }
  effects.globals = std::move(changed);
  --depth_;
  return effects_[&function] = std::move(effects);
}

// The function of a class of the file: of an object, of a class, or of `self`.
const ast::Function* Touches::MethodCalled(const ast::Attribute& place) const {
  const auto* object = place.value->As<ast::Name>();
  if (object == nullptr) return nullptr;
  if (object->id == "self" || object->id == "cls") return AnyMethod(place.attr);
  const auto made = instances_.find(object->id);
  return MethodOf(made == instances_.end() ? absl::string_view(object->id) : made->second,
                  place.attr, 0);
}

void Touches::OfCall(StmtPtr stmt, NameSet* names) {
  const ast::Call* call = CallIn(stmt);
  if (call == nullptr) return;
  const absl::string_view root = RootOf(call->callee);
  const auto* method = call->callee->As<ast::Attribute>();
  const ast::Function* callee = nullptr;
  if (method != nullptr) {
    callee = MethodCalled(*method);
  } else if (const auto found = functions_.find(root); found != functions_.end()) {
    callee = found->second;
  }
  const size_t skip = method != nullptr ? 1 : 0;  // parameters before the first argument's
  if (callee == nullptr) return;
  const Effects effects = Of(*callee);
  if (skip == 1 && effects.params.contains(0)) names->insert(root);
  names->insert(effects.globals.begin(), effects.globals.end());
  for (size_t i = 0; i < call->args.size(); ++i) {
    if (!effects.params.contains(i + skip)) continue;
    std::vector<absl::string_view> held;
    Held(call->args[i], 0, &held);
    for (absl::string_view name : held) {
      if (MayBeShared(name)) names->insert(name);
    }
  }
}

void Touches::OfStatement(StmtPtr stmt, bool top, NameSet* names) {
  const bool direct = top && IsDirect(stmt);
  for (absl::string_view root : ChangedRoots(stmt)) {
    if (direct || !imports_.contains(root)) names->insert(root);
  }
  OfCall(stmt, names);
  // Calls in the middle of expressions, by the names of the functions.
  NameSet read;
  if (const auto* function = stmt->As<ast::Function>()) {
    for (ExprPtr decorator : function->decorators) {
      ast::ExprStmt outside(stmt->loc);
      outside.value = decorator;
      const NameSet more = NamesRead(&outside);
      read.insert(more.begin(), more.end());
      const auto* call = decorator->As<ast::Call>();
      const auto* place = (call != nullptr ? call->callee : decorator)->As<ast::Attribute>();
      const ast::Function* method = place == nullptr ? nullptr : MethodCalled(*place);
      if (method == nullptr) continue;
      const Effects effects = Of(*method);
      names->insert(effects.globals.begin(), effects.globals.end());
      if (effects.params.contains(0)) names->insert(RootOf(place));
    }
  } else if (stmt->kind != ast::StmtKind::kClass) {
    read = NamesRead(stmt);
  }
  for (absl::string_view name : read) {
    const auto function = functions_.find(name);
    const ast::Function* called =
        function != functions_.end() ? function->second : MethodOf(name, "__init__", 0);
    if (called == nullptr) continue;
    const Effects effects = Of(*called);
    names->insert(effects.globals.begin(), effects.globals.end());
  }
}

NameSet Touches::Of(StmtPtr stmt) {
  NameSet names;
  Walk(stmt, [&](StmtPtr s) { OfStatement(s, /*top=*/true, &names); });
  for (const auto& [name, type] : instances_) {  // an object has what its class has
    if (names.contains(type)) names.insert(name);
  }
  if (names.empty() || group_.empty()) return names;
  NameSet groups;
  for (absl::string_view name : names) groups.insert(Group(name));
  for (absl::string_view group : groups) {
    names.insert(group);
    const auto members = members_.find(group);
    if (members == members_.end()) continue;
    other_names_ += members->second.size();
    if (other_names_ > kMostNames) break;
    names.insert(members->second.begin(), members->second.end());
  }
  return names;
}

}  // namespace kiln::lang
