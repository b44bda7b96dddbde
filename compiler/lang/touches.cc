#include "compiler/lang/touches.h"

#include "compiler/lang/ast_walk.h"
#include "compiler/lang/touches_syntax.h"

namespace kiln::lang {
namespace {

// Of Python's own functions and library: those that call what they are given.
bool CallsBack(absl::string_view name) {
  static constexpr absl::string_view kFunctions[] = {
      "map",  "filter", "reduce",  "starmap",     "accumulate", "sorted",    "max",    "min",
      "sort", "next",   "groupby", "filterfalse", "takewhile",  "dropwhile", "partial"};
  return IsOneOf(name, kFunctions);
}

}  // namespace

std::vector<absl::string_view> Touches::WalrusNames(StmtPtr stmt) {
  Names names;
  Walk(stmt, [&](StmtPtr s) {
    ForExprs(s, [&](ExprPtr expr) {
      WalkExpr(expr, [&](ExprPtr part) {
        if (const auto* named = part->As<ast::Named>()) TargetNames(named->target, &names);
      });
    });
  });
  return names;
}

Touches::~Touches() = default;

Touches::Touches(FileTouches* files, const SourceSection& section, const ast::Block& body)
    : files_(files), section_(&section), body_(&body), first_(section.first), last_(section.last) {}

Touches::Touches(const ast::Function& function, Touches* outer) : Touches(function, outer, false) {}

Touches::Touches(const ast::Function& function, Touches* outer, bool made)
    : outer_(outer), files_(outer->files_), body_(&function.body), last_(function.body.size()) {
  for (const ast::Param& param : function.params) {
    bound_[param.name].push_back(nullptr);
  }
  if (made && function.name == "__init__" && !function.params.empty()) {
    made_ = function.params[0].name;
  }
  CollectAll();
  while (FindFixed()) {
  }
  LearnAll();
}

void Touches::CollectAll() {
  for (size_t i = first_; i < last_; ++i) {
    Walk((*body_)[i], [&](StmtPtr s) { Collect(s); });
  }
  for (size_t i = first_; i < last_; ++i) {
    Walk((*body_)[i], [&](StmtPtr s) { Bindings(s); });
  }
  for (const auto& [name, values] : bound_) fixed_.insert(name);
}

void Touches::LearnAll() {
  for (size_t i = first_; i < last_; ++i) {
    Walk((*body_)[i], [&](StmtPtr s) { Learn(s); });
  }
}

// Functions that call each other are gone through until nothing more is found.
const Touches::Effects& Touches::Of(const ast::Function& function) {
  FileTouches& all = *files_;
  Effects& known = all.effects_[&function];
  if (all.settled_.contains(&function) || all.depth_ > kMaxCalls) return known;
  if (!all.visited_.insert(&function).second) return known;
  const auto once = [&] {
    ++all.depth_;
    Effects found = Analyze(function);
    --all.depth_;
    all.grew_ |= found.Size() > known.Size();
    known = std::move(found);
  };
  if (all.depth_ > 0) {
    once();
    return known;
  }
  do {
    all.grew_ = false;
    all.visited_ = {&function};
    once();
  } while (all.grew_);
  all.settled_.insert(all.visited_.begin(), all.visited_.end());
  all.visited_.clear();
  return known;
}

Touches::Effects Touches::Analyze(const ast::Function& function) {
  Effects effects;
  if (IsKernelLike(function)) return effects;
  // Of one function inside of another the outer one is not at hand: its names are taken as global.
  Touches inner(function, this, true);
  NameSet changed, kept, rebound;
  for (StmtPtr stmt : function.body) {
    inner.OfTree(stmt, &changed, &rebound);
    Walk(stmt, [&](StmtPtr s) {
      const auto* skipped = s->As<ast::UnsupportedStmt>();
      if (skipped != nullptr) rebound.insert(skipped->names.begin(), skipped->names.end());
      Names names;
      if (const auto* result = s->As<ast::Return>()) {
        if (result->value != nullptr) inner.Held(result->value, &names);
      } else if (const auto* nested = s->As<ast::Function>()) {  // which it may call, or return
        const Effects& further = inner.Of(*nested);
        AddNames(further.globals, &changed);
        AddNames(further.rebound, &rebound);
        for (absl::string_view name : FreeNames(*nested)) {
          if (inner.IsNode(name)) names.push_back(name);
        }
      } else if (const auto* assign = s->As<ast::Assign>()) {
        for (ExprPtr target : assign->targets) {
          if (target->kind != ast::ExprKind::kName) inner.Held(assign->value, &names);
        }
      }
      ForExprs(s, [&](ExprPtr expr) {
        WalkExpr(expr, [&](ExprPtr part) {
          if (part->kind == ast::ExprKind::kYield) inner.Held(part, &names);
        });
      });
      kept.insert(names.begin(), names.end());
    });
  }
  changed = inner.Close(std::move(changed));
  const auto outside = [&](absl::string_view name) {  // an import of the function's own, too
    const auto place = inner.PlaceOf(name);
    return place.has_value() ? inner.NodeOf(*place) : name;
  };
  for (size_t i = 0; i < function.params.size(); ++i) {
    if (changed.contains(function.params[i].name)) effects.params.insert(i);
  }
  for (absl::string_view name : changed) {
    if (!inner.Binds(name) || rebound.contains(name)) effects.globals.insert(outside(name));
  }
  for (absl::string_view name : inner.Close(std::move(kept))) {
    if (!inner.Binds(name)) effects.kept.insert(outside(name));
  }
  effects.rebound = std::move(rebound);
  return effects;
}

// The names at the root of a place that is changed.
void Touches::Root(ExprPtr place, NameSet* names) {
  if (const auto module = ModuleAt(place)) {
    Names all;
    NodesOfModule(*module, &all);
    names->insert(all.begin(), all.end());
  }
  const absl::string_view root = NodeOfRoot(place);
  if (!root.empty()) {
    // torch.backends.x = 1 says nothing of what the file computes, L.append(1) of an import does.
    if (ModuleOf(root) == nullptr || (place->kind == ast::ExprKind::kName && outer_ == nullptr)) {
      names->insert(root);
    }
    return;
  }
  const auto* call = place->As<ast::Call>();
  if (call != nullptr && LastName(call) == "globals") names->insert(kAnyGlobal);
  All(place, names);
}

void Touches::All(ExprPtr expr, NameSet* names) {
  Names held;
  Held(expr, &held);
  names->insert(held.begin(), held.end());
}

void Touches::All(StmtPtr stmt, NameSet* names) {
  ForExprs(stmt, [&](ExprPtr expr) { All(expr, names); });
}

void Touches::OfTarget(ExprPtr target, NameSet* names, NameSet* rebound) {
  if (target->kind == ast::ExprKind::kTuple || target->kind == ast::ExprKind::kList ||
      target->kind == ast::ExprKind::kStarred) {
    ForChildren(target, [&](ExprPtr item) { OfTarget(item, names, rebound); });
  } else if (const auto* attribute = target->As<ast::Attribute>()) {
    if (const auto other = PlaceOf(target)) rebound->insert(NodeOf(*other));  // module.x = 1
    const auto* object = attribute->value->As<ast::Name>();
    const bool made = object != nullptr && !made_.empty() && object->id == made_;
    if (!made) Root(attribute->value, names);
  } else if (const auto* subscript = target->As<ast::Subscript>()) {
    Root(subscript->value, names);
  }
}

void Touches::OfMention(const ast::Function& function, const ast::Call* call, size_t skip,
                        absl::string_view name, StmtPtr stmt, NameSet* names, NameSet* rebound) {
  const Effects effects = EffectsOf(function);
  AddNames(effects.globals, names);
  AddNames(effects.rebound, rebound);
  if (effects.params.empty()) return;
  for (const ast::Param& param : function.params) {
    if (param.default_value != nullptr && !IsFixed(param.default_value)) names->insert(name);
  }
  if (call == nullptr) {
    if (stmt != nullptr) All(stmt, names);
    return;
  }
  const bool spread = std::any_of(call->args.begin(), call->args.end(),
                                  [](ExprPtr arg) { return arg->kind == ast::ExprKind::kStarred; });
  const auto changes = [&](absl::string_view param) {
    for (size_t i = 0; i < function.params.size(); ++i) {
      const bool other = function.params[i].kind == ast::ParamKind::kVarKeywords;
      if (function.params[i].name != param && !other) continue;
      return effects.params.contains(i);
    }
    return true;
  };
  for (size_t i = 0; i < call->args.size(); ++i) {
    size_t at = i + skip;
    for (size_t p = 0; p < at && p < function.params.size(); ++p) {
      if (function.params[p].kind == ast::ParamKind::kVarArgs) at = p;
    }
    if (spread || effects.params.contains(at)) All(call->args[i], names);
  }
  for (const ast::Keyword& keyword : call->keywords) {
    if (keyword.name.empty() || changes(keyword.name)) All(keyword.value, names);
  }
}

void Touches::OfCall(const ast::Call& call, NameSet* names, NameSet* rebound) {
  const absl::string_view last = LastName(call.callee), root = NodeOfRoot(call.callee);
  const auto everything = [&] {
    All(&call, names);
    for (ExprPtr arg : call.args) All(arg, names);
    for (const ast::Keyword& keyword : call.keywords) All(keyword.value, names);
  };
  if (const auto* functions = FunctionsAt(call.callee)) {
    for (const ast::Function* f : *functions) {
      OfMention(*f, &call, 0, root, nullptr, names, rebound);
    }
    return;
  }
  if (const ast::Class* type = ClassAt(call.callee)) {
    const auto* inits = MethodsOf("__init__");
    for (size_t i = 0; inits != nullptr && i < inits->size(); ++i) {
      OfMention(*(*inits)[i], &call, 1, {}, nullptr, names, rebound);
      if (EffectsOf(*(*inits)[i]).params.contains(0) && HoldsData(*type, 0)) names->insert(root);
    }
    const auto* later = MethodsOf("__post_init__");
    for (size_t i = 0; later != nullptr && i < later->size(); ++i) {
      OfMention(*(*later)[i], &call, 1, {}, nullptr, names, rebound);
    }
    return;
  }
  const auto* callee = call.callee->As<ast::Name>();
  if (callee != nullptr) {
    if (callee->id == "exec") names->insert(kAnyGlobal);
    if (callee->id == "setattr" || callee->id == "delattr") {
      for (ExprPtr arg : call.args) {
        Names all;
        if (const auto module = ModuleAt(arg)) NodesOfModule(*module, &all);
        rebound->insert(all.begin(), all.end());
      }
      return everything();
    }
    const bool variable = IsNode(callee->id);
    if (variable) {
      const auto* calls = MethodsOf("__call__");
      for (size_t i = 0; calls != nullptr && i < calls->size(); ++i) {
        OfMention(*(*calls)[i], &call, 1, {}, nullptr, names, rebound);
      }
      return everything();
    }
  } else if (call.callee->kind != ast::ExprKind::kAttribute && !IsFixed(call.callee)) {
    return everything();  // f()(), L[0]()
  }
  const std::string* module = ModuleOf(root);
  if (IsMutator(last) && (module != nullptr || IsFixedName(root))) {  // list.append(L, 1)
    for (ExprPtr arg : call.args) All(arg, names);
  }
  if (CallsBack(last)) {
    const bool by = std::any_of(call.args.begin(), call.args.end(), [&](ExprPtr arg) {
      const auto* name = arg->As<ast::Name>();
      const bool data = name != nullptr && !IsFixedName(name->id);
      return arg->kind == ast::ExprKind::kLambda || arg->kind == ast::ExprKind::kAttribute ||
             (data && arg == call.args[0] && last != "max" && last != "min" && last != "sorted");
    });
    const bool key = std::any_of(call.keywords.begin(), call.keywords.end(), [&](const auto& k) {
      return k.name == "key" && !IsFixed(k.value) && k.value->kind != ast::ExprKind::kLambda;
    });
    if (by || key) everything();
  }
}

void Touches::OfPart(ExprPtr part, StmtPtr stmt, NameSet* names, NameSet* rebound) {
  const auto* functions = FunctionsAt(part);  // by name: whoever gets them may call them
  for (size_t i = 0; functions != nullptr && i < functions->size(); ++i) {
    const Effects effects = EffectsOf(*(*functions)[i]);
    AddNames(effects.globals, names);
    AddNames(effects.rebound, rebound);
  }
  if (const auto* call = part->As<ast::Call>()) {
    OfCall(*call, names, rebound);
    const auto* method = call->callee->As<ast::Attribute>();
    const auto* methods = method == nullptr ? nullptr : MethodsOf(method->attr);
    for (size_t i = 0; methods != nullptr && i < methods->size(); ++i) {
      const bool of_class = ClassAt(method->value) != nullptr;  // C.f(x): static, or x = self
      OfMention(*(*methods)[i], of_class ? nullptr : call, 1, {}, stmt, names, rebound);
    }
  } else if (const auto* attribute = part->As<ast::Attribute>()) {
    if (IsMutator(attribute->attr)) Root(attribute->value, names);
    const auto* methods = MethodsOf(attribute->attr);
    for (size_t i = 0; methods != nullptr && i < methods->size(); ++i) {
      const Effects effects = EffectsOf(*(*methods)[i]);
      AddNames(effects.globals, names);
      AddNames(effects.rebound, rebound);
      if (effects.params.contains(0)) Root(attribute->value, names);
    }
  } else if (const auto* lambda = part->As<ast::Lambda>()) {
    NameSet inside;  // what it changes of its parameters, it changes of what it is given
    WalkExpr(lambda->body, [&](ExprPtr p) {
      if (p != lambda) OfPart(p, stmt, &inside, rebound);
    });
    const bool given = std::any_of(lambda->params.begin(), lambda->params.end(),
                                   [&](const auto& p) { return inside.contains(p.name); });
    if (given) All(stmt, names);
  }
}

void Touches::OfStatement(StmtPtr stmt, NameSet* names, NameSet* rebound) {
  if (const auto* assign = stmt->As<ast::Assign>()) {
    for (ExprPtr target : assign->targets) OfTarget(target, names, rebound);
  } else if (const auto* annotated = stmt->As<ast::AnnAssign>()) {
    if (annotated->value != nullptr) OfTarget(annotated->target, names, rebound);
  } else if (const auto* aug = stmt->As<ast::AugAssign>()) {
    OfTarget(aug->target, names, rebound);
    if (aug->target->kind == ast::ExprKind::kName) Root(aug->target, names);
  } else if (const auto* removal = stmt->As<ast::Delete>()) {
    for (ExprPtr target : removal->targets) OfTarget(target, names, rebound);
  } else if (const auto* loop = stmt->As<ast::For>()) {
    OfTarget(loop->target, names, rebound);
  } else if (const auto* function = stmt->As<ast::Function>()) {
    for (ExprPtr decorator : function->decorators) {  // called with the function
      if (!IsFixed(decorator) && decorator->kind != ast::ExprKind::kCall &&
          IsNode(NodeOfRoot(decorator)) && FunctionsAt(decorator) == nullptr) {
        All(decorator, names);
      }
    }
  } else if (const auto* type = stmt->As<ast::Class>()) {
    for (StmtPtr inner : type->body) OfTree(inner, names, rebound);
  }
  const bool operators = files_->has_operators_;
  ForExprs(stmt, [&](ExprPtr expr) {
    if (operators) All(expr, names);
    WalkExpr(expr, [&](ExprPtr part) { OfPart(part, stmt, names, rebound); });
  });
}

void Touches::OfTree(StmtPtr stmt, NameSet* names, NameSet* rebound) {
  Walk(stmt, [&](StmtPtr s) { OfStatement(s, names, rebound); });
}

NameSet Touches::Close(NameSet names) {
  if (names.empty()) return names;
  Names classes;
  for (absl::string_view name : names) {  // an object has what its class has
    if (const ast::Class* type = ClassOf(name)) classes.push_back(InstancesOf(*type));
  }
  names.insert(classes.begin(), classes.end());
  if (outer_ == nullptr) return files_->Close(this, std::move(names));
  if (!linked_) {
    Names grouped;
    for (const auto& [name, unused] : group_) grouped.push_back(name);
    for (absl::string_view name : grouped) members_[Group(name)].push_back(name);
    linked_ = true;
  }
  NameSet groups;
  for (absl::string_view name : names) groups.insert(Group(name));
  for (absl::string_view group : groups) {
    names.insert(group);
    const auto members = members_.find(group);
    if (members == members_.end()) continue;
    names.insert(members->second.begin(), members->second.end());
  }
  return names;
}

NameSet Touches::Of(StmtPtr stmt) {
  NameSet names, rebound;
  OfTree(stmt, &names, &rebound);
  AddNames(rebound, &names);
  if (names.contains(kAnyGlobal)) AddNames(ReboundBy(stmt), &names);
  return Close(std::move(names));
}

NameSet Touches::ReboundBy(StmtPtr stmt) {
  NameSet names, rebound;
  OfTree(stmt, &names, &rebound);
  if (names.contains(kAnyGlobal)) {
    for (const auto& [name, unused] : bound_) rebound.insert(name);
  }
  return rebound;
}

NameSet Touches::ReachersOf(const NameSet& changed) {
  if (readers_ == nullptr) {
    readers_ = std::make_unique<absl::flat_hash_map<absl::string_view, NameSet>>();
    for (size_t i = first_; i < last_; ++i) {
      const NameSet read = NamesRead((*body_)[i]);
      Names bound = WalrusNames((*body_)[i]);
      CollectBindings((*body_)[i], &bound);
      for (absl::string_view name : read) (*readers_)[name].insert(bound.begin(), bound.end());
    }
  }
  NameSet reachers = changed;
  Names work(changed.begin(), changed.end());
  for (size_t i = 0; i < work.size(); ++i) {
    const auto found = readers_->find(work[i]);
    if (found == readers_->end()) continue;
    for (absl::string_view name : found->second) {
      if (reachers.insert(name).second) work.push_back(name);
    }
  }
  return reachers;
}

}  // namespace kiln::lang
