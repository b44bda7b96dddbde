"""Columns reduced: out[n] = op over m of x[m, n], in float32; blocks share the rows."""
import tilelang
import tilelang.language as T


@tilelang.jit
def reduce_columns(x, dtype=T.float32, op="sum", block_M=8, block_N=512, split=64, threads=128):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), dtype)
    out = T.empty((N,), T.float32)
    assert op in ("sum", "mean", "max", "min", "abssum", "absmax"), f"no reduction is called {op}"
    kind = "sum" if op == "mean" else op
    start = {"max": -T.infinity(T.float32), "min": T.infinity(T.float32)}.get(op, 0.0)
    picks = op in ("max", "min")  # what is beyond the tensor reads as 0, and must not be picked
    rows = T.ceildiv(T.ceildiv(M, split), block_M) * block_M
    partial = T.alloc_global((split, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), split, threads=threads) as (bx, by):
        tile = T.alloc_fragment((block_M, block_N), T.float32 if picks else dtype)
        found = T.alloc_fragment((block_N,), T.float32)
        T.fill(found, start)
        for k in T.serial(rows // block_M):
            T.copy(x[by * rows + k * block_M, bx * block_N], tile)
            if picks:
                first = by * rows + k * block_M
                if first + block_M > M:
                    for i, j in T.Parallel(block_M, block_N):
                        tile[i, j] = T.if_then_else(first + i < M, tile[i, j], start)
            T.reduce(tile, found, kind, dim=0, clear=False)
        T.copy(found, partial[by, bx * block_N:(bx + 1) * block_N])
    with T.Kernel(T.ceildiv(N, threads), threads=threads) as bx:
        total = T.alloc_fragment((threads,), T.float32)
        T.fill(total, start)
        for s in T.serial(split):
            for j in T.Parallel(threads):
                if op == "max" or op == "absmax":
                    total[j] = T.max(total[j], partial[s, bx * threads + j])
                elif op == "min":
                    total[j] = T.min(total[j], partial[s, bx * threads + j])
                else:
                    total[j] += partial[s, bx * threads + j]
        if op == "mean":
            for j in T.Parallel(threads):
                total[j] /= M
        T.copy(total, out[bx * threads])
    return out
