// What a kernel may ask of the machine that it is compiled for: torch.cuda.get_device_capability(),
// driver.get_num_sms(). Elaboration is a function of these too.
#ifndef KILN_COMPILER_LANG_TARGET_FACTS_H_
#define KILN_COMPILER_LANG_TARGET_FACTS_H_

#include <cstdint>
#include <string>

#include "compiler/target/arch.h"

namespace kiln::lang {

struct TargetFacts {
  int cores = 0;  // SMs, or the cores of a CPU; 0: no target is known, and who asks is refused
  bool gpu = false;
  // Compute capability. A CPU says 8.0, the oldest GPU that Kiln compiles for, so that a kernel
  // takes the path that needs nothing newer.
  int major = 8, minor = 0;
  std::string name;
  int64_t cluster = 0;       // most blocks of a cluster whose blocks share memory; 0: it has none
  int64_t shared_bytes = 0;  // most shared memory of one block; 0 on a CPU
};

TargetFacts FactsOf(const target::Arch& arch);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_TARGET_FACTS_H_
