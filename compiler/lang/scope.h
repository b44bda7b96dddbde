// Names and what they stand for while one kernel is elaborated, and who owns the values.
#ifndef KILN_COMPILER_LANG_SCOPE_H_
#define KILN_COMPILER_LANG_SCOPE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "compiler/lang/value.h"

namespace kiln::lang {

// Owns the objects of one elaboration and counts their bytes.
class Arena {
 public:
  template <typename T>
  T* New() {
    auto node = std::make_unique<T>();
    T* raw = node.get();
    raw->number = ++count_;
    objects_.push_back(std::move(node));
    bytes_ += static_cast<int64_t>(sizeof(T)) + 32;
    return raw;
  }
  void Charge(int64_t bytes) { bytes_ += bytes; }
  int64_t bytes() const { return bytes_; }
  int64_t count() const { return count_; }

 private:
  std::vector<std::unique_ptr<Object>> objects_;
  int64_t bytes_ = 0, count_ = 0;
};

// The expression that made a name's value, and the scope that it was read in.
struct Made {
  ast::ExprPtr expr = nullptr;  // null: not known
  const Scope* scope = nullptr;
  const char* update = "";  // "+" where the old value was updated with it
};

// A name's current meaning.
struct Binding {
  Value value;
  int region = 0;         // the IR region that made it; dead regions make it unreadable
  int64_t last_read = 0;  // elaboration step
  SourceLoc loc;
  const char* origin = nullptr;  // "the config", "an argument", "its default"; null: an assignment
  int64_t born = 0;              // elaboration step
  Made made;
};

struct Scope : Object {
  Scope* parent = nullptr;
  const ast::Function* function = nullptr;
  bool of_comprehension = false;
  const ast::Class* of_class = nullptr;  // its functions and comprehensions do not see its names
  absl::flat_hash_map<absl::string_view, Binding> names;  // keys live in the syntax tree
};

// The innermost scope that is no class's.
inline Scope* PastClasses(Scope* scope) {
  while (scope != nullptr && scope->of_class) scope = scope->parent;
  return scope;
}

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_SCOPE_H_
