// From what a user asks for to what can be tried: the seam to the kernel language and the
// recommender.
#ifndef KILN_COORDINATOR_SEARCH_EXPANDER_H_
#define KILN_COORDINATOR_SEARCH_EXPANDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/v1/common.pb.h"
#include "kiln/v1/work.pb.h"

namespace kiln::search {

struct Expansion {
  // Digest of the canonical open program, never of source text.
  std::string kernel_digest;
  // All that a worker needs, closed: the template's text in place of its name, the arch record
  // filled in, defaults of the policies made explicit.
  v1::SweepInputs inputs;
  // Legal configs, best predicted first; `config` and `predicted_ns` are set. For strategy
  // "recommended" the slate and some reserve; "carver": Carver's own list and order; "exhaustive"
  // and "random": every legal config up to the farm's limit. A sweep with objective COMPILE or
  // COMPARE: the configs to compile; those of a list in its order, each once, legal or not; after
  // them kDispatchConfig (proto/dispatch.h) where the spec has a dispatch.
  std::vector<v1::Hint> candidates;
  // Legal configs in the whole space, also those not listed. 0 = not counted.
  int64_t legal_configs = 0;
  // For people: "sampled", "128 of 512 pieces elaborated", ...
  std::vector<std::string> notes;
};

// Thread-safe: called from a pool beside the coordinator's loop. Deterministic in its arguments.
class Expander {
 public:
  virtual ~Expander() = default;

  // `arch.record` may be empty when no worker has reported one for `arch.name`: then the expander
  // uses its own table or says that it has none. Errors are the caller's mistakes, as diagnostics
  // (kInvalidArgument, kNotFound, kResourceExhausted for a space over the limits). A spec with a
  // range has one size of it among its run-time values; `inputs.arguments` then say how the range's
  // dimension becomes a run-time one.
  virtual absl::StatusOr<Expansion> Expand(const v1::SweepSpec& spec,
                                           const v1::ArchRecord& arch) = 0;
};

}  // namespace kiln::search

#endif  // KILN_COORDINATOR_SEARCH_EXPANDER_H_
