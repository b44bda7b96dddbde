#: gpu=sm_90a
"""Rows of K elements lie where TMA can find them, those of N elements perhaps not."""
import tilelang
import tilelang.language as T


@tilelang.jit
def product():
    M, N, K = T.dynamic("M, N, K")

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"),
             C: T.Tensor((M, N), "float16")):
        T.assume(K % 8 == 0)
        with T.Kernel(T.ceildiv(N, 8), T.ceildiv(M, 16), threads=32) as (bx, by):
            a = T.alloc_shared((16, 16), "float16")
            b = T.alloc_shared((16, 8), "float16")
            sums = T.alloc_fragment((16, 8), "float32")
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(K, 16), num_stages=2):
                T.copy(A[by * 16, k * 16], a)
                T.copy(B[k * 16, bx * 8], b)
                T.gemm(a, b, sums)
            T.copy(sums, C[by * 16, bx * 8])

    return main
