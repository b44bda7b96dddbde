// The shipped records, one function a table: private to this folder.
#ifndef KILN_COMPILER_TARGET_TABLES_H_
#define KILN_COMPILER_TARGET_TABLES_H_

#include <vector>

#include "compiler/target/arch.h"

namespace kiln::target {

std::vector<Arch> GpuArchs();
std::vector<Arch> CpuArchs();

}  // namespace kiln::target

#endif  // KILN_COMPILER_TARGET_TABLES_H_
