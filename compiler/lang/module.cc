#include "compiler/lang/module.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/lang/ast_walk.h"
#include "compiler/lang/source_bundle.h"
#include "compiler/lang/touches.h"
#include "compiler/lang/value.h"

namespace kiln::lang {
namespace {

using ast::ExprPtr;
using ast::StmtPtr;

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

// `if __name__ == "__main__":` holds host code.
bool IsMainGuard(StmtPtr stmt) {
  const auto* node = stmt->As<ast::If>();
  if (node == nullptr) return false;
  const auto* compare = node->branches[0].condition->As<ast::Compare>();
  const auto* name = compare == nullptr ? nullptr : compare->first->As<ast::Name>();
  return name != nullptr && name->id == "__name__";
}

bool IsTensorWord(absl::string_view word) {
  return word == "Tensor" || word == "StridedTensor" || word == "Buffer" || word == "ptr" ||
         word == "handle" || word == "FragmentBuffer" || word == "SharedBuffer" ||
         word == "LocalBuffer";
}

}  // namespace

const ast::Call* CallOf(StmtPtr stmt) {
  if (const auto* expr = stmt->As<ast::ExprStmt>()) return expr->value->As<ast::Call>();
  if (const auto* assign = stmt->As<ast::Assign>()) return assign->value->As<ast::Call>();
  return nullptr;
}

absl::string_view LastName(ExprPtr expr) {
  if (const auto* call = expr->As<ast::Call>()) expr = call->callee;
  if (const auto* name = expr->As<ast::Name>()) return name->id;
  if (const auto* attribute = expr->As<ast::Attribute>()) return attribute->attr;
  return {};
}

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

namespace {

// The module of a file, from its path.
std::string ModuleAt(absl::string_view path, bool* package) {
  absl::ConsumeSuffix(&path, ".py");
  *package = absl::ConsumeSuffix(&path, "/__init__");
  return absl::StrReplaceAll(path, {{"/", "."}});
}

// The files of the text, by the lines that name them; each ends where the next one begins.
std::vector<SourceSection> SectionsOf(absl::string_view text) {
  std::vector<SourceSection> sections(1);
  int number = 1;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (!absl::ConsumePrefix(&line, kFileMark)) continue;
    SourceSection section;
    section.first_line = number;
    section.module = ModuleAt(line, &section.package);
    sections.push_back(std::move(section));
  }
  return sections;
}

constexpr size_t kMaxLeftOut = 256;  // more than a bundle marks

std::vector<LeftOutFile> LeftOutOf(absl::string_view text) {
  std::vector<LeftOutFile> files;
  bool inside = false;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (inside && absl::ConsumePrefix(&line, kBrokenLine)) {
      absl::StrAppend(&files.back().text, line, "\n");
      continue;
    }
    inside = absl::ConsumePrefix(&line, kBrokenMark);
    if (!inside && !absl::ConsumePrefix(&line, kTooLargeMark)) continue;
    if (files.size() >= kMaxLeftOut) break;
    LeftOutFile file;
    bool package = false;
    file.module = ModuleAt(line, &package);
    file.path = std::string(line);
    file.broken = inside;
    files.push_back(std::move(file));
  }
  return files;
}

constexpr size_t kMostEarlier = 1'000'000;  // of all statements of a file

// Adds the statements of [file's first, end) that may read what is changed.
void IndexEarlier(const ast::Block& body, const SourceSection& file, size_t end,
                  const NameSet& changed, Touches* touches, size_t* count,
                  std::vector<size_t>* earlier) {
  if (*count > kMostEarlier) return;  // what they make is refused where it would be wrong
  const NameSet reachers = touches->ReachersOf(changed);
  for (size_t i = file.first; i < end; ++i) {
    ++*count;
    StmtPtr stmt = body[i];
    if (stmt->kind == ast::StmtKind::kImport || IsMainGuard(stmt)) continue;
    NameSet read = NamesRead(stmt);
    if (const auto* function = stmt->As<ast::Function>()) {  // the body reads when it is called
      read.clear();
      ast::ExprStmt part({});
      for (const ast::Param& param : function->params) {
        part.value = param.default_value;
        const NameSet more = NamesRead(&part);
        read.insert(more.begin(), more.end());
      }
    }
    const bool reads = std::any_of(read.begin(), read.end(),
                                   [&](absl::string_view name) { return reachers.contains(name); });
    if (reads) earlier->push_back(i);
  }
}

