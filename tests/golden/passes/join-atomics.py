#: M=100 N=132
#: M=64 N=130 type="float16"
"""Additions to neighbours in global memory: together where they lie at multiples of as many, alone elsewhere."""
import tilelang
import tilelang.language as T


@tilelang.jit
def scattered(M, N, type="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), type), I: T.Tensor((M,), "int32"), C: T.Tensor((M, N), type)):
        with T.Kernel(T.ceildiv(M, 8), T.ceildiv(N, 64), threads=64) as (bx, by):
            tile = T.alloc_shared((8, 64), type)
            T.copy(A[bx * 8, by * 64], tile)
            for i, j in T.Parallel(8, 64):
                T.atomic_add(C[I[bx * 8 + i], by * 64 + j], tile[i, j])
            for i, j in T.Parallel(8, 32):
                T.atomic_addx2(C[bx * 8 + i, by * 64 + j * 2], tile[i, j * 2])

    return main
