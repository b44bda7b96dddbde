#:
"""Only the run knows how far parallel loops go: turns of 64 threads, and of 16 beside an axis of 4."""
import tilelang
import tilelang.language as T


@T.prim_func
def cut(A: T.Tensor((256,), T.int32), B: T.Tensor((4, 256), T.int32), n: T.int32):
    with T.Kernel(2, threads=64) as b:
        for i in T.Parallel(A[b]):
            A[i] = i
        for i, j in T.Parallel(4, n):
            B[i, j] = A[j] + i
        for i, j, k in T.Parallel(n, 4, A[0] // 2):
            B[j, i + k * n] = k
        for i in T.Parallel(64):
            A[i] = 0
