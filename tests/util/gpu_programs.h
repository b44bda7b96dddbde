// Programs as a GPU runs them, in the interpreter, against their tiles.
#ifndef KILN_TESTS_UTIL_GPU_PROGRAMS_H_
#define KILN_TESTS_UTIL_GPU_PROGRAMS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/stmt.h"
#include "compiler/target/arch.h"

namespace kiln::testing {

// After the passes for a GPU with so many cores, verified.
absl::StatusOr<ir::Program> Instructions(const ir::Program& program, const std::string& gpu,
                                         int cores = 132);
absl::StatusOr<ir::Program> Instructions(const ir::Program& program, const target::Arch& arch);

// Empty when the instructions compute what the tiles do from small integers and these scalars, in
// both schedules; else what is wrong.
std::string Difference(const ir::Program& tiles, const ir::Program& instructions,
                       double tolerance = 0, const std::map<std::string, double>& scalars = {});

bool Has(const ir::Program& program, ir::Instruction op);

}  // namespace kiln::testing

#endif  // KILN_TESTS_UTIL_GPU_PROGRAMS_H_
