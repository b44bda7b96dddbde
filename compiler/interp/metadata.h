// What is said of metadata that is none (ir/sparse.h). Private to compiler/interp.
#ifndef KILN_COMPILER_INTERP_METADATA_H_
#define KILN_COMPILER_INTERP_METADATA_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace kiln::interp {

inline constexpr char kNoMetadataRemedy[] =
    "indices of a group ascend; of float32 they are 0 and 1, or 2 and 3";

inline std::string NoMetadataText(const std::string& name, int64_t row, int64_t group,
                                  int64_t bits) {
  return absl::StrCat("'", name, "' is no metadata in row ", row, ", group ", group, ": indices ",
                      bits & 3, " and ", bits >> 2 & 3);
}

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_METADATA_H_
