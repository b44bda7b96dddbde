// One object for a range of sizes: several configs of a kernel behind one entry point, which looks
// at a run-time dimension and calls the config that is to run at that size.
#ifndef KILN_COMPILER_CODEGEN_DISPATCH_H_
#define KILN_COMPILER_CODEGEN_DISPATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/codegen/compile.h"

namespace kiln::codegen {

struct DispatchStep {
  int64_t first = 1;  // from this size up to the next step's
  int variant = 0;
};

struct DispatchInput {
  CompileInput kernel;    // `config` is not looked at
  std::string dimension;  // a run-time dimension of the kernel
  int64_t low = 1;        // outside of low to high the entry returns KILN_ERROR_ARGUMENT
  int64_t high = 1;
  std::vector<Config> variants;     // each in some step
  std::vector<DispatchStep> steps;  // ascending; the first one's is `low`
};

// The GPU code of one variant.
struct VariantOutput {
  std::string manifest_json;  // as of an artifact of its own
  std::string assembly;
  std::string cubin;
};

struct DispatchOutput {
  // The entry has the arguments of a single config's. `object` and `shared_object` hold all
  // variants and one run-time support; the manifest has "dispatch" and "variants" where a single
  // config's has "config", "kernels" and what is read from one cubin. `assembly` and `cubin` are
  // empty. Of registers, spills and on-chip storage the most that any variant has.
  CompileOutput artifact;
  std::vector<VariantOutput> variants;  // in order; empty on x86
};

// Errors as CompileKernel's. kInvalidArgument too where the steps are not as described, the kernel
// has no such run-time dimension, or configs differ in the arguments of the entry. Pure and
// thread-safe.
absl::StatusOr<DispatchOutput> CompileDispatch(const DispatchInput& input);

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_DISPATCH_H_
