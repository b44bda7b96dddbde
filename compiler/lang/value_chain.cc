// How a compile-time value came about: the notes of a diagnostic, nearest values first.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

constexpr size_t kMostNotes = 8;
constexpr int kMostSteps = 1000;   // expressions looked at
constexpr size_t kMostText = 60;   // characters of an expression
constexpr size_t kMostValue = 80;  // characters of a value that another was made from

// Numbers, text, types and what holds them: what a reader wants to know of a compile-time value.
bool IsData(const Value& v) {
  return v.is_number() || v.Is(Type::kStr) || v.Is(Type::kDType) || v.is_none() ||
         v.is_sequence() || v.Is(Type::kDict);
}

// The expressions that `e` is made of, the first one last.
void PushParts(ast::ExprPtr e, std::vector<ast::ExprPtr>* work) {
  const auto push = [&](const std::vector<ast::ExprPtr>& parts) {
    for (size_t i = parts.size(); i-- > 0;) {
      if (parts[i] != nullptr) work->push_back(parts[i]);
    }
  };
  if (const auto* binary = e->As<ast::Binary>()) {
    push({binary->left, binary->right});
  } else if (const auto* compare = e->As<ast::Compare>()) {
    push(compare->rest);
    work->push_back(compare->first);
  } else if (const auto* boolean = e->As<ast::Bool>()) {
    push(boolean->operands);
  } else if (const auto* unary = e->As<ast::Unary>()) {
    work->push_back(unary->operand);
  } else if (const auto* call = e->As<ast::Call>()) {
    for (size_t i = call->keywords.size(); i-- > 0;) work->push_back(call->keywords[i].value);
    push(call->args);
  } else if (const auto* subscript = e->As<ast::Subscript>()) {
    push(subscript->indices);
    work->push_back(subscript->value);
  } else if (const auto* slice = e->As<ast::Slice>()) {
    push({slice->start, slice->stop, slice->step});
  } else if (const auto* tuple = e->As<ast::Tuple>()) {
    push(tuple->items);
  } else if (const auto* list = e->As<ast::List>()) {
    push(list->items);
  } else if (const auto* choice = e->As<ast::Conditional>()) {
    push({choice->then, choice->condition, choice->otherwise});
  } else if (const auto* starred = e->As<ast::Starred>()) {
    work->push_back(starred->value);
  }
}

// The names that it reads, in order.
std::vector<const ast::Name*> NamesIn(ast::ExprPtr expr) {
  std::vector<const ast::Name*> names;
  std::vector<ast::ExprPtr> work = {expr};
  for (int steps = 0; !work.empty() && steps < kMostSteps; ++steps) {
    ast::ExprPtr e = work.back();
    work.pop_back();
    if (const auto* name = e->As<ast::Name>()) {
      names.push_back(name);
    } else {
      PushParts(e, &work);
    }
  }
  return names;
}

std::string SourceText(const SourceFile& file, SourceLoc loc) {
  const absl::string_view line = file.Line(loc.line);
  if (loc.column < 1 || static_cast<size_t>(loc.column) > line.size()) return "";
  const size_t begin = loc.column - 1;
  const size_t end = loc.end_column > loc.column ? loc.end_column - 1 : line.size();
  absl::string_view text = absl::StripAsciiWhitespace(line.substr(begin, end - begin));
  if (text.size() <= kMostText) return std::string(text);
  return absl::StrCat(text.substr(0, kMostText), "...");
}

}  // namespace

void ElaboratorState::NoteMade(ast::ExprPtr target, ast::ExprPtr made, const char* update) {
  if (const auto* name = target->As<ast::Name>()) {
    const auto it = frame_->scope->names.find(name->id);
    if (it != frame_->scope->names.end()) it->second.made = {made, frame_->scope, update};
    return;
  }
  const auto* targets = target->As<ast::Tuple>();
  const auto* parts = made->As<ast::Tuple>();
  if (targets == nullptr) return;
  const bool paired = parts != nullptr && parts->items.size() == targets->items.size();
  for (size_t i = 0; i < targets->items.size(); ++i) {
    if (targets->items[i]->As<ast::Name>() == nullptr) continue;
    NoteMade(targets->items[i], paired ? parts->items[i] : made, update);
  }
}

// What a name means at the module's top level, as far as that has run.
const Binding* ElaboratorState::GlobalBinding(const SourceSection& section, absl::string_view name,
                                              size_t* before) const {
  const auto found = section.globals.find(name);
  if (found == section.globals.end()) return nullptr;
  for (size_t i = found->second.size(); i-- > 0;) {
    const Touch& touch = found->second[i];
    const bool own = section.first <= *before && *before < section.last;
    if (!touch.binds || (own && touch.statement >= *before)) continue;
    const Scope* scope = module_scopes_[touch.statement];
    if (scope == nullptr) continue;
    const auto it = scope->names.find(name);
    if (it == scope->names.end()) continue;
    *before = touch.statement;
    return &it->second;
  }
  return nullptr;
}

// Breadth first: what the error's own expression names, then what those values were made from.
std::vector<std::string> Elaborator::ValueChain(ast::ExprPtr expr) {
  struct Place {
    ast::ExprPtr expr;
    const Scope* scope;
    size_t before;  // of top-level code: the statement that it stands in
    int64_t born;   // what it names was there by then
    bool used;      // in a value that was made earlier
  };
  std::vector<Place> places = {{expr, frame_->scope, frame_->before, INT64_MAX, false}};
  std::vector<const Binding*> seen;
  std::vector<std::string> notes;
  for (size_t at = 0; at < places.size() && notes.size() < kMostNotes; ++at) {
    const Place place = places[at];
    for (const ast::Name* name : NamesIn(place.expr)) {
      const Binding* b = nullptr;
      size_t before = place.before;
      for (const Scope* scope = place.scope; scope != nullptr && b == nullptr;
           scope = scope->parent) {
        const auto it = scope->names.find(name->id);
        if (it != scope->names.end()) b = &it->second;
      }
      if (b == nullptr) b = GlobalBinding(module_.SectionAt(name->loc), name->id, &before);
      // One that was bound again since says nothing of the value that was read.
      if (b == nullptr || b->born >= place.born) continue;
      if (std::find(seen.begin(), seen.end(), b) != seen.end()) continue;
      seen.push_back(b);
      const bool data = IsData(b->value);
      if (!data && !b->value.Is(Type::kBuffer)) continue;  // of a buffer: what gave its shape
      const Made& made = b->made;
      const bool derived = made.expr != nullptr && !NamesIn(made.expr).empty();
      if (derived) places.push_back({made.expr, made.scope, before, b->born, true});
      if (!data) continue;
      if (notes.size() == kMostNotes) return notes;
      std::string note =
          absl::StrCat(name->id, " = ", place.used ? Repr(b->value, kMostValue) : Repr(b->value));
      const std::string text = derived ? SourceText(file(), made.expr->loc) : "";
      if (!text.empty()) {
        absl::StrAppend(&note, " from ", made.update, *made.update ? "= " : "", text);
      }
      if (b->origin != nullptr) {
        absl::StrAppend(&note, " (from ", b->origin, ")");
      } else if (b->loc.known()) {
        absl::StrAppend(&note, " (set at ", At(b->loc), ")");
      }
      notes.push_back(std::move(note));
    }
  }
  return notes;
}

}  // namespace kiln::lang
