#:
"""On a CPU steps stay in order: lists are checked, and gone."""
import tilelang
import tilelang.language as T


@tilelang.jit
def scaled():
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float32"), C: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=32) as bx:
            a = T.alloc_shared((8, 32), "float32")
            for k in T.Pipelined(8, num_stages=2, order=[1, 0], stage=[0, 1]):
                T.copy(A[k * 8, 0], a)
                for i, j in T.Parallel(8, 32):
                    C[k * 8 + i, j] = a[i, j] * 2.0

    return main
