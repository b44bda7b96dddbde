// Kernels over fragments, as text, for tests of what happens between tiles and threads.
#ifndef KILN_TESTS_UTIL_FRAGMENT_KERNELS_H_
#define KILN_TESTS_UTIL_FRAGMENT_KERNELS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/ir/stmt.h"
#include "compiler/lang/kernel.h"

namespace kiln::testing {

// A kernel over fragments of m x n, of rows and of columns and a shared tile, on a few threads:
// copies, loops with shifted, transposed and broadcast reads, reductions, stores outside of loops.
// Every element is written before it is read.
std::string RandomFragmentKernel(uint64_t seed);

// C += A B by one to four warps, twice, A from shared memory or from registers.
std::string RandomProductKernel(uint64_t seed);

// `body` in a launch of `threads` threads, between A: float32[shape], B and C: float32[elements].
std::string KernelAround(int threads, int elements, const std::string& shape,
                         const std::string& body);

// The kernel in a file of the repository.
absl::StatusOr<ir::Program> ElaboratedFile(const std::string& path,
                                           const lang::Arguments& arguments = {});
absl::StatusOr<ir::Program> Elaborated(const std::string& path, const std::string& text,
                                       const lang::Arguments& arguments = {});

}  // namespace kiln::testing

#endif  // KILN_TESTS_UTIL_FRAGMENT_KERNELS_H_
