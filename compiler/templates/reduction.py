"""Row sums: out[m] = sum over n of x[m, n], accumulated in float32."""
import tilelang
import tilelang.language as T


@tilelang.jit
def rowsum(x, dtype=T.float32, block_M=4, block_N=1024, threads=128):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), dtype)
    out = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
        tile = T.alloc_fragment((block_M, block_N), dtype)
        partial = T.alloc_fragment((block_M,), T.float32)
        T.clear(partial)
        for k in T.serial(T.ceildiv(N, block_N)):
            T.copy(x[bx * block_M, k * block_N], tile)
            T.reduce_sum(tile, partial, dim=1, clear=False)
        T.copy(partial, out[bx * block_M])
    return out
