#: M=96 N=96
"""A transposition whose registers only arithmetic on all threads shows to be the same in each."""
import tilelang
import tilelang.language as T


@tilelang.jit
def transposed(M, N):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), B: T.Tensor((N, M), "float16")):
        with T.Kernel(1, threads=384) as bx:
            tile = T.alloc_shared((M, N + 1), "float16")
            turned = T.alloc_fragment((N, M), "float16")
            T.copy(A[0:M, 0:N], tile[0:M, 0:N])
            for j, i in T.Parallel(N, M):
                turned[j, i] = tile[i, j]
            T.copy(turned, B[0, 0])

    return main
