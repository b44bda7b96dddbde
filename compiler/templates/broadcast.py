"""out[m, n] = x[m, n] * row[n] + column[m]: elementwise with operands of one dimension."""
import tilelang
import tilelang.language as T


@tilelang.jit
def broadcast(x, row, column, dtype=T.float32, block_M=1, block_N=1024, threads=128):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), dtype)
    row: T.Tensor((N,), dtype)
    column: T.Tensor((M,), dtype)
    out = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        for i, j in T.Parallel(block_M, block_N):
            value = T.cast(x[by * block_M + i, bx * block_N + j], T.float32)
            out[by * block_M + i, bx * block_N + j] = T.cast(
                value * T.cast(row[bx * block_N + j], T.float32)
                + T.cast(column[by * block_M + i], T.float32), dtype)
    return out
