"""Five points of a grid, several steps in one block: two shared tiles with a rim change places by parity."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "heat",
    "arguments": {"H": 30, "W": 22, "steps": 3, "tile": 16},
    "types": {"u": "float32", "v": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit
def heat(u, steps, tile, rate: float = 0.2):
    H, W = T.const("H, W")
    u: T.Tensor((H, W), T.float32)
    v = T.empty((H, W), T.float32)
    wide = tile + 2 * steps

    with T.Kernel(T.ceildiv(W, tile), T.ceildiv(H, tile), threads=128) as (bx, by):
        both = T.alloc_shared((2, wide, wide), T.float32)
        for i, j in T.Parallel(wide, wide):
            y = T.clamp(by * tile + i - steps, 0, H - 1)
            x = T.clamp(bx * tile + j - steps, 0, W - 1)
            both[0, i, j] = u[y, x]
        for s in T.serial(steps):
            for i, j in T.Parallel(wide, wide):
                y, x = by * tile + i - steps, bx * tile + j - steps
                up = T.max(i - T.if_then_else(y > 0, 1, 0), 0)
                down = T.min(i + T.if_then_else(y < H - 1, 1, 0), wide - 1)
                left = T.max(j - T.if_then_else(x > 0, 1, 0), 0)
                right = T.min(j + T.if_then_else(x < W - 1, 1, 0), wide - 1)
                here = both[s % 2, i, j]
                around = (both[s % 2, up, j] + both[s % 2, down, j] + both[s % 2, i, left]
                          + both[s % 2, i, right])
                both[(s + 1) % 2, i, j] = here + rate * (around - 4 * here)
        for i, j in T.Parallel(tile, tile):
            if by * tile + i < H and bx * tile + j < W:
                v[by * tile + i, bx * tile + j] = both[steps % 2, i + steps, j + steps]
    return v


def inputs(rng):
    return {"u": rng.standard_normal((30, 22))}


def reference(u):
    for _ in range(3):
        p = np.pad(u, 1, mode="edge")
        u = u + 0.2 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u)
    return {"v": u}
