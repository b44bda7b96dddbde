// Why an operation or a predicate says no: the element, and the two places that disagree.
//
// Predicates return std::optional<Witness> (nullopt: it holds). Operations return a Status whose
// message is Witness::ToString() and which carries the witness as a payload, so that it survives
// WithContext and can be checked by brute force at the far end.
#ifndef KILN_COMPILER_LAYOUT_WITNESS_H_
#define KILN_COMPILER_LAYOUT_WITNESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "compiler/layout/axis.h"

namespace kiln::layout {

// A point on named axes: (axis, value), ordered by axis, each axis at most once. An axis that is
// not mentioned is at zero, which is also what comparison assumes.
class Coord {
 public:
  Coord() = default;
  explicit Coord(std::vector<std::pair<Axis, int64_t>> values);

  int64_t operator[](Axis axis) const;
  void Set(Axis axis, int64_t value);
  const std::vector<std::pair<Axis, int64_t>>& values() const& { return values_; }
  std::vector<std::pair<Axis, int64_t>> values() && { return std::move(values_); }
  std::string ToString() const;  // {laneid=7, warpid=2, m=1}

  friend bool operator==(const Coord& a, const Coord& b);
  friend bool operator<(const Coord& a, const Coord& b);

 private:
  std::vector<std::pair<Axis, int64_t>> values_;
};

struct Witness {
  std::string reason;    // what does not hold, in words
  int64_t element = -1;  // flat logical index; -1 when the refusal is about shapes alone
  int64_t other = -1;    // a second element, or -1
  Coord at;              // where the first is (or should be)
  Coord other_at;        // the place that disagrees

  std::string ToString() const;
};

// FailedPrecondition with the witness as message and payload.
absl::Status Refuse(Witness witness);
// InvalidArgument: the call itself makes no sense (ranks, ranges). No witness needed.
absl::Status BadArgument(absl::string_view message);
// The witness that Refuse attached, if any.
std::optional<Witness> WitnessOf(const absl::Status& status);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_WITNESS_H_
