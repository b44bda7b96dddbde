"""Softmax over the last dimension of x[M, N]; a block owns whole rows."""
import tilelang
import tilelang.language as T


@tilelang.jit
def softmax(x, dtype=T.float32, block_M=1, threads=128):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), dtype)
    out = T.empty((M, N), dtype)
    log2_e = 1.4426950408889634
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
        rows = T.alloc_fragment((block_M, N), T.float32)
        row_max = T.alloc_fragment((block_M,), T.float32)
        row_sum = T.alloc_fragment((block_M,), T.float32)
        T.copy(x[bx * block_M, 0], rows)
        T.reduce_max(rows, row_max, dim=1)
        for i, j in T.Parallel(block_M, N):
            rows[i, j] = T.exp2((rows[i, j] - row_max[i]) * log2_e)
        T.reduce_sum(rows, row_sum, dim=1)
        for i in T.Parallel(block_M):
            row_sum[i] = 1.0 / row_sum[i]
        for i, j in T.Parallel(block_M, N):
            rows[i, j] = rows[i, j] * row_sum[i]
        T.copy(rows, out[bx * block_M, 0])
    return out
