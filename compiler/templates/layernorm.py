"""Layer normalisation: out = (x - mean) / sqrt(variance + eps) * weight + bias, row by row."""
import tilelang
import tilelang.language as T


@tilelang.jit
def layernorm(x, weight, bias, dtype=T.float32, block_M=1, threads=256, eps=1e-5):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), dtype)
    weight: T.Tensor((N,), dtype)
    bias: T.Tensor((N,), dtype)
    out = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
        rows = T.alloc_fragment((block_M, N), T.float32)
        squares = T.alloc_fragment((block_M, N), T.float32)
        mean = T.alloc_fragment((block_M,), T.float32)
        inverse = T.alloc_fragment((block_M,), T.float32)
        T.copy(x[bx * block_M, 0], rows)
        T.reduce_sum(rows, mean, dim=1)
        for i in T.Parallel(block_M):
            mean[i] = mean[i] / N
        for i, j in T.Parallel(block_M, N):
            rows[i, j] = rows[i, j] - mean[i]
            squares[i, j] = rows[i, j] * rows[i, j]
        T.reduce_sum(squares, inverse, dim=1)
        for i in T.Parallel(block_M):
            inverse[i] = T.rsqrt(inverse[i] / N + eps)
        for i, j in T.Parallel(block_M, N):
            rows[i, j] = rows[i, j] * inverse[i] * T.cast(weight[j], T.float32) + T.cast(bias[j], T.float32)
        T.copy(rows, out[bx * block_M, 0])
    return out
