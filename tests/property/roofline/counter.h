// Counts what a closed program does by doing it: every block, every iteration, every element, with
// plain integers. Shares nothing with the analysis it checks.
#ifndef KILN_TESTS_PROPERTY_ROOFLINE_COUNTER_H_
#define KILN_TESTS_PROPERTY_ROOFLINE_COUNTER_H_

#include <cstdint>
#include <map>
#include <string>

#include "compiler/ir/stmt.h"

namespace kiln::roofline {

struct Counts {
  int64_t blocks = 0;
  int64_t copies = 0, gemms = 0, fills = 0, reduces = 0, loops = 0;  // executions
  double gemm_flops = 0;                                             // of whole tiles
  std::map<std::string, double> read, written;  // tensor -> bytes inside it, distinct an execution
  std::map<std::string, int64_t> touched;       // tensor -> distinct elements, whole kernel
  int64_t onchip_bytes = 0;                     // allocations of a block
};

Counts CountByRunning(const ir::Program& program);

}  // namespace kiln::roofline

#endif  // KILN_TESTS_PROPERTY_ROOFLINE_COUNTER_H_
