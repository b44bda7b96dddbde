"""Vectors written out: each thread scales eight halves that it loads as four words, adds pairs of neighbours, turns
four lanes round, and a loop over elements multiplies complex numbers with both parts in one vector."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "lanes",
    "arguments": {"N": 1024},
    "types": {"h": "float16", "a": "float32", "b": "float32", "scaled": "float16", "pairs": "float16",
              "turned": "float32", "product": "float32", "words": "uint32"},
    "tolerance": {"scaled": 0, "pairs": 1e-3, "turned": 0, "product": 1e-6, "words": 0},
}


@tilelang.jit
def lanes(h, a, b, N: int = 1024, threads: int = 64):
    h: T.Tensor((N,), T.float16)
    a: T.Tensor((N,), T.float32)
    b: T.Tensor((N,), T.float32)
    scaled = T.empty((N,), T.float16)
    pairs = T.empty((N,), T.float16)
    turned = T.empty((N,), T.float32)
    words = T.empty((N // 2,), T.uint32)
    product = T.empty((N,), T.float32)
    with T.Kernel(N // (threads * 8), threads=threads) as block:
        tx = T.get_thread_binding(0)
        at = (block * threads + tx) * 8
        eight = T.ldg128(h[at])
        halves = T.reinterpret(eight, "float16x8")
        T.stg128(scaled[at], T.reinterpret(halves * T.float16(0.5), T.uint32x4))
        T.stg64(words[at // 2], T.Shuffle([eight], [0, 1]))
        T.stg64(words[at // 2 + 2], T.Shuffle([eight], [2, 3]))
        for k in T.unroll(4):
            two = T.Ramp(at + 2 * k, 1, 2)
            pairs[two] = T.fma2(h[two], T.Broadcast(T.float16(2), 2), T.abs2(h[at + 2 * k:at + 2 * k + 2]))
        for k in T.unroll(2):
            four = T.Ramp(at + 4 * k, 1, 4)
            turned[four] = T.Shuffle([a[four]], [3, 2, 1, 0])
            turned[four] += 1.0
    with T.Kernel(N // 256, threads=threads) as block:
        for i in T.Parallel(128):
            z = T.Ramp(block * 256 + 2 * i, 1, 2)
            real = a[z] * T.Broadcast(b[block * 256 + 2 * i], 2)
            turn = T.Shuffle([a[z]], [1, 0]) * b[block * 256 + 2 * i + 1]
            product[z] = real + turn * T.Ramp(-1.0, 2.0, 2)
    return scaled, pairs, turned, words, product


def inputs(rng):
    return {"h": rng.standard_normal(1024), "a": rng.standard_normal(1024), "b": rng.standard_normal(1024)}


def reference(h, a, b):
    x, y = a[::2] + 1j * a[1::2], b[::2] + 1j * b[1::2]
    z = x * y
    return {"scaled": h * 0.5, "pairs": round_to(h * 2 + np.abs(h), "float16"),
            "turned": round_to(a.reshape(-1, 4)[:, ::-1].reshape(-1) + 1, "float32"),
            "words": h.astype(np.float16).view(np.uint32).astype(np.int64),
            "product": np.stack([z.real, z.imag], -1).reshape(-1)}
