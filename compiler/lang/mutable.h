// Whether compile-time data may be changed. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_MUTABLE_H_
#define KILN_COMPILER_LANG_MUTABLE_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {

// Before a list, dict or set is changed.
inline absl::Status CheckMutable(Elaborator& e, const Value& v, SourceLoc loc) {
  if (v.Is(Type::kSet) && v.dict().frozen) {
    return e.Error(loc, "a frozenset does not change", "use a set, or the union of both");
  }
  if (v.Is(Type::kList) ? e.MayMutate(v.seq()) : e.MayMutate(v.dict())) return absl::OkStatus();
  return e.Error(loc,
                 absl::StrCat(Describe(v),
                              " is changed inside a run-time branch or loop, which would change "
                              "it once, not at run time"),
                 "use a buffer from T.alloc_local or T.alloc_var");
}

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_MUTABLE_H_
