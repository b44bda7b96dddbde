// The kernel of tests on the stand-in for the driver, which runs it whatever its code says.
#ifndef KILN_TESTS_UTIL_DOUBLE_KERNEL_H_
#define KILN_TESTS_UTIL_DOUBLE_KERNEL_H_

#include <string>

#include "absl/strings/str_cat.h"

namespace kiln::test {

// y = 2 x, float32 [N]; tunables block and threads.
inline std::string DoubleKernel(const std::string& name) {
  return absl::StrCat("import tilelang.language as T\ndef ", name, R"((N, block=128, threads=128):
    @T.prim_func
    def main(x: T.Tensor((N,), "float32"), y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=threads) as b:
            for i in T.Parallel(block):
                y[b * block + i] = x[b * block + i] * 2.0
    return main
)");
}

}  // namespace kiln::test

#endif  // KILN_TESTS_UTIL_DOUBLE_KERNEL_H_
