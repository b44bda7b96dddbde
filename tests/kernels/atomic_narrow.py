"""Sums, counts, extremes and flags in 8- and 16-bit types, to which many blocks add at once."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "collect",
    "arguments": {"N": 1200, "bins": 12, "block": 128},
    "types": {"keys": "int32", "values": "float32", "sums": "bfloat16", "halves": "float16", "counts": "uint8",
              "least": "int8", "most": "float16", "coarse": "float8_e5m2", "flags": "uint16"},
}


@tilelang.jit
def collect(N: int, bins: int, block: int):
    @T.prim_func
    def main(
        keys: T.Tensor((N,), T.int32),
        values: T.Tensor((N,), T.float32),
        sums: T.Tensor((bins,), T.bfloat16),
        halves: T.Tensor((bins,), T.float16),
        counts: T.Tensor((bins,), T.uint8),
        least: T.Tensor((bins,), T.int8),
        most: T.Tensor((bins,), T.float16),
        coarse: T.Tensor((bins,), T.float8_e5m2),
        flags: T.Tensor((bins,), T.uint16),
    ):
        with T.Kernel(T.ceildiv(N, block), threads=128) as b:
            for i in T.Parallel(block):
                at = b * block + i
                if at < N:
                    bin = keys[at]
                    T.atomic_add(sums[bin], T.cast(values[at], T.bfloat16))
                    T.atomic_add(halves[bin], T.cast(values[at], T.float16))
                    T.atomic_add(counts[bin], T.cast(1, T.uint8))
                    T.atomic_min(least[bin], T.cast(values[at], T.int8))
                    T.atomic_max(most[bin], T.cast(values[at], T.float16))
                    T.atomic_max(coarse[bin], T.cast(values[at], T.float8_e5m2))
                    T.atomic_or(flags[bin], T.cast(1 << (at % 16), T.uint16))

    return main


def inputs(rng):
    bins = 12
    return {"keys": rng.integers(0, bins, 1200), "values": rng.integers(-3, 4, 1200),
            "sums": np.zeros(bins), "halves": np.zeros(bins), "counts": np.full(bins, 3),
            "least": np.full(bins, 100), "most": np.full(bins, -100.0), "coarse": np.full(bins, -128.0),
            "flags": np.zeros(bins)}


def reference(keys, values, **_):
    """Sums of integers this small are exact in 8 bits of mantissa."""
    of = [values[keys == k] for k in range(12)]
    at = [np.nonzero(keys == k)[0] for k in range(12)]
    return {"sums": np.array([v.sum() for v in of]), "halves": np.array([v.sum() for v in of]),
            "counts": np.array([(3 + len(v)) % 256 for v in of]), "least": np.array([v.min() for v in of]),
            "most": np.array([v.max() for v in of]), "coarse": np.array([v.max() for v in of]),
            "flags": np.array([np.bitwise_or.reduce(1 << (i % 16)) for i in at])}
