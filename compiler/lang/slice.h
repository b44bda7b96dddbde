// Slices of lists and ranges, as Python's.
#ifndef KILN_COMPILER_LANG_SLICE_H_
#define KILN_COMPILER_LANG_SLICE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {

struct SliceBounds {
  int64_t start = 0, stop = 0, step = 1;
  int64_t Count() const;
};

// Of a sequence of `size` items: `start` and `stop` are places of it, or one beside its ends.
absl::StatusOr<SliceBounds> BoundsOf(Elaborator& e, const SliceObject& slice, int64_t size,
                                     SourceLoc loc);

absl::StatusOr<Value> SliceOfRange(Elaborator& e, const RangeObject& range,
                                   const SliceBounds& bounds, SourceLoc loc);

// list[slice] = items, del list[slice].
absl::Status AssignSlice(Elaborator& e, const Value& list, const SliceObject& slice,
                         const Value& items, SourceLoc loc);
absl::Status DeleteSlice(Elaborator& e, const Value& list, const SliceObject& slice, SourceLoc loc);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_SLICE_H_
