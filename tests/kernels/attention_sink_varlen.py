"""Sinks, windows and grouped heads over sequences of several lengths at once."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "sink_varlen",
    "arguments": {"batch_size": 2, "groups": 2, "UQ": 70, "UKV": 90, "heads": 4, "dim": 32, "is_causal": True,
                  "window_size": 24, "block_M": 32, "block_N": 32},
    "runtime": {"max_seqlen_q": 45},
    "types": {"Q": "bfloat16", "K": "bfloat16", "V": "bfloat16", "cu_q": "int32", "cu_k": "int32",
              "Sinks": "bfloat16", "Out": "bfloat16"},
    "tolerance": 1e-2,
}


@tilelang.jit(out_idx=[7], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def sink_varlen(batch_size, groups, UQ, UKV, heads, dim, is_causal, window_size=None, block_M=64, block_N=64,
                num_stages=1, threads=64, dtype: T.dtype = T.bfloat16):
    assert is_causal, "windows look back only"
    if window_size is not None:
        assert window_size > 0, "window_size must be positive"
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    head_kv = heads // groups
    accum_dtype = T.float32

    @T.prim_func
    def main(Q: T.Tensor([UQ, heads, dim], dtype), K: T.Tensor([UKV, head_kv, dim], dtype),
             V: T.Tensor([UKV, head_kv, dim], dtype), cu_q: T.Tensor([batch_size + 1], T.int32),
             cu_k: T.Tensor([batch_size + 1], T.int32), max_seqlen_q: T.int32, Sinks: T.Tensor([heads], dtype),
             Out: T.Tensor([UQ, heads, dim], dtype)):
        with T.Kernel(T.ceildiv(max_seqlen_q, block_M), heads, batch_size, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            O_shared = T.alloc_shared([block_M, dim], dtype)
            acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
            acc_o = T.alloc_fragment([block_M, dim], accum_dtype)
            m, m_prev, alpha, row_sum, logsum = [T.alloc_fragment([block_M], accum_dtype) for _ in range(5)]
            sinks = T.alloc_fragment([block_M], dtype)
            b, head = bz, by
            kv_head = head // groups
            q0, q1 = cu_q[b], cu_q[b + 1]
            k0, k1 = cu_k[b], cu_k[b + 1]
            q_len, k_len = q1 - q0, k1 - k0
            T.copy(Q[q0 + bx * block_M:q0 + (bx + 1) * block_M, head, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(m, -T.infinity(accum_dtype))
            for i in T.Parallel(block_M):
                sinks[i] = Sinks[head]
            offset = k_len - q_len
            last = T.min(T.ceildiv(offset + (bx + 1) * block_M, block_N), T.ceildiv(k_len, block_N))
            first = (T.max(0, (offset + bx * block_M - window_size) // block_N)
                     if window_size is not None else 0)
            for k in T.Pipelined(last - first, num_stages=num_stages):
                tile = first + k
                T.copy(K[k0 + tile * block_N:k0 + (tile + 1) * block_N, kv_head, :], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    q_at = bx * block_M + i + offset
                    k_at = tile * block_N + j
                    if window_size is not None:
                        acc_s[i, j] = T.if_then_else(
                            (k_at > q_at) or (q_at >= k_at + window_size)
                            or (bx * block_M + i >= q_len or k_at >= k_len), -T.infinity(accum_dtype), 0)
                    else:
                        acc_s[i, j] = T.if_then_else(
                            (k_at > q_at) or (bx * block_M + i >= q_len or k_at >= k_len),
                            -T.infinity(accum_dtype), 0)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, m_prev)
                T.fill(m, -T.infinity(accum_dtype))
                T.reduce_max(acc_s, m, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    m[i] = T.max(m[i], m_prev[i])
                    if window_size is not None:
                        m[i] = T.if_then_else(m[i] == -T.infinity(accum_dtype), 0, m[i])
                for i in T.Parallel(block_M):
                    alpha[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - m[i] * scale)
                T.reduce_sum(acc_s, row_sum, dim=1)
                for i in T.Parallel(block_M):
                    logsum[i] = logsum[i] * alpha[i] + row_sum[i]
                T.copy(acc_s, acc_s_cast)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] *= alpha[i]
                T.copy(V[k0 + tile * block_N:k0 + (tile + 1) * block_N, kv_head, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i in T.Parallel(block_M):
                logsum[i] += T.exp2(sinks[i] * 1.44269504 - m[i] * scale)
            for i, j in T.Parallel(block_M, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O_shared)
            for i, d in T.Parallel(block_M, dim):
                if bx * block_M + i < q_len:
                    Out[q0 + bx * block_M + i, head, d] = O_shared[i, d]

    return main


def inputs(rng):
    return {"Q": rng.standard_normal((70, 4, 32)), "K": rng.standard_normal((90, 2, 32)),
            "V": rng.standard_normal((90, 2, 32)), "cu_q": np.array([0, 25, 70]), "cu_k": np.array([0, 40, 90]),
            "Sinks": rng.standard_normal(4)}


def reference(Q, K, V, cu_q, cu_k, Sinks):
    out = np.zeros((70, 4, 32))
    for b in range(2):
        q = Q[cu_q[b]:cu_q[b + 1]]
        k, v = (np.repeat(x[cu_k[b]:cu_k[b + 1]], 2, axis=1) for x in (K, V))
        behind = (np.arange(len(q)) + len(k) - len(q))[:, None] - np.arange(len(k))
        p = np.exp(np.einsum("qhd,khd->hqk", q, k) / np.sqrt(32)) * ((behind >= 0) & (behind < 24))
        total = p.sum(-1, keepdims=True) + np.exp(Sinks)[:, None, None]
        out[cu_q[b]:cu_q[b + 1]] = np.einsum("hqk,khd->qhd", p / total, v)
    return {"Out": out}
