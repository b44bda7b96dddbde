"""Dropout whose mask is a hash of the element's number: 32-bit integers that wrap around."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "dropout",
    "arguments": {"M": 9, "N": 70, "keep": 0.75},
    "runtime": {"seed": 12345},
    "types": {"x": "float16", "y": "float16", "mask": "bool"},
    "tolerance": {"y": 2e-3, "mask": 0},
}


def mix(h):
    h = h ^ (h >> T.uint32(16))
    h = h * T.uint32(0x7FEB352D)
    h = h ^ (h >> T.uint32(15))
    h = h * T.uint32(0x846CA68B)
    return h ^ (h >> T.uint32(16))


@tilelang.jit(out_idx=[1, 3])
def dropout(M, N, keep, block=128):
    limit = int(keep * (1 << 24))

    @T.prim_func
    def main(x: T.Tensor((M, N), T.float16), y: T.Tensor((M, N), T.float16), seed: T.uint32,
             mask: T.Tensor((M, N), T.bool)):
        with T.Kernel(M, T.ceildiv(N, block), threads=128) as (m, bn):
            for j in T.Parallel(block):
                n = bn * block + j
                if n < N:
                    bits = mix(T.cast(m * N + n, T.uint32) + seed)
                    kept = (bits >> T.uint32(8)) < T.uint32(limit)
                    mask[m, n] = kept
                    y[m, n] = T.if_then_else(kept, x[m, n] * (1 / keep), 0)

    return main


def inputs(rng):
    return {"x": rng.standard_normal((9, 70))}


def reference(x):
    h = (np.arange(630, dtype=np.uint64) + 12345) & 0xFFFFFFFF
    h ^= h >> 16
    h = h * 0x7FEB352D & 0xFFFFFFFF
    h ^= h >> 15
    h = h * 0x846CA68B & 0xFFFFFFFF
    h ^= h >> 16
    kept = ((h >> 8) < int(0.75 * (1 << 24))).reshape(9, 70)
    return {"y": np.where(kept, x / 0.75, 0), "mask": kept.astype(np.int64)}
