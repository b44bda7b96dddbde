"""Softmax over the last dimension of x[M, N]; a block owns whole rows."""
import tilelang
import tilelang.language as T

HELD = 32768  # longer rows do not fit a block's registers: they are read twice, block_N columns a step


@tilelang.jit
def softmax(x, dtype=T.float32, block_M=1, block_N=4096, threads=128):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), dtype)
    out = T.empty((M, N), dtype)
    log2_e = 1.4426950408889634
    held = N <= HELD
    width = N if held else block_N
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
        rows = T.alloc_fragment((block_M, width), T.float32)
        row_max = T.alloc_fragment((block_M,), T.float32)
        row_sum = T.alloc_fragment((block_M,), T.float32)
        if held:
            T.copy(x[bx * block_M, 0], rows)
            T.reduce_max(rows, row_max, dim=1)
            for i, j in T.Parallel(block_M, N):
                rows[i, j] = T.exp2((rows[i, j] - row_max[i]) * log2_e)
            T.reduce_sum(rows, row_sum, dim=1)
        else:
            last_max = T.alloc_fragment((block_M,), T.float32)
            part_sum = T.alloc_fragment((block_M,), T.float32)
            T.fill(row_max, -3.4028234663852886e38)  # finite: of a part of -inf alone comes no NaN
            T.clear(row_sum)
            for k in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(block_M, block_N):
                    rows[i, j] = T.if_then_else(
                        k * block_N + j < N,
                        T.cast(x[bx * block_M + i, k * block_N + j], T.float32),
                        -T.infinity(T.float32))
                T.copy(row_max, last_max)
                T.reduce_max(rows, row_max, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    rows[i, j] = T.exp2((rows[i, j] - row_max[i]) * log2_e)
                T.reduce_sum(rows, part_sum, dim=1)
                for i in T.Parallel(block_M):
                    row_sum[i] = (row_sum[i] * T.exp2((last_max[i] - row_max[i]) * log2_e)
                                  + part_sum[i])
        for i in T.Parallel(block_M):
            row_sum[i] = 1.0 / row_sum[i]
        if held:
            for i, j in T.Parallel(block_M, N):
                rows[i, j] = rows[i, j] * row_sum[i]
            T.copy(rows, out[bx * block_M, 0])
        else:
            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(x[bx * block_M, k * block_N], rows)
                for i, j in T.Parallel(block_M, block_N):
                    rows[i, j] = T.exp2((rows[i, j] - row_max[i]) * log2_e) * row_sum[i]
                T.copy(rows, out[bx * block_M, k * block_N])
    return out
