"""RMSNorm over the last dimension: out = x * rsqrt(mean(x^2) + eps) * weight."""
import tilelang
import tilelang.language as T


@tilelang.jit
def rmsnorm(x, weight, eps=1e-6, dtype=T.float32, block_M=1, threads=128):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), dtype)
    weight: T.Tensor((N,), dtype)
    out = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
        rows = T.alloc_fragment((block_M, N), T.float32)
        squares = T.alloc_fragment((block_M, N), T.float32)
        scale = T.alloc_fragment((block_M,), T.float32)
        T.copy(x[bx * block_M, 0], rows)
        for i, j in T.Parallel(block_M, N):
            squares[i, j] = rows[i, j] * rows[i, j]
        T.reduce_sum(squares, scale, dim=1)
        for i in T.Parallel(block_M):
            scale[i] = T.rsqrt(scale[i] / N + eps)
        for i, j in T.Parallel(block_M, N):
            rows[i, j] = rows[i, j] * scale[i] * T.cast(weight[j], T.float32)
        T.copy(rows, out[bx * block_M, 0])
    return out
