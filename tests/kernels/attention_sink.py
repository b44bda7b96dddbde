"""Causal attention with a sliding window and, a head, a sink: one more logit that has no value."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "sink_attention",
    "arguments": {"batch": 1, "heads": 2, "seq_len": 128, "dim": 32, "window": 40},
    "types": {"Q": "float16", "K": "float16", "V": "float16", "Sinks": "float16", "Output": "float16"},
    "tolerance": 3e-3,
}


def get_configs():
    from itertools import product
    return [dict(block_M=m, block_N=n, num_stages=s, threads=t)
            for m, n, s, t in product((64, 128), (64, 128), (1, 2), (128, 256))]


@tilelang.autotune(configs=get_configs(), warmup=10, rep=10)
@tilelang.jit(out_idx=[4], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def sink_attention(batch, heads, seq_len, dim, window=None, sm_scale=None, block_M=32, block_N=32,
                   num_stages=1, threads=64, dtype: str = "float16"):
    if window is not None:
        assert window > 0, "a window holds at least the query itself"
    if sm_scale is None:
        sm_scale = (1.0 / dim) ** 0.5
    scale = sm_scale * 1.44269504
    accum_dtype = T.float32
    shape = [batch, heads, seq_len, dim]

    @T.macro
    def online(acc_s, acc_s_cast, m, m_prev, alpha, row_sum, logsum):
        T.copy(m, m_prev)
        T.fill(m, -T.infinity(accum_dtype))
        T.reduce_max(acc_s, m, dim=1, clear=False)
        for i in T.Parallel(block_M):
            m[i] = T.max(m[i], m_prev[i])
        # A row that the window has not reached yet has seen nothing: its maximum stays -inf.
        for i in T.Parallel(block_M):
            m[i] = T.if_then_else(m[i] == -T.infinity(accum_dtype), 0, m[i])
        for i in T.Parallel(block_M):
            alpha[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
        for i, j in T.Parallel(block_M, block_N):
            acc_s[i, j] = T.exp2(acc_s[i, j] * scale - m[i] * scale)
        T.reduce_sum(acc_s, row_sum, dim=1)
        for i in T.Parallel(block_M):
            logsum[i] = logsum[i] * alpha[i] + row_sum[i]
        T.copy(acc_s, acc_s_cast)

    @T.prim_func
    def main(Q: T.Tensor(shape, dtype), K: T.Tensor(shape, dtype), V: T.Tensor(shape, dtype),
             Sinks: T.Tensor([heads], dtype), Output: T.Tensor(shape, dtype)):
        with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
            acc_o = T.alloc_fragment([block_M, dim], accum_dtype)
            m = T.alloc_fragment([block_M], accum_dtype)
            m_prev = T.alloc_fragment([block_M], accum_dtype)
            alpha = T.alloc_fragment([block_M], accum_dtype)
            row_sum = T.alloc_fragment([block_M], accum_dtype)
            logsum = T.alloc_fragment([block_M], accum_dtype)
            sinks = T.alloc_fragment([block_M], dtype)
            T.copy(Q[bz, by, bx * block_M:(bx + 1) * block_M, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(m, -T.infinity(accum_dtype))
            for i in T.Parallel(block_M):
                sinks[i] = Sinks[by]
            end = T.min(T.ceildiv(seq_len, block_N), T.ceildiv((bx + 1) * block_M, block_N))
            start = T.max(0, (bx * block_M - window) // block_N) if window is not None else 0
            for k in T.Pipelined(start, end, num_stages=num_stages):
                T.copy(K[bz, by, k * block_N:(k + 1) * block_N, :], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    q_idx = bx * block_M + i
                    k_idx = k * block_N + j
                    if window is not None:
                        acc_s[i, j] = T.if_then_else(q_idx >= k_idx and q_idx < k_idx + window, 0,
                                                     -T.infinity(acc_s.dtype))
                    else:
                        acc_s[i, j] = T.if_then_else(q_idx >= k_idx, 0, -T.infinity(acc_s.dtype))
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                online(acc_s, acc_s_cast, m, m_prev, alpha, row_sum, logsum)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] *= alpha[i]
                T.copy(V[bz, by, k * block_N:(k + 1) * block_N, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i in T.Parallel(block_M):
                logsum[i] += T.exp2(sinks[i] * 1.44269504 - m[i] * scale)
            for i, j in T.Parallel(block_M, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, Output[bz, by, bx * block_M:(bx + 1) * block_M, :])

    return main


def inputs(rng):
    shape = (1, 2, 128, 32)
    return {"Q": rng.standard_normal(shape), "K": rng.standard_normal(shape),
            "V": rng.standard_normal(shape), "Sinks": rng.standard_normal(2)}


def reference(Q, K, V, Sinks):
    s = Q @ K.swapaxes(2, 3) / np.sqrt(32)
    seen = np.tri(128, dtype=bool) & ~np.tri(128, 128, -40, dtype=bool)
    p = np.where(seen, np.exp(s), 0)
    total = p.sum(-1, keepdims=True) + np.exp(Sinks)[None, :, None, None]
    return {"Output": p / total @ V}
