"""Sums, extremes and sizes over each axis of a block of three dimensions, into results with and without the axis, and
on from a value that is there; 96 threads."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "reductions",
    "arguments": {"A": 6, "B": 10, "C": 12},
    "types": {"x": "float32", "total": "float32", "low": "float32", "size": "float32", "whole": "float32",
              "start": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit
def reductions(x, start):
    A, B, C = T.const("A, B, C")
    x: T.Tensor((A, B, C), T.float32)
    start: T.Tensor((A, C), T.float32)
    total = T.empty((A, C), T.float32)
    low = T.empty((B, C), T.float32)
    size = T.empty((A, B), T.float32)
    whole = T.empty((2,), T.float32)

    with T.Kernel(1, threads=96):
        held = T.alloc_fragment((A, B, C), T.float32)
        middle = T.alloc_fragment((A, C), T.float32)
        first = T.alloc_fragment((B, C), T.float32)
        last = T.alloc_fragment((A, B, 1), T.float32)
        rows = T.alloc_fragment((A,), T.float32)
        one = T.alloc_fragment((1,), T.float32)
        shared = T.alloc_shared((A, C), T.float32)
        T.copy(x, held)
        T.copy(start, middle)
        T.reduce_sum(held, middle, dim=1, clear=False)
        T.reduce_min(held, first, dim=0)
        T.reduce_absmax(held, last, dim=-1)
        T.copy(middle, total)
        T.copy(middle, shared)
        T.copy(first, low)
        for a, b in T.Parallel(A, B):
            size[a, b] = last[a, b, 0]
        T.reduce_abssum(middle, rows, dim=1)
        T.reduce_max(rows, one, dim=0)
        whole[0] = one[0]
        T.fill(one, -1.0)
        T.reduce_max(rows, one, dim=0, clear=False)
        whole[1] = one[0] - shared[A - 1, C - 1]
    return total, low, size, whole


def inputs(rng):
    return {"x": rng.standard_normal((6, 10, 12)), "start": rng.standard_normal((6, 12))}


def reference(x, start):
    total = start + x.sum(1)
    most = np.abs(total).sum(1).max()
    return {"total": total, "low": x.min(0), "size": np.abs(x).max(2),
            "whole": np.array([most, most - total[-1, -1]])}
