// What a name, an attribute of a module or a function of another of the user's files is here.
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/lang/ast_walk.h"
#include "compiler/lang/module.h"
#include "compiler/lang/touches.h"
#include "compiler/lang/touches_syntax.h"

namespace kiln::lang {
namespace {

constexpr int kMostImports = 20;  // of one name, from file to file

}  // namespace

FileTouches::FileTouches(const ParsedModule& module) {
  for (const SourceSection& section : module.sections) {
    for (size_t dot = section.module.find('.'); dot != std::string::npos;
         dot = section.module.find('.', dot + 1)) {
      packages_.insert(section.module.substr(0, dot));
    }
    packages_.insert(section.module);
  }
  for (const SourceSection& section : module.sections) {
    files_.emplace_back(new Touches(this, section, module.tree->body));
    by_module_.emplace(section.module, files_.back().get());
  }
  for (const auto& file : files_) file->CollectAll();
  for (bool more = true; more;) {  // what is fixed in one file may hang on another
    more = false;
    for (const auto& file : files_) more |= file->FindFixed();
  }
  for (const auto& file : files_) file->LearnAll();
  for (const auto& [name, methods] : methods_) {
    for (const ast::Function* method : methods) {
      if (has_operators_ || !IsImplicit(name)) continue;
      const Touches::Effects effects = owners_.at(method)->Of(*method);
      has_operators_ = !effects.globals.empty() || !effects.params.empty();
    }
  }
  LinkAll();
}

Touches* FileTouches::Find(absl::string_view module) const {
  const auto found = by_module_.find(module);
  return found == by_module_.end() ? nullptr : found->second;
}

bool FileTouches::Holds(absl::string_view module) const {
  return packages_.contains(std::string(module));
}

bool FileTouches::Split(absl::string_view node, size_t* section, absl::string_view* name) const {
  const auto found = places_.find(node);
  if (found == places_.end()) return false;
  for (*section = 0; files_[*section].get() != found->second.file;) ++*section;
  *name = found->second.name;
  return true;
}

void Touches::CollectImport(const ast::Import& import) {
  const Touches& root = Root();
  const std::string from =
      AbsoluteName(import.module, root.section_->module, root.section_->package);
  for (const ast::ImportedName& name : import.names) {
    if (import.module.empty()) {
      const std::string& path = name.whole_path ? name.alias : name.path;
      if (files_->Holds(path)) {
        imported_[name.alias] = {path, ""};
      } else {
        modules_[name.alias] = path;
      }
    } else if (name.path == "*") {
      if (files_->Find(from) != nullptr) stars_.push_back(from);
    } else if (files_->Holds(from) && (from != root.section_->module || !from.empty())) {
      imported_[name.alias] = {from, name.path};
    } else if (files_->Holds(absl::StrCat(from, from.empty() ? "" : ".", name.path))) {
      imported_[name.alias] = {from, name.path};
    } else {
      modules_[name.alias] = import.module;
    }
  }
}

const Touches::Imported* Touches::ImportedAs(absl::string_view name) const {
  const auto found = imported_.find(name);
  if (found != imported_.end()) return &found->second;
  return outer_ == nullptr || bound_.contains(name) ? nullptr : outer_->ImportedAs(name);
}

std::optional<Touches::Place> Touches::Follow(const Imported& imported, int depth) const {
  if (imported.name.empty() || depth > kMostImports) return std::nullopt;
  Touches* file = files_->Find(imported.module);
  if (file == nullptr) return std::nullopt;
  if (const auto further = file->PlaceOf(imported.name, depth + 1)) return further;
  const auto bound = file->bound_.find(imported.name);
  if (bound == file->bound_.end()) return std::nullopt;
  return Place{file, bound->first};
}

std::optional<Touches::Place> Touches::PlaceOf(absl::string_view name, int depth) const {
  if (bound_.contains(name) && !imported_.contains(name)) return std::nullopt;
  const auto found = imported_.find(name);
  if (found != imported_.end()) return Follow(found->second, depth);
  if (modules_.contains(name) || depth > kMostImports) return std::nullopt;
  if (outer_ != nullptr) return outer_->PlaceOf(name, depth);
  for (const std::string& star : stars_) {
    if (files_->Find(star) == this) continue;
    if (const auto place = Follow({star, std::string(name)}, depth)) return place;
  }
  return std::nullopt;
}

// The user's module that the name `name` of `module` is, where it is one.
std::optional<std::string> Touches::ModuleIn(absl::string_view module, absl::string_view name,
                                             int depth) const {
  const Touches* file = files_->Find(module);
  if (file != nullptr && file != &Root()) {
    if (file->bound_.contains(name) || file->modules_.contains(name)) return std::nullopt;
    if (file->imported_.contains(name)) return file->ModuleOfName(name, depth + 1);
  }
  std::string path = absl::StrCat(module, module.empty() ? "" : ".", name);
  return files_->Holds(path) ? std::optional(std::move(path)) : std::nullopt;
}

std::optional<std::string> Touches::ModuleOfName(absl::string_view name, int depth) const {
  const Imported* imported = ImportedAs(name);
  if (imported == nullptr || depth > kMostImports) return std::nullopt;
  if (imported->name.empty()) return imported->module;
  return ModuleIn(imported->module, imported->name, depth);
}

// The user's module that the expression is: `a.b` behind `import a.b`.
std::optional<std::string> Touches::ModuleAt(ExprPtr expr) const {
  if (const auto* name = expr->As<ast::Name>()) return ModuleOfName(name->id, 0);
  const auto* attribute = expr->As<ast::Attribute>();
  if (attribute == nullptr) return std::nullopt;
  const std::optional<std::string> module = ModuleAt(attribute->value);
  return module.has_value() ? ModuleIn(*module, attribute->attr, 0) : std::nullopt;
}

std::optional<Touches::Place> Touches::PlaceOf(ExprPtr expr) const {
  if (const auto* name = expr->As<ast::Name>()) return PlaceOf(name->id);
  const auto* attribute = expr->As<ast::Attribute>();
  if (attribute == nullptr) return std::nullopt;
  const std::optional<std::string> module = ModuleAt(attribute->value);
  return module.has_value() ? Follow({*module, attribute->attr}, 0) : std::nullopt;
}

absl::string_view Touches::NodeOf(const Place& place) const {
  if (place.file == &Root()) return place.name;
  const std::string text = absl::StrCat(place.file->section_->module, ":", place.name);
  absl::string_view& node = files_->interned_[text];
  if (node.empty()) {
    files_->texts_.push_back(text);
    node = files_->texts_.back();
    files_->places_.emplace(node, place);
  }
  return node;
}

// Of x.a[0].b: `x`, or what x.a is where x is a module of the user's; empty: something else.
absl::string_view Touches::NodeOfRoot(ExprPtr expr) const {
  while (true) {
    if (const auto* name = expr->As<ast::Name>()) return name->id;
    if (const auto* attribute = expr->As<ast::Attribute>()) {
      if (const auto place = PlaceOf(expr)) return NodeOf(*place);
      expr = attribute->value;
    } else if (const auto* subscript = expr->As<ast::Subscript>()) {
      expr = subscript->value;
    } else {
      return {};
    }
  }
}

// All that a module itself may be used to change.
void Touches::NodesOfModule(absl::string_view module, Names* names) const {
  Touches* file = files_->Find(module);
  if (file == nullptr) return;
  for (absl::string_view name : file->AllNames(0)) {
    names->push_back(NodeOf({file, name}));
    if (const auto place = file->PlaceOf(name)) names->push_back(NodeOf(*place));
  }
}

// A name of `from`, as it is called here.
absl::string_view Touches::Translate(Touches* from, absl::string_view name) const {
  const auto node = files_->places_.find(name);
  if (node != files_->places_.end()) return NodeOf(node->second);
  if (const auto place = from->PlaceOf(name)) return NodeOf(*place);
  return NodeOf({from, name});
}

// Of any function of the user's files, in the names of this one.
Touches::Effects Touches::EffectsOf(const ast::Function& function) {
  const auto owner = files_->owners_.find(&function);
  Touches* from = owner == files_->owners_.end() ? nullptr : owner->second;
  if (from == nullptr || from == &Root()) return Of(function);
  Effects effects = from->Of(function);
  for (NameSet* names : {&effects.globals, &effects.rebound, &effects.kept}) {
    NameSet own;
    for (absl::string_view name : *names) {
      if (name != kAnyGlobal) {
        own.insert(Translate(from, name));
        continue;
      }
      Names all;
      NodesOfModule(from->section_->module, &all);
      own.insert(all.begin(), all.end());
    }
    *names = std::move(own);
  }
  return effects;
}

// All names that a file has: its own, and those that imports give it.
Names Touches::AllNames(int depth) const {
  Names names;
  for (const auto& [name, unused] : bound_) names.push_back(name);
  for (const auto& [name, unused] : imported_) names.push_back(name);
  for (const std::string& star : stars_) {
    const Touches* file = files_->Find(star);
    if (file == this || depth > kMostImports) continue;
    const Names more = file->AllNames(depth + 1);
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

size_t FileTouches::GroupOf(size_t node) {
  while (parents_[node] != node) node = parents_[node] = parents_[parents_[node]];
  return node;
}

size_t FileTouches::IndexOf(const Touches::Place& place) {
  const auto [found, fresh] = indices_.try_emplace({place.file, place.name}, parents_.size());
  if (fresh) {
    parents_.push_back(parents_.size());
    nodes_.push_back(place);
  }
  return found->second;
}

// What one name of `file` is: a node of another file, or its own.
Touches::Place FileTouches::PlaceFor(Touches* file, absl::string_view name) const {
  const auto node = places_.find(name);
  return node == places_.end() ? Touches::Place{file, name} : node->second;
}

// The groups of all files are one: a name that an import gives is in the group of what it stands
// for.
void FileTouches::LinkAll() {
  const auto join = [&](const Touches::Place& a, const Touches::Place& b) {
    const size_t one = GroupOf(IndexOf(a)), other = GroupOf(IndexOf(b));
    parents_[one] = other;
  };
  for (const auto& file : files_) {
    for (absl::string_view name : file->AllNames(0)) {
      if (const auto place = file->PlaceOf(name)) join({file.get(), name}, *place);
    }
    Names grouped;
    for (const auto& [name, unused] : file->group_) grouped.push_back(name);
    for (absl::string_view name : grouped) {
      join(PlaceFor(file.get(), name), PlaceFor(file.get(), file->Group(name)));
    }
  }
  for (size_t i = 0; i < nodes_.size(); ++i) members_[GroupOf(i)].push_back(i);
}

// With all names of their groups, in all files.
NameSet FileTouches::Close(Touches* file, NameSet names) {
  std::set<size_t> groups;
  for (absl::string_view name : names) {
    const auto found = indices_.find({PlaceFor(file, name).file, PlaceFor(file, name).name});
    if (found != indices_.end()) groups.insert(GroupOf(found->second));
  }
  for (const size_t group : groups) {
    given_ += members_[group].size();
    if (gave_up()) break;
    for (const size_t member : members_[group]) names.insert(file->NodeOf(nodes_[member]));
  }
  file->AddModules(&names);
  return names;
}

// A statement that reads a name of a module reads the module's own name.
void Touches::AddModules(NameSet* names) const {
  std::set<const Touches*> changed;
  for (absl::string_view name : *names) {
    const auto node = files_->places_.find(name);
    if (node != files_->places_.end()) changed.insert(node->second.file);
  }
  for (const Touches* file : changed) {
    const std::string& module = file->section_->module;
    for (const auto& [alias, imported] : imported_) {
      const bool leads =
          module == imported.module || absl::StartsWith(module, absl::StrCat(imported.module, "."));
      if (leads) names->insert(alias);
    }
  }
}

}  // namespace kiln::lang
