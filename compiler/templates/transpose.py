"""out[n, m] = x[m, n]: a tile at a time through shared memory, rows in and rows out."""
import tilelang
import tilelang.language as T


@tilelang.jit
def transpose(x, dtype=T.float32, block_M=64, block_N=64, pad=None, threads=256):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), dtype)
    out = T.empty((N, M), dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        # Rows padded by eight bytes, or as told: a column is read from different banks, and rows are
        # still written eight bytes at a time.
        padding = 64 // T.dtype(dtype).bits if pad is None else pad
        tile = T.alloc_shared((block_M, block_N + padding), dtype)
        turned = T.alloc_fragment((block_N, block_M), dtype)
        T.copy(x[by * block_M:(by + 1) * block_M, bx * block_N:(bx + 1) * block_N],
               tile[0:block_M, 0:block_N])
        for j, i in T.Parallel(block_N, block_M):
            turned[j, i] = tile[i, j]
        T.copy(turned, out[bx * block_N, by * block_M])
    return out
