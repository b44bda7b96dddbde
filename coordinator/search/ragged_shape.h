// The small shape at which finalists of kernels with compiled-in sizes are checked too.
#ifndef KILN_COORDINATOR_SEARCH_RAGGED_SHAPE_H_
#define KILN_COORDINATOR_SEARCH_RAGGED_SHAPE_H_

#include <map>
#include <string>

#include "compiler/base/config.h"
#include "compiler/lang/kernel.h"

namespace kiln::search {

// Which of the values of `arguments` and `runtime` become which, so that tensors are small and few
// tiles divide them: sizes of tensors, as far as the kernel takes smaller ones one after the other
// with `config`. What is a multiple of 16, or 8, remains one, so that the code keeps its way of
// loading. Empty: no argument is such a size.
std::map<std::string, std::string> RaggedShape(const lang::Kernel& kernel,
                                               const lang::Arguments& arguments,
                                               const std::map<std::string, double>& runtime,
                                               const Config& config,
                                               const lang::TargetFacts& facts);

}  // namespace kiln::search

#endif  // KILN_COORDINATOR_SEARCH_RAGGED_SHAPE_H_
