#: M=100 N=64
"""Copies into a tile and out of a fragment, and from tile to tile: neighbours are written out, guards stay."""
import tilelang
import tilelang.language as T


@tilelang.jit
def scaled(M, N):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), B: T.Tensor((M, N), "float32"),
             C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, 32), threads=64) as bx:
            tile = T.alloc_shared((32, N), "float16")
            out = T.alloc_fragment((32, N), "float32")
            other = T.alloc_shared((32, N), "bfloat16")
            T.copy(A[bx * 32, 0], tile)
            for i, j in T.Parallel(32, N):
                out[i, j] = tile[i, j] * 2.0
            T.copy(out, B[bx * 32, 0])
            for i, j in T.Parallel(32, N):
                half = tile[i, j] * 0.5
                other[i, j] = half + 1
            for i, j in T.Parallel(32, N):
                twice = C[bx * 32 + i, j] * 2
                C[bx * 32 + i, j] = twice + 1

    return main
