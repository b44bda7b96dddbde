"""Rows reduced: out[m] = op over n of x[m, n], in float32."""
import tilelang
import tilelang.language as T


@tilelang.jit
def reduce_rows(x, dtype=T.float32, op="sum", block_M=4, block_N=1024, threads=128):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), dtype)
    out = T.empty((M,), T.float32)
    assert op in ("sum", "mean", "max", "min", "abssum", "absmax"), f"no reduction is called {op}"
    kind = "sum" if op == "mean" else op
    start = {"max": -T.infinity(T.float32), "min": T.infinity(T.float32)}.get(op, 0.0)
    picks = op in ("max", "min")  # what is beyond the tensor reads as 0, and must not be picked
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
        tile = T.alloc_fragment((block_M, block_N), T.float32 if picks else dtype)
        found = T.alloc_fragment((block_M,), T.float32)
        T.fill(found, start)
        for k in T.serial(T.ceildiv(N, block_N)):
            T.copy(x[bx * block_M, k * block_N], tile)
            if picks:
                if (k + 1) * block_N > N:
                    for i, j in T.Parallel(block_M, block_N):
                        tile[i, j] = T.if_then_else(k * block_N + j < N, tile[i, j], start)
            T.reduce(tile, found, kind, dim=1, clear=False)
        if op == "mean":
            for i in T.Parallel(block_M):
                found[i] /= N
        T.copy(found, out[bx * block_M])
    return out
