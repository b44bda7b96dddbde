"""The nearest of some centres for each point: distances from a product, the smallest and its place kept over tiles of
centres; counts by atomic adds, the largest distance by an atomic maximum."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "assign",
    "arguments": {"points": 70, "centres": 40, "dim": 32},
    "types": {"x": "float32", "c": "float32", "nearest": "int32", "distance": "float32", "counts": "int32",
              "furthest": "float32"},
    "tolerance": {"nearest": 0, "distance": 1e-4, "counts": 0, "furthest": 1e-4},
}


@tilelang.jit
def assign(x, c, counts, furthest, block_P=32, block_C=16):
    points, centres, dim = T.const("points, centres, dim")
    x: T.Tensor((points, dim), T.float32)
    c: T.Tensor((centres, dim), T.float32)
    counts: T.Tensor((centres,), T.int32)
    furthest: T.Tensor((1,), T.float32)
    nearest = T.empty((points,), T.int32)
    distance = T.empty((points,), T.float32)

    with T.Kernel(T.ceildiv(points, block_P), threads=64) as bp:
        xs = T.alloc_shared((block_P, dim), T.float32)
        cs = T.alloc_shared((block_C, dim), T.float32)
        dots = T.alloc_fragment((block_P, block_C), T.float32)
        squares_x = T.alloc_fragment((block_P, dim), T.float32)
        squares_c = T.alloc_fragment((block_C, dim), T.float32)
        norm_x = T.alloc_fragment((block_P,), T.float32)
        norm_c = T.alloc_fragment((block_C,), T.float32)
        norm_c_shared = T.alloc_shared((block_C,), T.float32)
        place = T.alloc_fragment((block_P, block_C), T.int32)
        low = T.alloc_fragment((block_P,), T.float32)
        at = T.alloc_fragment((block_P,), T.int32)
        best = T.alloc_fragment((block_P,), T.float32)
        best_at = T.alloc_fragment((block_P,), T.int32)
        T.copy(x[bp * block_P, 0], xs)
        for i, d in T.Parallel(block_P, dim):
            squares_x[i, d] = xs[i, d] * xs[i, d]
        T.reduce_sum(squares_x, norm_x, dim=1)
        T.fill(best, T.infinity(T.float32))
        T.fill(best_at, -1)
        for k in T.Pipelined(T.ceildiv(centres, block_C), num_stages=2):
            T.copy(c[k * block_C, 0], cs)
            for i, d in T.Parallel(block_C, dim):
                squares_c[i, d] = cs[i, d] * cs[i, d]
            T.reduce_sum(squares_c, norm_c, dim=1)
            T.copy(norm_c, norm_c_shared)
            T.gemm(xs, cs, dots, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_P, block_C):
                dots[i, j] = T.if_then_else(k * block_C + j < centres, norm_c_shared[j] - 2 * dots[i, j],
                                            T.infinity(T.float32))
            T.reduce_min(dots, low, dim=1)
            for i, j in T.Parallel(block_P, block_C):
                place[i, j] = T.if_then_else(dots[i, j] == low[i], k * block_C + j, centres)
            T.reduce_min(place, at, dim=1)
            for i in T.Parallel(block_P):
                better = low[i] < best[i]
                best_at[i] = T.if_then_else(better, at[i], best_at[i])
                best[i] = T.min(low[i], best[i])
        for i in T.Parallel(block_P):
            if bp * block_P + i < points:
                total = T.max(best[i] + norm_x[i], 0.0)
                nearest[bp * block_P + i] = best_at[i]
                distance[bp * block_P + i] = total
                T.atomic_add(counts[best_at[i]], 1)
                T.atomic_max(furthest[0], total)
    return nearest, distance


def inputs(rng):
    return {"x": rng.standard_normal((70, 32)), "c": rng.standard_normal((40, 32)), "counts": np.zeros(40),
            "furthest": np.zeros(1)}


def reference(x, c, counts, furthest):
    d = ((x[:, None] - c[None]) ** 2).sum(-1)
    return {"nearest": d.argmin(1), "distance": d.min(1), "counts": np.bincount(d.argmin(1), minlength=40),
            "furthest": d.min(1).max(keepdims=True)}
