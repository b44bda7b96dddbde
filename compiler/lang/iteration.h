// What a loop of compile time goes over, whose body may change it. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_ITERATION_H_
#define KILN_COMPILER_LANG_ITERATION_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/lazy.h"

namespace kiln::lang {

// An error where a list or dict no longer has the `count` items that something goes over.
absl::Status CheckCount(Elaborator& e, const Value& v, size_t count, SourceLoc loc);

class Iteration {
 public:
  // The items of any iterable, as Elaborator::Iterate has them.
  static absl::StatusOr<Iteration> Begin(Elaborator& e, const Value& iterable, SourceLoc loc);
  // Those of a set too: the "body", what a function does with an item, must change nothing then.
  static absl::StatusOr<Iteration> BeginAnyOrder(Elaborator& e, const Value& iterable,
                                                 SourceLoc loc);

  size_t size() const { return items_.size(); }
  // Of a list, what it holds at `i` by now.
  const Value& At(size_t i) const {
    return iterable_.Is(Type::kList) ? iterable_.seq().items[i] : items_[i];
  }
  // Behind the body's run for item `i`: an error where a list or dict no longer has the items that
  // the loop goes over, or where an iterator's next ones would be others in Python.
  absl::Status CheckUnchanged(Elaborator& e, size_t i);

 private:
  struct Source {
    LazySource from;
    std::vector<Value> items;  // of kItems its keys and its values in turn
  };
  Iteration(Value iterable, std::vector<Value> items, SourceLoc loc);
  absl::Status CheckSource(Elaborator& e, size_t i, Source* source);

  Value iterable_;
  std::vector<Value> items_;
  SourceLoc loc_;
  std::vector<Source> sources_;  // of a dict, and of what is lazy
  bool in_order_ = true;
  bool apart_ = false;   // the body may change nothing: the items' own changes come between, or
                         // they have no order
  int64_t checked_ = 0;  // changes that there had been when the reads were compared
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_ITERATION_H_
