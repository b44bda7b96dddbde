"""Counts of values by bin, in shared memory first; the bins' edges found by halving; extremes by atomic updates."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "histogram",
    "arguments": {"n": 900, "bins": 20},
    "types": {"x": "float32", "edges": "float32", "counts": "int32", "low": "int32", "high": "int32"},
}


@tilelang.jit
def histogram(x, edges, counts, low, high, block=256):
    n, bins = T.const("n, bins")
    x: T.Tensor((n,), T.float32)
    edges: T.Tensor((bins + 1,), T.float32)
    counts: T.Tensor((bins,), T.int32)
    low: T.Tensor((1,), T.int32)
    high: T.Tensor((1,), T.int32)

    with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
        local = T.alloc_shared((bins,), T.int32)
        bin_of = T.alloc_fragment((block,), T.int32)
        first = T.alloc_fragment((block,), T.int32)
        last = T.alloc_fragment((block,), T.int32)
        T.clear(local)
        T.clear(first)
        T.fill(last, bins)
        for _ in T.serial(5):  # 2^5 > bins
            for i in T.Parallel(block):
                middle = (first[i] + last[i]) // 2
                value = T.if_then_else(bx * block + i < n, x[bx * block + i], edges[0])
                right = value >= edges[middle]
                first[i] = T.if_then_else(right, middle, first[i])
                last[i] = T.if_then_else(right, last[i], middle)
        for i in T.Parallel(block):
            bin_of[i] = T.if_then_else(bx * block + i < n, first[i], -1)
        for i in T.Parallel(block):
            if bin_of[i] >= 0:
                T.atomic_add(local[bin_of[i]], 1)
                T.atomic_min(low[0], bin_of[i])
                T.atomic_max(high[0], bin_of[i])
        for b in T.Parallel(bins):
            if local[b] > 0:
                T.atomic_add(counts[b], local[b])


def inputs(rng):
    return {"x": rng.uniform(1, 18, 900), "edges": np.arange(21), "counts": np.zeros(20), "low": np.array([99]),
            "high": np.array([-1])}


def reference(x, edges, counts, low, high):
    bins = x.astype(np.int64)
    return {"counts": np.bincount(bins, minlength=20), "low": bins.min(keepdims=True),
            "high": bins.max(keepdims=True)}
