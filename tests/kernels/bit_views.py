"""One memory under two types: bytes of a word shuffled, the sign bit of halves cleared, rows seen as pairs of rows."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "views",
    "arguments": {"M": 16, "N": 32},
    "types": {"words": "uint32", "halves": "float16", "swapped": "uint8", "sizes": "float16", "pairs": "float16"},
}


@tilelang.jit
def views(words, halves):
    M, N = T.const("M, N")
    words: T.Tensor((M, N // 4), T.uint32)
    halves: T.Tensor((M, N), T.float16)
    swapped = T.empty((M, N), T.uint8)
    sizes = T.empty((M, N), T.float16)
    pairs = T.empty((M // 2,), T.float16)

    with T.Kernel(1, threads=64):
        raw = T.alloc_shared((M, N // 4), T.uint32)
        as_bytes = T.view(raw, (M, N), T.uint8)
        T.copy(words, raw)
        for i, j in T.Parallel(M, N):
            swapped[i, j] = as_bytes[i, j // 4 * 4 + 3 - j % 4]

        tile = T.alloc_shared((M, N), T.float16)
        as_bits = T.view(tile, (M, N), T.uint16)
        T.copy(halves, tile)
        for i, j in T.Parallel(M, N):
            as_bits[i, j] = as_bits[i, j] & T.uint16(0x7FFF)
        T.copy(tile, sizes)

        held = T.alloc_fragment((M, N), T.float16)
        by_pair = T.reshape(held, (M // 2, 2 * N))
        best = T.alloc_fragment((M // 2,), T.float16)
        T.copy(tile, held)
        T.reduce_max(by_pair, best, dim=1)
        T.copy(best, pairs)
    return swapped, sizes, pairs


def inputs(rng):
    return {"words": rng.integers(0, 1 << 32, (16, 8)), "halves": rng.standard_normal((16, 32))}


def reference(words, halves):
    shifts = np.array([24, 16, 8, 0])
    return {"swapped": ((words[:, :, None] >> shifts) & 255).reshape(16, 32), "sizes": np.abs(halves),
            "pairs": np.abs(halves).reshape(8, 64).max(1)}
