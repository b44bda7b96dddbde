// What makes two requests, two problems or two compilations the same.
#ifndef KILN_COORDINATOR_CORE_IDENTITY_H_
#define KILN_COORDINATOR_CORE_IDENTITY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/search/expander.h"
#include "kiln/v1/common.pb.h"

namespace kiln::core {

// Checks what can be checked without the kernel, and writes defaults out, so that a default and its
// explicit value are the same request. kInvalidArgument says which field and what to do.
absl::Status NormaliseSpec(v1::SweepSpec* spec);

// True for a sweep of empty tasks (template "empty"): no kernel, no recommender, `max_candidates`
// tasks that do nothing. It measures the dispatch path.
bool IsEmptySweep(const v1::SweepSpec& spec);

// All functions below take a normalised spec.

// Of the request's text: two equal requests need one expansion. `fresh` counts, because it changes
// what is done.
std::string SpecDigest(const v1::SweepSpec& spec);

// The sweep's identity: all that changes what is tried, how it is measured, or for what device.
std::string SweepDigest(const v1::SweepSpec& spec, const search::Expansion& expansion);

// The problem that a winner answers: the sweep without strategy, seed and budget.
std::string ProblemKey(const v1::SweepSpec& spec, const search::Expansion& expansion);

// Of the space of tunables and configs that the spec gives.
std::string SpaceDigest(const v1::SweepSpec& spec);

// Of a request's text on a device: two equal ones are the same problem. Also without strategy, seed
// and budget.
std::string RequestDigest(const v1::SweepSpec& spec, const v1::ArchRecord& arch);

// What the compiler is given; with the toolchain it names a compile result.
std::string CompileKey(const search::Expansion& expansion, absl::string_view config);

}  // namespace kiln::core

#endif  // KILN_COORDINATOR_CORE_IDENTITY_H_