void IndexStatement(ParsedModule* module, size_t i, Touches* touches, size_t* count,
                    SourceSection* section) {
  const ast::Block& body = module->tree->body;
  StmtPtr stmt = body[i];
  if (const auto* import = stmt->As<ast::Import>()) {
    for (const ast::ImportedName& name : import->names) {
      if (name.path != "*") continue;
      section->stars.push_back(
          {i, AbsoluteName(import->module, section->module, section->package)});
    }
  }
  std::vector<absl::string_view> names;
  CollectBindings(stmt, &names);
  const std::vector<absl::string_view> named = Touches::WalrusNames(stmt);
  names.insert(names.end(), named.begin(), named.end());
  std::erase(names, "*");
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (absl::string_view name : names) section->globals[name].push_back({i, true});
  const ast::Call* call = stmt->kind == ast::StmtKind::kExpr ? CallOf(stmt) : nullptr;
  const auto* callee = call == nullptr ? nullptr : call->callee->As<ast::Name>();
  if (callee != nullptr && callee->id == "main") return;  // host code
  const NameSet changed = touches->Of(stmt);
  if (changed.empty()) return;
  const NameSet rebound = touches->ReboundBy(stmt);
  const auto self = static_cast<size_t>(section - module->sections.data());
  std::map<size_t, NameSet> elsewhere;  // by section
  for (absl::string_view name : changed) {
    size_t other = 0;
    absl::string_view there;
    const bool rebinds = rebound.contains(name);
    if (module->touches->Split(name, &other, &there)) {
      const bool loaded_later =
          module->sections[other].loads.contains(self) && !section->loads.contains(other);
      if (loaded_later) continue;
      elsewhere[other].insert(there);
      module->sections[other].changed_elsewhere[there].push_back({i, false, rebinds});
    } else if (!std::binary_search(names.begin(), names.end(), name)) {
      section->globals[name].push_back({i, false, rebinds});
    }
  }
  for (const auto& [other, there] : elsewhere) {  // its file has been run when this one changes it
    const SourceSection& file = module->sections[other];
    IndexEarlier(body, file, file.last, there, &module->touches->At(other), count,
                 &section->earlier[i]);
  }
  IndexEarlier(body, *section, i, changed, touches, count, &section->earlier[i]);
}

// Which sections the top-level imports of each load. Files that load each other pass this on as
// often as there are files.
void IndexLoads(ParsedModule* module) {
  const auto note = [&](SourceSection* section, const std::string& path, size_t statement) {
    for (size_t i = 1; i < module->sections.size(); ++i) {
      const std::string& name = module->sections[i].module;
      const bool loaded = path == name || absl::StartsWith(path, absl::StrCat(name, "."));
      if (loaded && &module->sections[i] != section) section->loads.try_emplace(i, statement);
    }
  };
  for (SourceSection& section : module->sections) {
    for (size_t i = section.first; i < section.last; ++i) {
      Walk(module->tree->body[i], [&](StmtPtr stmt) {
        const auto* import = stmt->As<ast::Import>();
        for (size_t n = 0; import != nullptr && n < import->names.size(); ++n) {
          const ast::ImportedName& name = import->names[n];
          const std::string from = AbsoluteName(import->module, section.module, section.package);
          note(&section, import->module.empty() ? name.path : from, i);
          if (import->module.empty()) continue;
          note(&section, absl::StrCat(from, from.empty() ? "" : ".", name.path), i);
        }
      });
    }
  }
  for (bool more = true; more;) {
    more = false;
    for (SourceSection& section : module->sections) {
      const auto direct = section.loads;
      for (const auto& [loaded, statement] : direct) {
        for (const auto& [further, unused] : module->sections[loaded].loads) {
          if (&module->sections[further] == &section) continue;
          const auto [known, fresh] = section.loads.try_emplace(further, statement);
          more |= fresh || statement < known->second;
          known->second = std::min(known->second, statement);
        }
      }
    }
  }
}

