// What a loop of compile time goes over, whose body may change it. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_ITERATION_H_
#define KILN_COMPILER_LANG_ITERATION_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {

class Iteration {
 public:
  // The items of any iterable, as Elaborator::Iterate has them.
  static absl::StatusOr<Iteration> Begin(Elaborator& e, const Value& iterable, SourceLoc loc);

  size_t size() const { return items_.size(); }
  // Of a list, what it holds at `i` by now.
  const Value& At(size_t i) const { return live_ ? iterable_.seq().items[i] : items_[i]; }
  // Behind the body's run for item `i`: an error where a list or dict no longer has the items that
  // the loop goes over, or where an iterator's next ones would be others in Python.
  absl::Status CheckUnchanged(Elaborator& e, size_t i);

 private:
  struct Source {
    Value container;
    int64_t changes = 0;
    std::vector<Value> items;
  };
  Iteration(Value iterable, std::vector<Value> items, SourceLoc loc);

  Value iterable_;
  std::vector<Value> items_;
  SourceLoc loc_;
  bool live_;
  std::vector<Source> sources_;  // of what is lazy
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_ITERATION_H_
