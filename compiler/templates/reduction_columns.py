"""Column sums: out[n] = sum over m of x[m, n], accumulated in float32; blocks share the rows."""
import tilelang
import tilelang.language as T


@tilelang.jit
def colsum(x, dtype=T.float32, block_M=8, block_N=512, split=64, threads=128):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), dtype)
    out = T.empty((N,), T.float32)
    rows = T.ceildiv(T.ceildiv(M, split), block_M) * block_M
    partial = T.alloc_global((split, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), split, threads=threads) as (bx, by):
        tile = T.alloc_fragment((block_M, block_N), dtype)
        sums = T.alloc_fragment((block_N,), T.float32)
        T.clear(sums)
        for k in T.serial(rows // block_M):
            T.copy(x[by * rows + k * block_M, bx * block_N], tile)
            T.reduce_sum(tile, sums, dim=0, clear=False)
        T.copy(sums, partial[by, bx * block_N:(bx + 1) * block_N])
    with T.Kernel(T.ceildiv(N, threads), threads=threads) as bx:
        total = T.alloc_fragment((threads,), T.float32)
        T.clear(total)
        for s in T.serial(split):
            for j in T.Parallel(threads):
                total[j] += partial[s, bx * threads + j]
        T.copy(total, out[bx * threads])
    return out
