"""RMSNorm over the last dimension: out = x * rsqrt(mean(x^2) + eps) * weight."""
import tilelang
import tilelang.language as T

HELD = 32768  # longer rows do not fit a block's registers: they are read twice, block_N columns a step


@tilelang.jit
def rmsnorm(x, weight, eps=1e-6, dtype=T.float32, block_M=1, block_N=4096, threads=128):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), dtype)
    weight: T.Tensor((N,), dtype)
    out = T.empty((M, N), dtype)
    held = N <= HELD
    width = N if held else block_N
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
        rows = T.alloc_fragment((block_M, width), T.float32)
        squares = T.alloc_fragment((block_M, width), T.float32)
        scale = T.alloc_fragment((block_M,), T.float32)
        if held:
            T.copy(x[bx * block_M, 0], rows)
            for i, j in T.Parallel(block_M, N):
                squares[i, j] = rows[i, j] * rows[i, j]
            T.reduce_sum(squares, scale, dim=1)
        else:
            T.clear(scale)
            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(x[bx * block_M, k * block_N], rows)  # zeros beyond the row
                for i, j in T.Parallel(block_M, block_N):
                    squares[i, j] = rows[i, j] * rows[i, j]
                T.reduce_sum(squares, scale, dim=1, clear=False)
        for i in T.Parallel(block_M):
            scale[i] = T.rsqrt(scale[i] / N + eps)
        if held:
            for i, j in T.Parallel(block_M, N):
                rows[i, j] = rows[i, j] * scale[i] * T.cast(weight[j], T.float32)
            T.copy(rows, out[bx * block_M, 0])
        else:
            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(x[bx * block_M, k * block_N], rows)
                for i, j in T.Parallel(block_M, block_N):
                    rows[i, j] = rows[i, j] * scale[i] * T.cast(weight[k * block_N + j], T.float32)
                T.copy(rows, out[bx * block_M, k * block_N])
    return out
