// What the author of a module knows and a manifest tells.
#ifndef KILN_COMPILER_CODEGEN_MODULE_FACTS_H_
#define KILN_COMPILER_CODEGEN_MODULE_FACTS_H_

#include <cstdint>

namespace kiln::codegen {

struct ModuleFacts {
  int64_t scratch_bytes = 0;  // the largest launch's on-chip storage, per block
  int64_t grid_blocks = 0;    // of the largest launch; 0 when it depends on run-time dimensions
  int threads = 0;            // per block, as the kernel asks; no meaning on x86
};

}  // namespace kiln::codegen

#endif  // KILN_COMPILER_CODEGEN_MODULE_FACTS_H_
