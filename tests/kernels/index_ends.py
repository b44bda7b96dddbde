"""Index arithmetic at its ends: a loop from below zero to above it, and sums that stay in int32 only in the
order in which they are written."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "index_ends",
    "arguments": {"n": 90},
    "types": {"x": "int32", "y": "int32", "z": "int32", "w": "int32", "steps": "int32", "small": "int32", "negative": "int32"},
}


@tilelang.jit
def index_ends(x, y, z, w, steps, small, negative, block=64):
    n = T.const("n")
    x: T.Tensor((n,), T.int32)
    y: T.Tensor((n,), T.int32)
    z: T.Tensor((n,), T.int32)
    w: T.Tensor((n,), T.int32)
    steps: T.Tensor((14,), T.int32)
    small: T.Tensor((n,), T.int32)
    negative: T.Tensor((n,), T.int32)

    with T.Kernel(T.ceildiv(n, block), threads=64) as bx:
        for step in T.serial(-8, 6):
            steps[step + 8] = y[1] - step // 3
        for i in T.Parallel(block):
            at = bx * block + i
            if at < n:
                small[at] = T.if_then_else((y[at] - 100) + (x[at] + 1) > 8, 1, 0)
                negative[at] = T.if_then_else((z[at] - 2) + (w[at] + 1073741824) < -9, 1, 0)


def inputs(rng):
    end = 2**31 - rng.integers(2, 40, 90)
    return {"x": end, "y": rng.integers(0, 90, 90), "z": rng.integers(-30, 0, 90), "w": -end}


def reference(x, y, z, w):
    steps = y[1] - np.arange(-8, 6) // 3
    return {"steps": steps, "small": (y - 100) + (x + 1) > 8, "negative": (z - 2) + (w + 2**30) < -9}
