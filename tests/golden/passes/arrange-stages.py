#:
"""Weights are widened one step before the product that takes them; the product comes first."""
import tilelang
import tilelang.language as T


@tilelang.jit
def widening():
    @T.prim_func
    def main(A: T.Tensor((64, 512), "float16"), Q: T.Tensor((64, 256), "uint8"),
             C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((64, 32), "float16")
            q = T.alloc_shared((64, 16), "uint8")
            b = T.alloc_shared((64, 32), "float16")
            sums = T.alloc_fragment((64, 64), "float32")
            T.clear(sums)
            for k in T.Pipelined(16, num_stages=2, order=[0, 1, 3, 2], stage=[0, 0, 1, 2]):
                T.copy(A[0, k * 32], a)
                T.copy(Q[0, k * 16], q)
                for i, j in T.Parallel(64, 32):
                    b[i, j] = T.cast((q[i, j // 2] >> ((j % 2) * 4)) & 15, "float16") - 8
                T.gemm(a, b, sums, transpose_B=True)
            T.copy(sums, C)

    return main
