// Matrix products in float64 and int64, the inner loops of the interpreter's Gemm.
#ifndef KILN_COMPILER_INTERP_GEMM_KERNEL_H_
#define KILN_COMPILER_INTERP_GEMM_KERNEL_H_

#include <cstdint>

namespace kiln::interp {

// c[m, n] += a[m, k] * b[k, n], all row-major and contiguous. Every element is summed in order of
// k with a rounding after each multiplication and each addition, so the result is the same on
// every machine.
void GemmF64(int64_t m, int64_t n, int64_t k, const double* a, const double* b, double* c);
void GemmI64(int64_t m, int64_t n, int64_t k, const int64_t* a, const int64_t* b, int64_t* c);

}  // namespace kiln::interp

#endif  // KILN_COMPILER_INTERP_GEMM_KERNEL_H_
