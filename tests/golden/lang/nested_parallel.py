"""Parallel loops in parallel loops: with a serial loop between, with lanes inside, into a reducer."""
#: M=16 N=24
import tilelang
import tilelang.language as T


@tilelang.jit
def nested(M, N):
    @T.prim_func
    def main(a: T.Tensor((M, N), "float32"), b: T.Tensor((M, N), "float32"),
             c: T.Tensor((M, N), "float32"), d: T.Tensor((M, N), "float32"),
             total: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            column = T.alloc_reducer((N,), "float32")
            for i in T.Parallel(M):
                for j in T.Parallel(N):
                    b[i, j] = a[i, j] * 2.0
            for i in T.Parallel(M):
                for k in T.serial(2):
                    for j in T.Parallel(N // 2):
                        c[i, k * (N // 2) + j] = a[i, k * (N // 2) + j] + 1.0
            for i in T.Parallel(M):
                for v in T.vectorized(8):
                    d[i, v] = a[i, v] - 1.0
            for i, j in T.Parallel(M, N - 8):
                d[i, 8 + j] = a[i, 8 + j]
            for i in T.Parallel(M):
                for j in T.Parallel(N):
                    column[j] += a[i, j]
            T.finalize_reducer(column)
            T.copy(column, total)

    return main
