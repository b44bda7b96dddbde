// What syntax alone says of a place, a target or a function. Private to touches*.cc.
#ifndef KILN_COMPILER_LANG_TOUCHES_SYNTAX_H_
#define KILN_COMPILER_LANG_TOUCHES_SYNTAX_H_

#include <algorithm>

#include "compiler/lang/expr_walk.h"
#include "compiler/lang/module.h"

namespace kiln::lang {

using ast::ExprPtr;
using ast::StmtPtr;
using Names = std::vector<absl::string_view>;

constexpr int kMaxCalls = 100;  // of functions inside of each other that are followed
constexpr absl::string_view kAnyGlobal = "globals()";  // exec(...), globals()[...] = ...

// `x` of x.a[0].b; empty: it begins with something else.
inline absl::string_view RootOf(ExprPtr expr) {
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

template <size_t N>
bool IsOneOf(absl::string_view name, const absl::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Methods, and functions of Python's library, that change what they are called with.
inline bool IsMutator(absl::string_view name) {
  static constexpr absl::string_view kMutators[] = {
      "append",       "extend",      "insert",      "update",      "pop",
      "remove",       "sort",        "reverse",     "clear",       "add",
      "discard",      "setdefault",  "popitem",     "popleft",     "appendleft",
      "extendleft",   "rotate",      "move_to_end", "subtract",    "difference_update",
      "__setitem__",  "__delitem__", "__setattr__", "__delattr__", "intersection_update",
      "__iadd__",     "__ior__",     "__iand__",    "__ixor__",    "symmetric_difference_update",
      "__imul__",     "__isub__",    "__dict__",    "heappush",    "heappop",
      "heapify",      "heappushpop", "heapreplace", "shuffle",     "insort",
      "insort_left",  "setitem",     "delitem",     "iadd",        "iconcat",
      "insort_right", "ior",         "imul",        "isub"};
  return IsOneOf(name, kMutators);
}

// A method that Python calls without its name being written.
inline bool IsImplicit(absl::string_view name) {
  return name.size() > 4 && name.substr(0, 2) == "__" && name != "__init__" &&
         name != "__post_init__" && !IsMutator(name);
}

// It makes a kernel: a function of the language, not of Python.
inline bool IsKernelLike(const ast::Function& function) {
  return HasDecorator(function, "jit") || HasDecorator(function, "prim_func") ||
         HasDecorator(function, "macro") || HasDecorator(function, "lazy_jit") ||
         HasDecorator(function, "autotune");
}

inline void AddNames(const NameSet& from, NameSet* to) { to->insert(from.begin(), from.end()); }

inline void TargetNames(ExprPtr target, Names* names) {
  if (const auto* name = target->As<ast::Name>()) names->push_back(name->id);
  if (target->kind == ast::ExprKind::kTuple || target->kind == ast::ExprKind::kList ||
      target->kind == ast::ExprKind::kStarred) {
    ForChildren(target, [&](ExprPtr item) { TargetNames(item, names); });
  }
}

inline const std::vector<ExprPtr>* ItemsOf(ExprPtr expr) {
  if (const auto* tuple = expr->As<ast::Tuple>()) return &tuple->items;
  if (const auto* list = expr->As<ast::List>()) return &list->items;
  return nullptr;
}

// a, b = 1, 2
inline bool IsPaired(ExprPtr target, ExprPtr value) {
  const auto *to = ItemsOf(target), *from = ItemsOf(value);
  if (to == nullptr || from == nullptr || to->size() != from->size()) return false;
  const auto starred = [](ExprPtr item) { return item->kind == ast::ExprKind::kStarred; };
  return std::none_of(to->begin(), to->end(), starred) &&
         std::none_of(from->begin(), from->end(), starred);
}

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_TOUCHES_SYNTAX_H_
