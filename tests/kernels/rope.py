"""Rotary positions: halves of each head rotate by an angle of the token and the lane; in place, and with heads that
share a table."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "rope",
    "arguments": {"batch": 2, "seq": 19, "heads": 3, "dim": 32},
    "types": {"x": "bfloat16", "positions": "int32"},
    "tolerance": 1e-2,
}


@tilelang.jit
def rope(x, positions, base: float = 10000.0, block=8):
    batch, seq, heads, dim = T.const("batch, seq, heads, dim")
    half = dim // 2
    x: T.Tensor((batch, seq, heads, dim), T.bfloat16)
    positions: T.Tensor((batch, seq), T.int32)
    step = -2.0 / dim

    with T.Kernel(T.ceildiv(seq, block), heads, batch, threads=64) as (bs, h, b):
        tile = T.alloc_shared((block, dim), T.bfloat16)
        T.copy(x[b, bs * block:(bs + 1) * block, h, :], tile)
        for i, j in T.Parallel(block, half):
            s = bs * block + i
            angle = T.cast(positions[b, s], T.float32) * T.pow(base, T.cast(j, T.float32) * step)
            lo, hi = T.cast(tile[i, j], T.float32), T.cast(tile[i, j + half], T.float32)
            if s < seq:
                x[b, s, h, j] = lo * T.cos(angle) - hi * T.sin(angle)
                x[b, s, h, j + half] = hi * T.cos(angle) + lo * T.sin(angle)


def inputs(rng):
    return {"x": rng.standard_normal((2, 19, 3, 32)), "positions": rng.integers(0, 40, (2, 19))}


def reference(x, positions):
    angle = positions[:, :, None, None] * 10000.0 ** (-np.arange(16) / 16)
    lo, hi = x[..., :16], x[..., 16:]
    return {"x": np.concatenate([lo * np.cos(angle) - hi * np.sin(angle),
                                 hi * np.cos(angle) + lo * np.sin(angle)], -1)}
