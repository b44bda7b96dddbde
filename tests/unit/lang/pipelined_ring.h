// What a ring of two tiles with hand-written barriers comes to, in whichever loops it is written.
#ifndef KILN_TESTS_UNIT_LANG_PIPELINED_RING_H_
#define KILN_TESTS_UNIT_LANG_PIPELINED_RING_H_

namespace kiln::lang {

inline constexpr char kPipelinedRing[] = R"(
@T.prim_func
def ring(A: T.Tensor((64, 512), "float16"), B: T.Tensor((64, 512), "float16"),
         C: T.Tensor((64, 64), "float32")):
    with T.Kernel(2, threads=128) as bx:
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        for k in T.Pipelined(8, num_stages=2):
            T.copy(A[0, k * 64], a)
            T.copy(B[0, k * 64], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C)
)";

}  // namespace kiln::lang

#endif  // KILN_TESTS_UNIT_LANG_PIPELINED_RING_H_
