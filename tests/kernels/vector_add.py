"""Sums by hand: four neighbours an iteration through a local array, vectorised loops on both sides, a scalar tail."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "axpy",
    "arguments": {"n": 1030, "alpha": 3},
    "types": {"x": "float16", "y": "float16", "z": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit(out_idx=[2])
def axpy(n, alpha, block=256, lanes=4):
    whole = n // lanes * lanes

    @T.prim_func
    def main(x: T.Tensor((n,), T.float16), y: T.Tensor((n,), T.float16), z: T.Tensor((n,), T.float16)):
        with T.Kernel(T.ceildiv(n, block * lanes), threads=block) as bx:
            for t in T.Parallel(block):
                a = T.alloc_local((lanes,), T.float16)
                b = T.alloc_local((lanes,), T.float16)
                at = (bx * block + t) * lanes
                if at + lanes <= n:
                    for v in T.vectorized(lanes):
                        a[v] = x[at + v]
                        b[v] = y[at + v]
                    for v in T.unroll(lanes):
                        a[v] = a[v] * T.float16(alpha) + b[v]
                    for v in T.vectorized(lanes):
                        z[at + v] = a[v]
            if bx == 0 and whole < n:
                for v in T.serial(n - whole):
                    z[whole + v] = x[whole + v] * T.float16(alpha) + y[whole + v]

    return main


def inputs(rng):
    return {"x": rng.standard_normal(1030), "y": rng.standard_normal(1030)}


def reference(x, y):
    return {"z": 3 * x + y}
