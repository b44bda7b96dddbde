#: M=100 N=64
"""Copies into a tile and out of a fragment: neighbours are written out, guards stay."""
import tilelang
import tilelang.language as T


@tilelang.jit
def scaled(M, N):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, 32), threads=64) as bx:
            tile = T.alloc_shared((32, N), "float16")
            out = T.alloc_fragment((32, N), "float32")
            T.copy(A[bx * 32, 0], tile)
            for i, j in T.Parallel(32, N):
                out[i, j] = tile[i, j] * 2.0
            T.copy(out, B[bx * 32, 0])

    return main
