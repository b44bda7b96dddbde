"""Decoding from a cache in float8 with a scale a head, widened in shared memory before each product."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "decode_fp8",
    "arguments": {"batch": 2, "heads": 16, "kv_heads": 1, "seq": 80, "dim": 32},
    "types": {"q": "bfloat16", "k": "float8_e4m3fn", "v": "float8_e4m3fn", "k_scale": "float32",
              "v_scale": "float32", "o": "bfloat16"},
    "tolerance": 1e-2,
}


@tilelang.jit(out_idx=[-1], pass_configs={"tl.enable_fast_math": True})
def decode_fp8(batch, heads, kv_heads, seq, dim, block_N=32, threads=64):
    group = heads // kv_heads
    scale = dim ** -0.5 * 1.44269504
    steps = tilelang.cdiv(seq, block_N)

    @T.prim_func
    def main(q: T.Tensor((batch, heads, dim), T.bfloat16), k: T.Tensor((batch, seq, kv_heads, dim), T.float8_e4m3fn),
             v: T.Tensor((batch, seq, kv_heads, dim), T.float8_e4m3fn), k_scale: T.Tensor((kv_heads,), T.float32),
             v_scale: T.Tensor((kv_heads,), T.float32), o: T.Tensor((batch, heads, dim), T.bfloat16)):
        with T.Kernel(kv_heads, batch, threads=threads) as (g, b):
            qs = T.alloc_shared((group, dim), T.bfloat16)
            k8 = T.alloc_shared((block_N, dim), T.float8_e4m3fn)
            v8 = T.alloc_shared((block_N, dim), T.float8_e4m3fn)
            kw = T.alloc_shared((block_N, dim), T.bfloat16)
            vw = T.alloc_shared((block_N, dim), T.bfloat16)
            s = T.alloc_fragment((group, block_N), T.float32)
            p = T.alloc_fragment((group, block_N), T.bfloat16)
            acc = T.alloc_fragment((group, dim), T.float32)
            top = T.alloc_fragment((group,), T.float32)
            old = T.alloc_fragment((group,), T.float32)
            total = T.alloc_fragment((group,), T.float32)
            T.copy(q[b, g * group:(g + 1) * group, :], qs)
            T.fill(top, -T.infinity(T.float32))
            T.clear(total)
            T.clear(acc)
            for n in T.Pipelined(steps, num_stages=1):
                T.copy(k[b, n * block_N:(n + 1) * block_N, g, :], k8)
                T.copy(v[b, n * block_N:(n + 1) * block_N, g, :], v8)
                T.copy(k8, kw)
                T.copy(v8, vw)
                T.gemm(qs, kw, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(group, block_N):
                    s[i, j] = T.if_then_else(n * block_N + j < seq, s[i, j] * (scale * k_scale[g]),
                                             -T.infinity(T.float32))
                T.copy(top, old)
                T.reduce_max(s, top, dim=1, clear=False)
                for i, j in T.Parallel(group, block_N):
                    s[i, j] = T.exp2(s[i, j] - top[i])
                for i in T.Parallel(group):
                    total[i] *= T.exp2(old[i] - top[i])
                T.reduce_sum(s, total, dim=1, clear=False)
                for i, j in T.Parallel(group, dim):
                    acc[i, j] *= T.exp2(old[i] - top[i])
                T.copy(s, p)
                T.gemm(p, vw, acc)
            for i, j in T.Parallel(group, dim):
                acc[i, j] = acc[i, j] * v_scale[g] / total[i]
            T.copy(acc, o[b, g * group:(g + 1) * group, :])

    return main


def inputs(rng):
    return {"q": rng.standard_normal((2, 16, 32)), "k": 20 * rng.standard_normal((2, 80, 1, 32)),
            "v": 20 * rng.standard_normal((2, 80, 1, 32)), "k_scale": np.array([0.05]), "v_scale": np.array([0.05])}


def reference(q, k, v, k_scale, v_scale):
    s = np.einsum("bhd,bkd->bhk", q, k[:, :, 0] * k_scale[0]) / np.sqrt(32)
    p = np.exp(s - s.max(-1, keepdims=True))
    return {"o": np.einsum("bhk,bkd->bhd", p / p.sum(-1, keepdims=True), v[:, :, 0] * v_scale[0])}
