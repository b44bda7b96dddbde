"""Attention whose logits go through tanh and get a slope a head for the distance, eager style."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "softcap",
    "arguments": {"batch": 1, "seq_len": 96, "heads": 2, "dim": 32, "cap": 20.0},
    "types": {"q": "float16", "k": "float16", "v": "float16", "slopes": "float32", "o": "float16"},
    "tolerance": 4e-3,
}


def log2e():
    return 1.4426950408889634


@tilelang.jit
def softcap(q, k, v, slopes, cap: float = 30.0, block_M: int = 32, block_N: int = 32):
    batch, seq_len, heads, dim = T.const("batch, seq_len, heads, dim")
    q: T.Tensor[[batch, seq_len, heads, dim], T.float16]
    k: T.Tensor[[batch, seq_len, heads, dim], T.float16]
    v: T.Tensor[[batch, seq_len, heads, dim], T.float16]
    slopes: T.Tensor[[heads], T.float32]
    o = T.empty((batch, seq_len, heads, dim), T.float16)
    rows = dim ** -0.5

    with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=64) as (bx, h, b):
        qs = T.alloc_shared((block_M, dim), T.float16)
        ks = T.alloc_shared((block_N, dim), T.float16)
        vs = T.alloc_shared((block_N, dim), T.float16)
        s = T.alloc_fragment((block_M, block_N), T.float32)
        p = T.alloc_fragment((block_M, block_N), T.float16)
        acc = T.alloc_fragment((block_M, dim), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        before = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        slope = slopes[h]
        T.copy(q[b, bx * block_M:(bx + 1) * block_M, h, :], qs)
        T.fill(top, T.min_value(T.float32))
        T.clear(total)
        T.clear(acc)
        for n in T.Pipelined(T.ceildiv(seq_len, block_N), num_stages=2):
            T.copy(k[b, n * block_N:(n + 1) * block_N, h, :], ks)
            T.copy(v[b, n * block_N:(n + 1) * block_N, h, :], vs)
            T.clear(s)
            T.gemm(qs, ks, s, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                far = T.abs(bx * block_M + i - (n * block_N + j))
                s[i, j] = (T.tanh(s[i, j] * rows / cap) * cap - slope * far) * log2e()
            T.copy(top, before)
            T.reduce_max(s, top, dim=-1, clear=False)
            for i, j in T.Parallel(block_M, block_N):
                s[i, j] = T.exp2(s[i, j] - top[i])
            for i in T.Parallel(block_M):
                total[i] *= T.exp2(before[i] - top[i])
            T.reduce_sum(s, total, dim=-1, clear=False)
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] *= T.exp2(before[i] - top[i])
            T.copy(s, p)
            T.gemm(p, vs, acc)
        for i, j in T.Parallel(block_M, dim):
            acc[i, j] = acc[i, j] / total[i]
        T.copy(acc, o[b, bx * block_M:(bx + 1) * block_M, h, :])
    return o


def inputs(rng):
    shape = (1, 96, 2, 32)
    return {"q": 3 * rng.standard_normal(shape), "k": 3 * rng.standard_normal(shape),
            "v": rng.standard_normal(shape), "slopes": np.array([0.25, 0.0625])}


def reference(q, k, v, slopes):
    s = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(32)
    at = np.arange(96)
    s = 20 * np.tanh(s / 20) - slopes[None, :, None, None] * np.abs(at[:, None] - at[None, :])
    p = np.exp(s - s.max(-1, keepdims=True))
    return {"o": np.einsum("bhqk,bkhd->bqhd", p / p.sum(-1, keepdims=True), v)}
