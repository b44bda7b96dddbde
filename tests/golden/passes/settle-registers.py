#: M=96 N=96
#: M=3 N=50 rows=True
"""Registers that only arithmetic on all threads shows: those of a transposition, the same in each thread, and of a
row's maximum, where a step of the threads ends one row and begins the next."""
import tilelang
import tilelang.language as T


@tilelang.jit
def transposed(M, N, rows=False):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), B: T.Tensor((N, M), "float16")):
        with T.Kernel(1, threads=384) as bx:
            tile = T.alloc_shared((M, N + 1), "float16")
            turned = T.alloc_fragment((N, M), "float16")
            T.copy(A[0:M, 0:N], tile[0:M, 0:N])
            for j, i in T.Parallel(N, M):
                turned[j, i] = tile[i, j]
            T.copy(turned, B[0, 0])

    @T.prim_func
    def centred(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=32) as bx:
            tile = T.alloc_fragment((M, N), "float32")
            most = T.alloc_fragment((M,), "float32")
            T.copy(A[0:M, 0:N], tile)
            T.reduce_max(tile, most, dim=1)
            for i, j in T.Parallel(M, N):
                tile[i, j] = tile[i, j] - most[i]
            T.copy(tile, B[0, 0])

    return centred if rows else main
