// How Measurement.conditions is written: clauses with "; " between them. Those that begin with
// kDisturbed say what may have changed the time, or what it may not be compared with.
#ifndef KILN_PROTO_CONDITIONS_H_
#define KILN_PROTO_CONDITIONS_H_

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace kiln {

inline constexpr absl::string_view kDisturbed = "disturbed: ";

// Those clauses, without the word that marks them.
inline std::vector<std::string> Disturbances(absl::string_view conditions) {
  std::vector<std::string> found;
  for (absl::string_view clause : absl::StrSplit(conditions, "; ")) {
    if (absl::ConsumePrefix(&clause, kDisturbed)) found.emplace_back(clause);
  }
  return found;
}

// Begins the reason of a task that a worker gives back because its device cannot measure now: no
// candidate is to blame, and another device or a later time may do.
inline constexpr absl::string_view kNotMeasuredHere = "not measured here: ";

}  // namespace kiln

#endif  // KILN_PROTO_CONDITIONS_H_
