"""The sum of all elements: out[0] = sum of x, accumulated in float32, in two launches."""
import tilelang
import tilelang.language as T


@tilelang.jit
def total(x, dtype=T.float32, block=8192, threads=256):
    N = T.const("N")
    x: T.Tensor((N,), dtype)
    out = T.empty((1,), T.float32)
    blocks = T.ceildiv(N, block)
    partial = T.alloc_global((blocks,), T.float32)
    with T.Kernel(blocks, threads=threads) as bx:
        tile = T.alloc_fragment((1, block), dtype)
        sums = T.alloc_fragment((1,), T.float32)
        T.copy(x[bx * block:(bx + 1) * block], tile[0, :])
        T.reduce_sum(tile, sums, dim=1)
        T.copy(sums, partial[bx:bx + 1])
    with T.Kernel(1, threads=threads) as bx:
        tile = T.alloc_fragment((1, 1024), T.float32)
        sums = T.alloc_fragment((1,), T.float32)
        T.clear(sums)
        for k in T.serial(T.ceildiv(blocks, 1024)):
            T.copy(partial[k * 1024:(k + 1) * 1024], tile[0, :])
            T.reduce_sum(tile, sums, dim=1, clear=False)
        T.copy(sums, out)
    return out
