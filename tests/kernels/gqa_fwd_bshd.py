"""Attention of [batch, seq, heads, dim] where heads share keys, with the log of the sums for a backward pass;
a sequence that no tile divides."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "gqa_fwd",
    "arguments": {"batch": 1, "heads": 2, "seq_len": 72, "dim": 32, "groups": 2, "block_M": 32,
                  "block_N": 32, "num_stages": 2, "threads": 64},
    "types": {"Q": "bfloat16", "K": "bfloat16", "V": "bfloat16", "O": "bfloat16", "lse": "float32"},
    "tolerance": {"O": 1e-2, "lse": 1e-5},
}


@tilelang.jit(out_idx=[3, 4], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def gqa_fwd(batch, heads, seq_len, dim, groups=1, block_M=64, block_N=64, num_stages=2, threads=128):
    scale = dim ** -0.5 * 1.44269504
    head_kv = heads // groups
    dtype = "bfloat16"
    accum_dtype = "float"

    @T.prim_func
    def main(Q: T.Tensor([batch, seq_len, heads, dim], dtype),
             K: T.Tensor([batch, seq_len, head_kv, dim], dtype),
             V: T.Tensor([batch, seq_len, head_kv, dim], dtype),
             O: T.Tensor([batch, seq_len, heads, dim], dtype),
             lse: T.Tensor([batch, heads, seq_len], accum_dtype)):
        with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
            acc_o = T.alloc_fragment([block_M, dim], accum_dtype)
            m_new, m_old, rescale, row_sum, logsum = (
                [T.alloc_fragment([block_M], accum_dtype) for _ in range(5)])
            T.annotate_layout({Q_shared: tilelang.layout.make_swizzled_layout(Q_shared)})
            T.copy(Q[bz, bx * block_M:(bx + 1) * block_M, by, :], Q_shared)
            T.clear(acc_o)
            T.clear(logsum)
            T.fill(m_new, -T.infinity(accum_dtype))
            for k in T.Pipelined(T.ceildiv(seq_len, block_N), num_stages=num_stages):
                T.copy(K[bz, k * block_N:(k + 1) * block_N, by // groups, :], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.if_then_else(k * block_N + j < seq_len, 0, -T.infinity(accum_dtype))
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[bz, k * block_N:(k + 1) * block_N, by // groups, :], V_shared)
                T.copy(m_new, m_old)
                T.reduce_max(acc_s, m_new, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    rescale[i] = T.exp2(m_old[i] * scale - m_new[i] * scale)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] *= rescale[i]
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - m_new[i] * scale)
                T.copy(acc_s, acc_s_cast)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
                T.reduce_sum(acc_s, row_sum, dim=1)
                for i in T.Parallel(block_M):
                    logsum[i] = logsum[i] * rescale[i] + row_sum[i]
            for i, j in T.Parallel(block_M, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O[bz, bx * block_M:(bx + 1) * block_M, by, :])
            for i in T.Parallel(block_M):
                logsum[i] = T.log2(logsum[i]) + m_new[i] * scale
            T.copy(logsum, lse[bz, by, bx * block_M:(bx + 1) * block_M])

    return main


def inputs(rng):
    return {"Q": rng.standard_normal((1, 72, 2, 32)), "K": rng.standard_normal((1, 72, 1, 32)),
            "V": rng.standard_normal((1, 72, 1, 32))}


def reference(Q, K, V):
    K, V = np.repeat(K, 2, axis=2), np.repeat(V, 2, axis=2)
    s = np.einsum("bqhd,bkhd->bhqk", Q, K) / np.sqrt(32)
    p = np.exp(s)
    total = p.sum(-1)
    o = np.einsum("bhqk,bkhd->bqhd", p / total[..., None], V)
    return {"O": o, "lse": np.log2(total)}
