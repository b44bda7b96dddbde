// Python's sort. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_SORT_H_
#define KILN_COMPILER_LANG_SORT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {

// How sorted() and list.sort() are called.
struct SortOrder {
  Value key;  // None: the items themselves
  bool reverse = false;
  bool of_set = false;  // the items come in no order, so that no two may be equal
};

// The items in the order of `<` of their keys; those that are equal stay as they are. Keys are made
// in the order of the items, and compared as CPython does in lists of less than 64. Refused are
// comparisons that change what others see, whose number differs between versions, and keys that
// have no one order (NaN, sets).
absl::StatusOr<std::vector<Value>> SortItems(Elaborator& e, std::vector<Value> items,
                                             const SortOrder& order, SourceLoc loc);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_SORT_H_