// The texts of a literal `__all__ = [...]`; nullptr for another statement.
const std::vector<ExprPtr>* ListOfAll(StmtPtr stmt) {
  const auto* assign = stmt->As<ast::Assign>();
  if (assign == nullptr || assign->targets.size() != 1) return nullptr;
  const auto* name = assign->targets[0]->As<ast::Name>();
  if (name == nullptr || name->id != "__all__") return nullptr;
  if (const auto* list = assign->value->As<ast::List>()) return &list->items;
  const auto* tuple = assign->value->As<ast::Tuple>();
  return tuple == nullptr ? nullptr : &tuple->items;
}

// What `from section import *` binds.
std::vector<absl::string_view> ExportsOf(const ParsedModule& module, const SourceSection& section) {
  for (size_t i = section.last; i-- > section.first;) {
    const std::vector<ExprPtr>* all = ListOfAll(module.tree->body[i]);
    if (all == nullptr) continue;
    std::vector<absl::string_view> names;
    for (ExprPtr item : *all) {
      if (const auto* text = item->As<ast::Constant>()) names.push_back(text->text);
    }
    return names;
  }
  std::vector<absl::string_view> names;
  for (const auto& [name, touches] : section.globals) {
    if (!absl::StartsWith(name, "_") && touches[0].binds) names.push_back(name);
  }
  return names;
}

// Each name that a star brings from another file is bound by its statement. Files that take from
// each other pass names on as often as there are files.
void IndexStars(ParsedModule* module) {
  for (size_t round = 0; round < module->sections.size(); ++round) {
    bool more = false;
    for (SourceSection& section : module->sections) {
      for (const SourceSection::Star& star : section.stars) {
        const SourceSection* other = module->FindSection(star.module);
        if (other == nullptr || other == &section) continue;
        for (absl::string_view name : ExportsOf(*module, *other)) {
          std::vector<Touch>& touches = section.globals[name];
          const auto at =
              std::lower_bound(touches.begin(), touches.end(), star.statement,
                               [](const Touch& touch, size_t i) { return touch.statement < i; });
          if (at != touches.end() && at->statement == star.statement) continue;
          touches.insert(at, {star.statement, true});
          more = true;
        }
      }
    }
    if (!more) return;
  }
}

}  // namespace

void IndexGlobals(ParsedModule* module) {
  module->sections = SectionsOf(module->file->text);
  module->left_out = LeftOutOf(module->file->text);
  const ast::Block& body = module->tree->body;
  size_t i = 0;
  for (size_t at = 0; at < module->sections.size(); ++at) {
    SourceSection& section = module->sections[at];
    const bool ends = at + 1 < module->sections.size();
    section.first = i;
    while (i < body.size() && !(ends && body[i]->loc.line >= module->sections[at + 1].first_line)) {
      ++i;
    }
    section.last = i;
  }
  IndexLoads(module);
  module->touches = std::make_shared<FileTouches>(*module);
  for (size_t at = 0; at < module->sections.size(); ++at) {
    SourceSection& section = module->sections[at];
    size_t count = 0;
    for (size_t s = section.first; s < section.last; ++s) {
      if (IsMainGuard(body[s])) continue;
      IndexStatement(module, s, &module->touches->At(at), &count, &section);
    }
  }
  IndexStars(module);
}

const SourceSection& ParsedModule::SectionAt(SourceLoc loc) const {
  size_t at = sections.size();
  while (--at > 0 && loc.line < sections[at].first_line) {
  }
  return sections[at];
}

Touches& ParsedModule::TouchesAt(SourceLoc loc) const {
  return touches->At(static_cast<size_t>(&SectionAt(loc) - sections.data()));
}

