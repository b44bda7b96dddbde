#include "compiler/lang/module.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/lang/value.h"

namespace kiln::lang {
namespace {

using ast::ExprPtr;
using ast::StmtPtr;

constexpr int kMaxWalk = 400;  // nesting that the walks below follow

void CollectTarget(ExprPtr target, std::vector<absl::string_view>* names) {
  if (const auto* name = target->As<ast::Name>()) {
    names->push_back(name->id);
  } else if (const auto* tuple = target->As<ast::Tuple>()) {
    for (ExprPtr item : tuple->items) CollectTarget(item, names);
  } else if (const auto* list = target->As<ast::List>()) {
    for (ExprPtr item : list->items) CollectTarget(item, names);
  } else if (const auto* starred = target->As<ast::Starred>()) {
    CollectTarget(starred->value, names);
  }
}

// Calls `visit` on the statement and all that its blocks hold (functions and classes excluded).
template <typename F>
void Walk(StmtPtr stmt, const F& visit, int depth = 0) {
  if (depth > kMaxWalk) return;
  visit(stmt);
  auto block = [&](const ast::Block& body) {
    for (StmtPtr inner : body) Walk(inner, visit, depth + 1);
  };
  switch (stmt->kind) {
    case ast::StmtKind::kIf:
      for (const ast::Branch& branch : stmt->As<ast::If>()->branches) block(branch.body);
      block(stmt->As<ast::If>()->otherwise);
      break;
    case ast::StmtKind::kFor:
      block(stmt->As<ast::For>()->body);
      block(stmt->As<ast::For>()->otherwise);
      break;
    case ast::StmtKind::kWhile:
      block(stmt->As<ast::While>()->body);
      block(stmt->As<ast::While>()->otherwise);
      break;
    case ast::StmtKind::kWith:
      block(stmt->As<ast::With>()->body);
      break;
    case ast::StmtKind::kTry: {
      const auto& node = *stmt->As<ast::Try>();
      block(node.body);
      block(node.otherwise);
      block(node.finally);
      for (const ast::Handler& handler : node.handlers) block(handler.body);
      break;
    }
    default:
      break;
  }
}

// `x.append(...)` and `x[...] = ...`: the name whose value a statement changes.
absl::string_view MutatedName(StmtPtr stmt) {
  ExprPtr base = nullptr;
  if (const auto* expr = stmt->As<ast::ExprStmt>()) {
    const auto* call = expr->value->As<ast::Call>();
    const auto* attribute = call == nullptr ? nullptr : call->callee->As<ast::Attribute>();
    if (attribute == nullptr) return {};
    static constexpr absl::string_view kMutators[] = {"append", "extend",    "insert", "update",
                                                      "pop",    "remove",    "sort",   "reverse",
                                                      "clear",  "setdefault"};
    if (std::find(std::begin(kMutators), std::end(kMutators), attribute->attr) ==
        std::end(kMutators)) {
      return {};
    }
    base = attribute->value;
  } else if (const auto* assign = stmt->As<ast::Assign>()) {
    const auto* subscript = assign->targets[0]->As<ast::Subscript>();
    if (subscript != nullptr) base = subscript->value;
  } else if (const auto* aug = stmt->As<ast::AugAssign>()) {
    const auto* subscript = aug->target->As<ast::Subscript>();
    if (subscript != nullptr) base = subscript->value;
  }
  const auto* name = base == nullptr ? nullptr : base->As<ast::Name>();
  return name == nullptr ? absl::string_view() : absl::string_view(name->id);
}

// `if __name__ == "__main__":` holds host code.
bool IsMainGuard(StmtPtr stmt) {
  const auto* node = stmt->As<ast::If>();
  if (node == nullptr) return false;
  const auto* compare = node->branches[0].condition->As<ast::Compare>();
  const auto* name = compare == nullptr ? nullptr : compare->first->As<ast::Name>();
  return name != nullptr && name->id == "__name__";
}

// The last part of `a.b.name`, `name` or a call of either.
absl::string_view LastName(ExprPtr expr) {
  if (const auto* call = expr->As<ast::Call>()) expr = call->callee;
  if (const auto* name = expr->As<ast::Name>()) return name->id;
  if (const auto* attribute = expr->As<ast::Attribute>()) return attribute->attr;
  return {};
}

bool HoldsPrimFunc(const ast::Function& function) {
  bool found = false;
  for (StmtPtr stmt : function.body) {
    Walk(stmt, [&](StmtPtr s) {
      const auto* nested = s->As<ast::Function>();
      if (nested != nullptr && (HasDecorator(*nested, "prim_func") || HoldsPrimFunc(*nested))) {
        found = true;
      }
    });
  }
  return found;
}

bool IsTensorWord(absl::string_view word) {
  return word == "Tensor" || word == "StridedTensor" || word == "Buffer" || word == "ptr" ||
         word == "handle" || word == "FragmentBuffer" || word == "SharedBuffer";
}

const ast::Call* CallOf(StmtPtr stmt) {
  if (const auto* expr = stmt->As<ast::ExprStmt>()) return expr->value->As<ast::Call>();
  if (const auto* assign = stmt->As<ast::Assign>()) return assign->value->As<ast::Call>();
  return nullptr;
}

bool LooksEager(const ast::Function& function) {
  for (const ast::Param& param : function.params) {
    const AnnotationKind kind = KindOfAnnotation(param.annotation);
    if (kind == AnnotationKind::kTensor) return true;
  }
  bool eager = false;
  for (StmtPtr stmt : function.body) {
    Walk(stmt, [&](StmtPtr s) {
      if (const auto* annotated = s->As<ast::AnnAssign>()) {
        if (KindOfAnnotation(annotated->annotation) == AnnotationKind::kTensor) eager = true;
      }
      if (const auto* with = s->As<ast::With>()) {
        for (const ast::WithItem& item : with->items) {
          const absl::string_view word = LastName(item.context);
          if (word == "Kernel" || word == "ClusterKernel") eager = true;
        }
      }
      if (const ast::Call* call = CallOf(s)) {
        const absl::string_view word = LastName(call);
        const auto* attribute = call->callee->As<ast::Attribute>();
        if (attribute != nullptr && (word == "const" || word == "empty")) eager = true;
      }
    });
  }
  return eager;
}

}  // namespace

void CollectBindings(StmtPtr root, std::vector<absl::string_view>* names) {
  Walk(root, [&](StmtPtr stmt) {
    switch (stmt->kind) {
      case ast::StmtKind::kFunction:
        names->push_back(stmt->As<ast::Function>()->name);
        break;
      case ast::StmtKind::kClass:
        names->push_back(stmt->As<ast::Class>()->name);
        break;
      case ast::StmtKind::kAssign:
        for (ExprPtr target : stmt->As<ast::Assign>()->targets) CollectTarget(target, names);
        break;
      case ast::StmtKind::kAugAssign:
        CollectTarget(stmt->As<ast::AugAssign>()->target, names);
        break;
      case ast::StmtKind::kAnnAssign:
        if (stmt->As<ast::AnnAssign>()->value != nullptr) {
          CollectTarget(stmt->As<ast::AnnAssign>()->target, names);
        }
        break;
      case ast::StmtKind::kFor:
        CollectTarget(stmt->As<ast::For>()->target, names);
        break;
      case ast::StmtKind::kWith:
        for (const ast::WithItem& item : stmt->As<ast::With>()->items) {
          if (item.target != nullptr) CollectTarget(item.target, names);
        }
        break;
      case ast::StmtKind::kImport:
        for (const ast::ImportedName& name : stmt->As<ast::Import>()->names) {
          names->push_back(name.alias);
        }
        break;
      default:
        break;
    }
  });
}

void CollectTouched(StmtPtr stmt, std::vector<absl::string_view>* names) {
  CollectBindings(stmt, names);
  Walk(stmt, [&](StmtPtr s) {
    const absl::string_view name = MutatedName(s);
    if (!name.empty()) names->push_back(name);
  });
}

void IndexGlobals(ParsedModule* module) {
  for (size_t i = 0; i < module->tree->body.size(); ++i) {
    StmtPtr stmt = module->tree->body[i];
    if (IsMainGuard(stmt)) continue;
    if (const auto* import = stmt->As<ast::Import>()) {
      for (const ast::ImportedName& name : import->names) {
        if (name.path == "*") module->star_imports.push_back(import->module);
      }
    }
    std::vector<absl::string_view> names;
    CollectBindings(stmt, &names);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (absl::string_view name : names) module->globals[name].push_back({i, true});
    Walk(stmt, [&](StmtPtr s) {
      const absl::string_view name = MutatedName(s);
      if (name.empty() || std::binary_search(names.begin(), names.end(), name)) return;
      std::vector<Touch>& touches = module->globals[name];
      if (touches.empty() || touches.back().statement != i) touches.push_back({i, false});
    });
  }
}

bool HasDecorator(const ast::Function& function, absl::string_view name) {
  return std::any_of(function.decorators.begin(), function.decorators.end(),
                     [&](ExprPtr decorator) { return LastName(decorator) == name; });
}

EntryStyle StyleOf(const ast::Function& function) {
  if (HasDecorator(function, "prim_func")) return EntryStyle::kPrimFunc;
  if (HoldsPrimFunc(function)) return EntryStyle::kFactory;
  return LooksEager(function) ? EntryStyle::kEager : EntryStyle::kFactory;
}

namespace {

// In order; a later definition of the same name replaces an earlier one.
std::vector<const ast::Function*> FunctionsIn(const ast::Block& block) {
  std::vector<const ast::Function*> all;
  absl::flat_hash_map<absl::string_view, const ast::Function*> last;
  for (StmtPtr stmt : block) {
    Walk(stmt, [&](StmtPtr s) {
      const auto* function = s->As<ast::Function>();
      if (function == nullptr) return;
      all.push_back(function);
      last[function->name] = function;
    });
  }
  std::erase_if(all, [&](const ast::Function* f) { return last[f->name] != f; });
  return all;
}

bool IsDecoratedKernel(const ast::Function& function) {
  return HasDecorator(function, "jit") || HasDecorator(function, "lazy_jit") ||
         HasDecorator(function, "autotune") || HasDecorator(function, "prim_func");
}

// Whether the function may return a kernel: it is under @tilelang.jit, or holds a T.prim_func of
// its own, or returns what a function that it holds makes.
bool MakesKernel(const ast::Function& function) {
  if (IsDecoratedKernel(function)) return true;
  absl::flat_hash_set<absl::string_view> inner;
  for (const ast::Function* nested : FunctionsIn(function.body)) inner.insert(nested->name);
  bool makes = false;
  for (StmtPtr stmt : function.body) {
    Walk(stmt, [&](StmtPtr s) {
      if (const auto* nested = s->As<ast::Function>()) makes |= HasDecorator(*nested, "prim_func");
      const auto* result = s->As<ast::Return>();
      const auto* call = result && result->value ? result->value->As<ast::Call>() : nullptr;
      const auto* name = call == nullptr ? nullptr : call->callee->As<ast::Name>();
      makes |= name != nullptr && inner.contains(name->id);
    });
  }
  return makes && HoldsPrimFunc(function);
}

void AddKernels(const ast::Block& block, const std::vector<const ast::Function*>& around,
                std::vector<FoundKernel>* kernels) {
  for (const ast::Function* function : FunctionsIn(block)) {
    if (HasDecorator(*function, "macro")) continue;
    if (MakesKernel(*function)) {
      kernels->push_back({function, around});
    } else if (around.size() < 8) {
      std::vector<const ast::Function*> deeper = around;
      deeper.push_back(function);
      AddKernels(function->body, deeper, kernels);
    }
  }
}

}  // namespace

std::string FoundKernel::Name() const {
  std::string name;
  for (const ast::Function* outer : around) absl::StrAppend(&name, outer->name, ".");
  return absl::StrCat(name, function == nullptr ? "" : function->name);
}

std::vector<FoundKernel> FindKernels(const ParsedModule& module) {
  ast::Block top;
  for (StmtPtr stmt : module.tree->body) {
    if (stmt->kind == ast::StmtKind::kFunction) top.push_back(stmt);
  }
  std::vector<FoundKernel> kernels;
  AddKernels(top, {}, &kernels);
  return kernels;
}

FoundKernel FindFunction(const ParsedModule& module, absl::string_view path) {
  FoundKernel found;
  const ast::Block* block = &module.tree->body;
  for (absl::string_view part : absl::StrSplit(path, '.')) {
    if (found.function != nullptr) found.around.push_back(found.function);
    found.function = nullptr;
    for (const ast::Function* function : FunctionsIn(*block)) {
      if (function->name == part) found.function = function;
    }
    if (found.function == nullptr) return {};
    block = &found.function->body;
  }
  return found;
}

AnnotationKind KindOfAnnotation(ExprPtr annotation) {
  if (annotation == nullptr) return AnnotationKind::kNone;
  if (const auto* subscript = annotation->As<ast::Subscript>()) {
    return IsTensorWord(LastName(subscript->value)) ? AnnotationKind::kTensor
                                                    : AnnotationKind::kOther;
  }
  const absl::string_view word = LastName(annotation);
  if (IsTensorWord(word)) return AnnotationKind::kTensor;
  // T.int32 is a run-time scalar; plain int is not.
  if (annotation->kind == ast::ExprKind::kAttribute && ParseDType(word)) {
    return AnnotationKind::kScalar;
  }
  return AnnotationKind::kOther;
}

namespace {

bool IsPlaceholder(ExprPtr expr) {
  const auto* name = expr->As<ast::Name>();
  if (name != nullptr) return name->id == "int" || name->id == "Any";
  const auto* constant = expr->As<ast::Constant>();
  return constant != nullptr && constant->type == ast::ConstantType::kNone;
}

const std::vector<ExprPtr>* Items(ExprPtr expr) {
  if (const auto* list = expr->As<ast::List>()) return &list->items;
  if (const auto* tuple = expr->As<ast::Tuple>()) return &tuple->items;
  return nullptr;
}

void PlaceholderConsts(const ast::Param& param, std::vector<std::string>* names) {
  const auto* subscript = param.annotation->As<ast::Subscript>();
  const auto* call = param.annotation->As<ast::Call>();
  const std::vector<ExprPtr>* parts = subscript ? &subscript->indices
                                      : call    ? &call->args
                                                : nullptr;
  if (parts == nullptr || parts->empty()) return;
  const bool strided = LastName(subscript ? subscript->value : call->callee) == "StridedTensor";
  for (size_t part = 0; part < parts->size(); ++part) {
    const bool is_dtype = part == (strided ? 2 : 1);
    if (is_dtype) {
      if (IsPlaceholder((*parts)[part])) names->push_back(absl::StrCat(param.name, "_dtype"));
      continue;
    }
    const std::vector<ExprPtr>* items = Items((*parts)[part]);
    if (items == nullptr) continue;
    for (size_t i = 0; i < items->size(); ++i) {
      if (!IsPlaceholder((*items)[i])) continue;
      names->push_back(absl::StrCat(param.name, part == 0 ? "_shape_" : "_stride_", i));
    }
  }
}

}  // namespace

std::vector<std::string> FindConsts(const ast::Function& function) {
  std::vector<std::string> names;
  for (const ast::Param& param : function.params) {
    if (KindOfAnnotation(param.annotation) == AnnotationKind::kTensor) {
      PlaceholderConsts(param, &names);
    }
  }
  for (StmtPtr stmt : function.body) {
    Walk(stmt, [&](StmtPtr s) {
      const ast::Call* call = CallOf(s);
      if (call == nullptr || LastName(call) != "const") return;
      if (call->callee->kind != ast::ExprKind::kAttribute || call->args.empty()) return;
      const auto* text = call->args[0]->As<ast::Constant>();
      if (text == nullptr || text->type != ast::ConstantType::kStr) return;
      for (absl::string_view name :
           absl::StrSplit(text->text, absl::ByAnyChar(", "), absl::SkipEmpty())) {
        if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
      }
    });
  }
  return names;
}

std::optional<std::string> LiteralText(ExprPtr expr) {
  if (const auto* constant = expr->As<ast::Constant>()) {
    switch (constant->type) {
      case ast::ConstantType::kNone:
        return "None";
      case ast::ConstantType::kBool:
        return constant->int_value ? "True" : "False";
      case ast::ConstantType::kInt:
        return absl::StrCat(constant->int_value);
      case ast::ConstantType::kFloat:
        return FormatFloat(constant->float_value);
      case ast::ConstantType::kStr:
        return absl::StrCat("\"", constant->text, "\"");
      case ast::ConstantType::kEllipsis:
        return std::nullopt;
    }
  }
  if (const auto* unary = expr->As<ast::Unary>(); unary && unary->op == ast::UnaryOp::kNeg) {
    const auto* constant = unary->operand->As<ast::Constant>();
    if (constant != nullptr && (constant->type == ast::ConstantType::kInt ||
                                constant->type == ast::ConstantType::kFloat)) {
      return absl::StrCat("-", *LiteralText(constant));
    }
  }
  if (const auto* attribute = expr->As<ast::Attribute>()) {
    if (attribute->value->kind == ast::ExprKind::kName && ParseDType(attribute->attr)) {
      return attribute->attr;
    }
  }
  return std::nullopt;
}

}  // namespace kiln::lang
