// Which functions of a file are kernels, and of which style.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/lang/ast_walk.h"
#include "compiler/lang/module.h"

namespace kiln::lang {
namespace {

using ast::ExprPtr;
using ast::StmtPtr;

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

// Whether the function may return a kernel: it is under @tilelang.jit, or returns something and
// holds a T.prim_func of its own, or returns what a function that it holds makes.
bool MakesKernel(const ast::Function& function) {
  if (IsDecoratedKernel(function)) return true;
  absl::flat_hash_set<absl::string_view> inner;
  for (const ast::Function* nested : FunctionsIn(function.body)) inner.insert(nested->name);
  bool makes = false, returns = false;
  for (StmtPtr stmt : function.body) {
    Walk(stmt, [&](StmtPtr s) {
      if (const auto* nested = s->As<ast::Function>()) makes |= HasDecorator(*nested, "prim_func");
      const auto* result = s->As<ast::Return>();
      returns |= result != nullptr && result->value != nullptr;
      const auto* call = result && result->value ? result->value->As<ast::Call>() : nullptr;
      const auto* name = call == nullptr ? nullptr : call->callee->As<ast::Name>();
      makes |= name != nullptr && inner.contains(name->id);
    });
  }
  return makes && returns && HoldsPrimFunc(function);
}

void AddKernel(const ast::Function* function, FoundKernel place,
               std::vector<FoundKernel>* kernels) {
  if (HasDecorator(*function, "macro")) return;
  if (MakesKernel(*function)) {
    place.function = function;
    kernels->push_back(std::move(place));
  } else if (place.around.size() < 8) {
    place.around.push_back(function);
    for (const ast::Function* inner : FunctionsIn(function->body)) {
      AddKernel(inner, place, kernels);
    }
  }
}

bool IsMethodOf(const ast::Class& owner, const ast::Function& function) {
  return std::any_of(owner.body.begin(), owner.body.end(),
                     [&](StmtPtr stmt) { return stmt->As<ast::Function>() == &function; });
}

// A function of a class that is called through an object, or the class.
bool HasSelf(const ast::Function& function) {
  if (function.params.empty() || HasDecorator(function, "staticmethod")) return false;
  return function.params[0].name == "self" || function.params[0].name == "cls";
}

const ast::Function* InitOf(const ast::Class& owner) {
  for (const ast::Function* function : FunctionsIn(owner.body)) {
    if (function->name == "__init__") return function;
  }
  return nullptr;
}

// Where a function of the class stands: what makes the object comes before a method.
FoundKernel PlaceIn(const ast::Class& owner, const ast::Function& function) {
  FoundKernel place;
  place.owner = &owner;
  const ast::Function* init = InitOf(owner);
  const bool method = HasSelf(function) && !HasDecorator(function, "classmethod");
  if (method && init != nullptr && init != &function) place.around.push_back(init);
  return place;
}

// Its tensors would stand beside `self`.
bool IsEagerMethod(const FoundKernel& kernel) {
  return kernel.owner != nullptr && IsMethodOf(*kernel.owner, *kernel.function) &&
         StyleOf(*kernel.function) != EntryStyle::kFactory &&
         !HasDecorator(*kernel.function, "staticmethod");
}

ast::Block StatementsOf(const ParsedModule& module, const SourceSection& section) {
  const auto begin = module.tree->body.begin();
  return {begin + static_cast<std::ptrdiff_t>(section.first),
          begin + static_cast<std::ptrdiff_t>(section.last)};
}

}  // namespace

bool ParsedModule::IsSelf(const ast::Function& function, size_t param) const {
  return owner != nullptr && param == 0 && IsMethodOf(*owner, function) && HasSelf(function);
}

std::string FoundKernel::Name() const {
  std::string name;
  if (owner != nullptr) absl::StrAppend(&name, owner->name, ".");
  for (size_t i = 0; i < around.size(); ++i) {
    // What makes the object is no part of the way to a method beside it.
    const ast::Function* next = i + 1 < around.size() ? around[i + 1] : function;
    const bool beside = owner != nullptr && i == 0 && next != nullptr && IsMethodOf(*owner, *next);
    if (!beside) absl::StrAppend(&name, around[i]->name, ".");
  }
  return absl::StrCat(name, function == nullptr ? "" : function->name);
}

std::vector<FoundKernel> FindKernels(const ParsedModule& module) {
  ast::Block top;
  std::vector<const ast::Class*> classes;
  // The kernel file's own: what other files define is there to be imported.
  for (StmtPtr stmt : StatementsOf(module, module.sections[0])) {
    if (stmt->kind == ast::StmtKind::kFunction) top.push_back(stmt);
    if (stmt->kind == ast::StmtKind::kClass) classes.push_back(stmt->As<ast::Class>());
  }
  std::vector<FoundKernel> kernels;
  for (const ast::Function* function : FunctionsIn(top)) AddKernel(function, {}, &kernels);
  for (const ast::Class* owner : classes) {
    for (const ast::Function* function : FunctionsIn(owner->body)) {
      AddKernel(function, PlaceIn(*owner, *function), &kernels);
    }
  }
  std::erase_if(kernels, IsEagerMethod);
  return kernels;
}

FoundKernel FindFunction(const ParsedModule& module, const SourceSection& section,
                         absl::string_view path) {
  FoundKernel found;
  const ast::Block own = StatementsOf(module, section);
  const ast::Block* block = &own;
  for (absl::string_view part : absl::StrSplit(path, '.')) {
    const bool of_class = found.owner != nullptr && found.function == nullptr;
    if (found.function != nullptr) found.around.push_back(found.function);
    found.function = nullptr;
    for (const ast::Function* function : FunctionsIn(*block)) {
      if (function->name == part) found.function = function;
    }
    if (found.function == nullptr && block == &own) {
      for (StmtPtr stmt : own) {
        const auto* type = stmt->As<ast::Class>();
        if (type != nullptr && type->name == part) found.owner = type;
      }
      if (found.owner == nullptr) return {};
      block = &found.owner->body;
      continue;
    }
    if (found.function == nullptr) return {};
    if (of_class) found.around = PlaceIn(*found.owner, *found.function).around;
    block = &found.function->body;
  }
  return found;
}

namespace {

// A place in the files: a dotted path of a section.
struct PlaceOfName {
  const SourceSection* section = nullptr;  // null: nowhere
  std::string path;
};

// Where the path leads whose first name the statement imports.
PlaceOfName Imported(const ParsedModule& module, const SourceSection& section, size_t statement,
                     absl::string_view path) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(path, absl::MaxSplits('.', 1));
  for (const SourceSection::Star& star : section.stars) {
    if (star.statement == statement) {
      return {module.FindSection(star.module), std::string(path)};
    }
  }
  const auto* import = module.tree->body[statement]->As<ast::Import>();
  if (import == nullptr) return {};
  const std::string from = AbsoluteName(import->module, section.module, section.package);
  for (const ast::ImportedName& name : import->names) {
    if (import->module.empty()) {  // a module, whose names follow
      absl::string_view rest = path;
      if (!absl::ConsumePrefix(&rest, name.whole_path ? name.path : name.alias)) continue;
      if (!absl::ConsumePrefix(&rest, ".")) continue;
      return {module.FindSection(name.path), std::string(rest)};
    }
    if (name.alias != parts.first) continue;
    if (const SourceSection* file = module.FindSection(absl::StrCat(from, ".", name.path))) {
      return {file, std::string(parts.second)};
    }
    return {module.FindSection(from),
            absl::StrCat(name.path, parts.second.empty() ? "" : ".", parts.second)};
  }
  return {};
}

}  // namespace

FoundKernel FindEntry(const ParsedModule& module, absl::string_view path) {
  PlaceOfName place = {&module.sections[0], std::string(path)};
  // Each file is passed once on the way, but where files import in a circle.
  for (size_t hop = 0; hop <= module.sections.size() && place.section != nullptr; ++hop) {
    FoundKernel found = FindFunction(module, *place.section, place.path);
    if (found.function != nullptr) return found;
    const std::string first(absl::string_view(place.path).substr(0, place.path.find('.')));
    const auto touches = place.section->globals.find(first);
    if (touches == place.section->globals.end()) return {};
    PlaceOfName next;
    for (const Touch& touch : touches->second) {
      if (touch.binds) next = Imported(module, *place.section, touch.statement, place.path);
    }
    place = std::move(next);
  }
  return {};
}

}  // namespace kiln::lang
