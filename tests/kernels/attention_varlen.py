"""Attention over sequences of several lengths that lie behind each other."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "varlen",
    "arguments": {"batch_size": 3, "UQ": 100, "UKV": 150, "heads": 2, "dim": 32, "is_causal": True,
                  "block_M": 32, "block_N": 32},
    "runtime": {"max_seqlen_q": 50},
    "types": {"Q": "float16", "K": "float16", "V": "float16", "cu_q": "int32", "cu_k": "int32",
              "Out": "float16"},
    "tolerance": 3e-3,
}


@tilelang.jit(out_idx=[6], pass_configs={"tl.enable_fast_math": True})
def varlen(batch_size, UQ, UKV, heads, dim, is_causal, block_M=64, block_N=64, num_stages=1, threads=64):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    dtype, accum_dtype = T.float16, T.float32

    @T.prim_func
    def main(Q: T.Tensor([UQ, heads, dim], dtype), K: T.Tensor([UKV, heads, dim], dtype),
             V: T.Tensor([UKV, heads, dim], dtype), cu_q: T.Tensor([batch_size + 1], T.int32),
             cu_k: T.Tensor([batch_size + 1], T.int32), max_seqlen_q: T.int32,
             Out: T.Tensor([UQ, heads, dim], dtype)):
        with T.Kernel(T.ceildiv(max_seqlen_q, block_M), heads, batch_size, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            O_shared = T.alloc_shared([block_M, dim], dtype)
            acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
            acc_o = T.alloc_fragment([block_M, dim], accum_dtype)
            m = T.alloc_fragment([block_M], accum_dtype)
            m_prev = T.alloc_fragment([block_M], accum_dtype)
            alpha = T.alloc_fragment([block_M], accum_dtype)
            row_sum = T.alloc_fragment([block_M], accum_dtype)
            logsum = T.alloc_fragment([block_M], accum_dtype)

            q_start = cu_q[bz]
            kv_start = cu_k[bz]
            q_len = cu_q[bz + 1] - q_start
            kv_len = cu_k[bz + 1] - kv_start

            T.copy(Q[q_start + bx * block_M:q_start + (bx + 1) * block_M, by, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(m, -T.infinity(accum_dtype))
            offset = kv_len - q_len
            visible = T.max(0, offset + (bx + 1) * block_M)
            loop_range = (T.min(T.ceildiv(visible, block_N), T.ceildiv(kv_len, block_N))
                          if is_causal else T.ceildiv(kv_len, block_N))
            for k in T.Pipelined(loop_range, num_stages=num_stages):
                T.copy(K[kv_start + k * block_N:kv_start + (k + 1) * block_N, by, :], K_shared)
                if is_causal:
                    for i, j in T.Parallel(block_M, block_N):
                        acc_s[i, j] = T.if_then_else(
                            (bx * block_M + i + offset < k * block_N + j)
                            or (bx * block_M + i >= q_len or k * block_N + j >= kv_len), -1e9, 0)
                else:
                    for i, j in T.Parallel(block_M, block_N):
                        acc_s[i, j] = T.if_then_else(
                            (bx * block_M + i >= q_len or k * block_N + j >= kv_len), -1e9, 0)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, m_prev)
                T.fill(m, -T.infinity(accum_dtype))
                T.reduce_max(acc_s, m, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    m[i] = T.max(m[i], m_prev[i])
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
                T.copy(V[kv_start + k * block_N:kv_start + (k + 1) * block_N, by, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)

            for i, j in T.Parallel(block_M, dim):
                # Rows with no key at all, when there are more queries than keys, get zero.
                acc_o[i, j] = T.if_then_else(is_causal and bx * block_M + i + offset < 0, 0,
                                             acc_o[i, j] / logsum[i])
            T.copy(acc_o, O_shared)
            for i, d in T.Parallel(block_M, dim):
                if bx * block_M + i < q_len:
                    Out[q_start + bx * block_M + i, by, d] = O_shared[i, d]

    return main


def inputs(rng):
    return {"Q": rng.standard_normal((100, 2, 32)), "K": rng.standard_normal((150, 2, 32)),
            "V": rng.standard_normal((150, 2, 32)), "cu_q": np.array([0, 17, 50, 100]),
            "cu_k": np.array([0, 40, 73, 150])}


def reference(Q, K, V, cu_q, cu_k):
    out = np.zeros((100, 2, 32))
    for b in range(3):
        q, k, v = Q[cu_q[b]:cu_q[b + 1]], K[cu_k[b]:cu_k[b + 1]], V[cu_k[b]:cu_k[b + 1]]
        s = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(32)
        p = np.where(np.tri(len(q), len(k), len(k) - len(q), dtype=bool), np.exp(s), 0)
        out[cu_q[b]:cu_q[b + 1]] = np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v)
    return {"Out": out}
