// The candidate of a sweep that is no config: the object that dispatches among configs.
#ifndef KILN_PROTO_DISPATCH_H_
#define KILN_PROTO_DISPATCH_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "kiln/v1/common.pb.h"

namespace kiln {

// Stands where a candidate's config text does; SweepInputs.dispatch says what it is made of. The
// name of a pass option that there is not, so that no sweep can list it.
inline constexpr absl::string_view kDispatchConfig = "kiln.dispatch=1";

// The config that runs at `size`; `dispatch` has a step at or below it.
inline const std::string& VariantAt(const v1::Dispatch& dispatch, int64_t size) {
  int variant = 0;
  for (const v1::DispatchStep& step : dispatch.steps()) {
    if (step.first() <= size) variant = step.variant();
  }
  return dispatch.variants(variant);
}

}  // namespace kiln

#endif  // KILN_PROTO_DISPATCH_H_