size_t ParsedModule::EntryStatement() const {
  if (!around.empty()) return SIZE_MAX;
  const auto after = std::find_if(tree->body.begin(), tree->body.end(), [&](ast::StmtPtr stmt) {
    return stmt->loc.line > entry->name_loc.line;
  });
  return static_cast<size_t>(after - tree->body.begin()) - 1;
}

std::string AbsoluteName(absl::string_view name, absl::string_view importer, bool package) {
  if (!absl::ConsumePrefix(&name, ".")) return std::string(name);
  std::vector<absl::string_view> parts;
  if (!importer.empty()) parts = absl::StrSplit(importer, '.');
  if (!package && !parts.empty()) parts.pop_back();
  while (absl::ConsumePrefix(&name, ".")) {
    if (!parts.empty()) parts.pop_back();
  }
  if (!name.empty()) parts.push_back(name);
  return absl::StrJoin(parts, ".");
}

const LeftOutFile* ParsedModule::FindLeftOut(absl::string_view module) const {
  const auto found = std::find_if(left_out.begin(), left_out.end(),
                                  [&](const LeftOutFile& file) { return file.module == module; });
  return found == left_out.end() ? nullptr : &*found;
}

const SourceSection* ParsedModule::FindSection(absl::string_view module) const {
  for (size_t at = 1; at < sections.size(); ++at) {
    if (sections[at].module == module) return &sections[at];
  }
  return nullptr;
}

namespace {

void CollectImports(const ast::Block& block, int depth, std::vector<const ast::Import*>* imports) {
  for (StmtPtr stmt : block) {
    if (IsMainGuard(stmt)) continue;
    Walk(stmt, [&](StmtPtr s) {
      if (const auto* import = s->As<ast::Import>()) imports->push_back(import);
      const auto* function = s->As<ast::Function>();
      if (function != nullptr && depth < kMaxWalk) {
        CollectImports(function->body, depth + 1, imports);
      }
    });
  }
}

}  // namespace

std::vector<const ast::Import*> ImportsOf(const ast::Ast& tree) {
  std::vector<const ast::Import*> imports;
  CollectImports(tree.body, 0, &imports);
  return imports;
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

// The parts of an annotation: shape, strides of a strided tensor, element type.
struct TensorParts {
  const std::vector<ExprPtr>* all = nullptr;  // null: no shape is given
  bool strided = false;
  SizeSource::Part KindOf(size_t part) const {
    if (part == (strided ? 2 : 1)) return SizeSource::kDType;
    return part == 0 ? SizeSource::kShape : SizeSource::kStride;
  }
};

TensorParts PartsOf(ExprPtr annotation) {
  const auto* subscript = annotation->As<ast::Subscript>();
  const auto* call = annotation->As<ast::Call>();
  TensorParts parts;
  parts.all = subscript ? &subscript->indices : call ? &call->args : nullptr;
  if (parts.all == nullptr) return parts;
  parts.strided = LastName(subscript ? subscript->value : call->callee) == "StridedTensor";
  return parts;
}

// A dimension that is a placeholder is named after its tensor; of other names, `aliases` says
// which T.const they hold.
void AddSources(const std::string& tensor, ExprPtr annotation,
                const std::map<absl::string_view, std::string>& aliases,
                std::vector<SizeSource>* sources) {
  const TensorParts parts = PartsOf(annotation);
  if (parts.all == nullptr) return;
  for (size_t part = 0; part < parts.all->size() && part < 3; ++part) {
    const SizeSource::Part kind = parts.KindOf(part);
    if (kind == SizeSource::kDType) {
      if (IsPlaceholder((*parts.all)[part])) {
        sources->push_back({absl::StrCat(tensor, "_dtype"), tensor, kind, 0});
      }
      continue;
    }
    const std::vector<ExprPtr>* items = Items((*parts.all)[part]);
    if (items == nullptr) continue;
    for (size_t i = 0; i < items->size(); ++i) {
      const auto* name = (*items)[i]->As<ast::Name>();
      const auto alias = name == nullptr ? aliases.end() : aliases.find(name->id);
      if (IsPlaceholder((*items)[i])) {
        const char* part_name = kind == SizeSource::kShape ? "_shape_" : "_stride_";
        sources->push_back({absl::StrCat(tensor, part_name, i), tensor, kind, i});
      } else if (alias != aliases.end()) {
        sources->push_back({alias->second, tensor, kind, i});
      }
    }
  }
}

// Names of the sizes of `T.const("M, N")`; empty for any other statement.
std::vector<std::string> NamesOfConst(StmtPtr stmt) {
  const ast::Call* call = CallOf(stmt);
  if (call == nullptr || LastName(call) != "const") return {};
  if (call->callee->kind != ast::ExprKind::kAttribute || call->args.empty()) return {};
  const auto* text = call->args[0]->As<ast::Constant>();
  if (text == nullptr || text->type != ast::ConstantType::kStr) return {};
  return absl::StrSplit(text->text, absl::ByAnyChar(", "), absl::SkipEmpty());
}

// Calls `visit` on every statement of the function's body.
template <typename F>
void WalkBody(const ast::Function& function, const F& visit) {
  for (StmtPtr stmt : function.body) Walk(stmt, visit);
}

}  // namespace

