"""The Hadamard transform of rows of 2^k: products with a small matrix of signs on both sides of a tile, the signs made
from the parity of bits."""
import math

import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "hadamard",
    "arguments": {"B": 6, "N": 256},
    "types": {"x": "float16", "y": "float16"},
    "tolerance": 3e-3,
}


def is_pow_of_2(n):
    return isinstance(n, int) and n > 0 and (n & (n - 1)) == 0


@tilelang.jit(out_idx=[1])
def hadamard(B, N, threads=32):
    assert is_pow_of_2(N), "rows have a power of two elements"
    side = 1 << (int(math.log2(N)) // 2)
    other = N // side
    assert other == side or other == 2 * side

    @T.macro
    def signs(tile, n):
        for i, j in T.Parallel(n, n):
            bits = i & j
            odd = bits ^ (bits >> 4)
            odd = odd ^ (odd >> 2)
            odd = (odd ^ (odd >> 1)) & 1
            tile[i, j] = T.cast(1 - 2 * odd, T.float16)

    @T.prim_func
    def main(x: T.Tensor((B, N), T.float16), y: T.Tensor((B, N), T.float16)):
        with T.Kernel(B, threads=threads) as b:
            tile = T.alloc_shared((side, other), T.float16)
            left = T.alloc_shared((side, side), T.float16)
            right = T.alloc_shared((other, other), T.float16)
            mid = T.alloc_fragment((side, other), T.float32)
            mid_shared = T.alloc_shared((side, other), T.float16)
            out = T.alloc_fragment((side, other), T.float32)
            for i, j in T.Parallel(side, other):
                tile[i, j] = x[b, i * other + j]
            signs(left, side)
            signs(right, other)
            T.gemm(left, tile, mid, clear_accum=True)
            T.copy(mid, mid_shared)
            T.gemm(mid_shared, right, out, clear_accum=True)
            for i, j in T.Parallel(side, other):
                y[b, i * other + j] = out[i, j] * (1.0 / math.sqrt(N))

    return main


def inputs(rng):
    return {"x": rng.standard_normal((6, 256))}


def reference(x):
    h = np.ones((1, 1))
    while len(h) < 256:
        h = np.block([[h, h], [h, -h]])
    return {"y": x @ h / 16}
