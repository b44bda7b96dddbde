"""All elements reduced: out[0] = op over n of x[n], in float32, in two launches."""
import tilelang
import tilelang.language as T


@tilelang.jit
def reduce_all(x, dtype=T.float32, op="sum", block=8192, threads=256):
    N = T.const("N")
    x: T.Tensor((N,), dtype)
    out = T.empty((1,), T.float32)
    assert op in ("sum", "mean", "max", "min", "abssum", "absmax"), f"no reduction is called {op}"
    kind = "sum" if op == "mean" else op
    start = {"max": -T.infinity(T.float32), "min": T.infinity(T.float32)}.get(op, 0.0)
    picks = op in ("max", "min")  # what is beyond the tensor reads as 0, and must not be picked
    blocks = T.ceildiv(N, block)
    partial = T.alloc_global((blocks,), T.float32)
    with T.Kernel(blocks, threads=threads) as bx:
        tile = T.alloc_fragment((1, block), T.float32 if picks else dtype)
        found = T.alloc_fragment((1,), T.float32)
        T.copy(x[bx * block:(bx + 1) * block], tile[0, :])
        if picks:
            if (bx + 1) * block > N:
                for j in T.Parallel(block):
                    tile[0, j] = T.if_then_else(bx * block + j < N, tile[0, j], start)
        T.reduce(tile, found, kind, dim=1, clear=True)
        T.copy(found, partial[bx:bx + 1])
    with T.Kernel(1, threads=threads) as bx:
        tile = T.alloc_fragment((1, 1024), T.float32)
        found = T.alloc_fragment((1,), T.float32)
        T.fill(found, start)
        for k in T.serial(T.ceildiv(blocks, 1024)):
            T.copy(partial[k * 1024:(k + 1) * 1024], tile[0, :])
            if picks:
                if (k + 1) * 1024 > blocks:
                    for j in T.Parallel(1024):
                        tile[0, j] = T.if_then_else(k * 1024 + j < blocks, tile[0, j], start)
            T.reduce(tile, found, kind, dim=1, clear=False)
        if op == "mean":
            found[0] /= N
        T.copy(found, out)
    return out