std::vector<std::string> FindConsts(const ast::Function& function) {
  std::vector<SizeSource> sources;
  for (const ast::Param& param : function.params) {
    if (KindOfAnnotation(param.annotation) == AnnotationKind::kTensor) {
      AddSources(param.name, param.annotation, {}, &sources);
    }
  }
  std::vector<std::string> names;
  for (SizeSource& source : sources) names.push_back(std::move(source.name));
  WalkBody(function, [&](StmtPtr stmt) {
    for (std::string& name : NamesOfConst(stmt)) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(std::move(name));
      }
    }
  });
  return names;
}

std::vector<SizeSource> FindSizeSources(const ast::Function& function) {
  std::map<absl::string_view, std::string> aliases;  // name in the kernel -> name of T.const
  WalkBody(function, [&](StmtPtr stmt) {
    const std::vector<std::string> names = NamesOfConst(stmt);
    const auto* assign = stmt->As<ast::Assign>();
    if (names.empty() || assign == nullptr) return;
    std::vector<absl::string_view> targets;
    CollectTarget(assign->targets[0], &targets);
    if (targets.size() != names.size()) return;
    for (size_t i = 0; i < names.size(); ++i) aliases[targets[i]] = names[i];
  });
  std::vector<SizeSource> sources;
  for (const ast::Param& param : function.params) {
    if (KindOfAnnotation(param.annotation) == AnnotationKind::kTensor) {
      AddSources(param.name, param.annotation, aliases, &sources);
    }
  }
  WalkBody(function, [&](StmtPtr stmt) {
    const auto* annotated = stmt->As<ast::AnnAssign>();
    if (annotated == nullptr || annotated->value != nullptr) return;
    const auto* name = annotated->target->As<ast::Name>();
    if (name == nullptr || KindOfAnnotation(annotated->annotation) != AnnotationKind::kTensor) {
      return;
    }
    AddSources(name->id, annotated->annotation, aliases, &sources);
  });
  return sources;
}

ast::ExprPtr FindElementType(const ast::Function& function, absl::string_view tensor) {
  ExprPtr annotation = nullptr;
  for (const ast::Param& param : function.params) {
    if (param.name == tensor) annotation = param.annotation;
  }
  WalkBody(function, [&](StmtPtr stmt) {
    const auto* annotated = stmt->As<ast::AnnAssign>();
    const auto* name = annotated ? annotated->target->As<ast::Name>() : nullptr;
    if (name != nullptr && annotated->value == nullptr && name->id == tensor) {
      annotation = annotated->annotation;
    }
  });
  if (annotation == nullptr) return nullptr;
  if (const auto* call = annotation->As<ast::Call>()) {
    for (const ast::Keyword& keyword : call->keywords) {
      if (keyword.name == "dtype") return keyword.value;
    }
  }
  const TensorParts parts = PartsOf(annotation);
  for (size_t part = 0; parts.all != nullptr && part < parts.all->size(); ++part) {
    if (parts.KindOf(part) == SizeSource::kDType) return (*parts.all)[part];
  }
  return nullptr;
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
