"""Where elements of four bits may be stored: by a thread in runs of its own, in pairs of lanes, one by one in a
shared tile, in a part of one that begins at an odd place."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "places",
    "arguments": {},
    "types": {"a": "int4", "turned": "int4", "tripled": "int4", "wide": "int32", "triangle": "uint4"},
}


@tilelang.jit
def places(a, N: int = 512):
    a: T.Tensor((N,), T.int4)
    turned = T.empty((N,), T.int4)
    tripled = T.empty((N,), T.int4)
    wide = T.empty((N,), T.int32)
    triangle = T.empty((16, 8), T.uint4)
    with T.Kernel(N // 256, threads=32) as b:
        tx = T.get_thread_binding(0)
        at = b * 256 + tx * 8
        for k in T.serial(8):
            turned[at + k] = a[at + 7 - k] + 1
        for p in T.unroll(4):
            pair = T.Ramp(at + 2 * p, 1, 2)
            tripled[pair] = a[pair] * 3
        for k in T.vectorized(8):
            wide[at + k] = -a[at + k]
    with T.Kernel(2, threads=32) as b:
        tile = T.alloc_shared((8, 8), T.uint4)
        T.clear(tile)
        for i in T.serial(8):
            for j in T.serial(i + 1):
                tile[i, j] = i + j
        T.fill(tile[2:4, 2:6], 9)
        for i in T.serial(2):
            tile[6 + i, 3] = b + 4
        T.copy(tile, triangle[b * 8:b * 8 + 8, :])
    return turned, tripled, wide, triangle


def inputs(rng):
    return {"a": rng.integers(-8, 8, 512)}


def reference(a):
    def wrapped(x):
        return (x + 8) % 16 - 8

    i, j = np.arange(8)[:, None], np.arange(8)
    triangle = np.tile(np.where(j <= i, i + j, 0) & 15, (2, 1))
    for b in range(2):
        triangle[8 * b + 2:8 * b + 4, 2:6] = 9
        triangle[8 * b + 6:8 * b + 8, 3] = b + 4
    return {"turned": wrapped(a.reshape(-1, 8)[:, ::-1].reshape(-1) + 1), "tripled": wrapped(a * 3), "wide": -a,
            "triangle": triangle}
