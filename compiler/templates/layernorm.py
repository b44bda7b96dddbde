"""Layer normalisation: out = (x - mean) / sqrt(variance + eps) * weight + bias, row by row."""
import tilelang
import tilelang.language as T

HELD = 32768  # longer rows do not fit a block's registers: they are read thrice, block_N columns a step


@tilelang.jit
def layernorm(x, weight, bias, dtype=T.float32, block_M=1, block_N=4096, threads=256, eps=1e-5):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), dtype)
    weight: T.Tensor((N,), dtype)
    bias: T.Tensor((N,), dtype)
    out = T.empty((M, N), dtype)
    held = N <= HELD
    width = N if held else block_N
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
        rows = T.alloc_fragment((block_M, width), T.float32)
        squares = T.alloc_fragment((block_M, width), T.float32)
        mean = T.alloc_fragment((block_M,), T.float32)
        inverse = T.alloc_fragment((block_M,), T.float32)
        if held:
            T.copy(x[bx * block_M, 0], rows)
            T.reduce_sum(rows, mean, dim=1)
        else:
            T.clear(mean)
            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(x[bx * block_M, k * block_N], rows)  # zeros beyond the row
                T.reduce_sum(rows, mean, dim=1, clear=False)
        for i in T.Parallel(block_M):
            mean[i] = mean[i] / N
        if held:
            for i, j in T.Parallel(block_M, N):
                rows[i, j] = rows[i, j] - mean[i]
                squares[i, j] = rows[i, j] * rows[i, j]
            T.reduce_sum(squares, inverse, dim=1)
        else:
            T.clear(inverse)
            for k in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(block_M, block_N):
                    rows[i, j] = T.if_then_else(
                        k * block_N + j < N,
                        T.cast(x[bx * block_M + i, k * block_N + j], T.float32), mean[i]) - mean[i]
                    squares[i, j] = rows[i, j] * rows[i, j]
                T.reduce_sum(squares, inverse, dim=1, clear=False)
        for i in T.Parallel(block_M):
            inverse[i] = T.rsqrt(inverse[i] / N + eps)
        if held:
            for i, j in T.Parallel(block_M, N):
                rows[i, j] = (rows[i, j] * inverse[i] * T.cast(weight[j], T.float32)
                              + T.cast(bias[j], T.float32))
            T.copy(rows, out[bx * block_M, 0])
        else:
            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(x[bx * block_M, k * block_N], rows)
                for i, j in T.Parallel(block_M, block_N):
                    rows[i, j] = ((rows[i, j] - mean[i]) * inverse[i]
                                  * T.cast(weight[k * block_N + j], T.float32)
                                  + T.cast(bias[k * block_N + j], T.float32))
                T.copy(rows, out[bx * block_M, k * block_N])
    return out
