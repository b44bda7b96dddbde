"""Latent attention to a list of tokens a query: rows of the cache are gathered, lists end with -1; run-time batch and
lengths; the log of the sums comes with it."""
import tilelang
from tilelang import language as T

KERNEL = {
    "entry": "sparse_mla",
    "arguments": {"heads": 16, "dim": 64, "tail_dim": 16, "topk": 32, "block_I": 16},
    "runtime": {"batch": 1, "seq_len": 5, "seq_len_kv": 40},
    "types": {"q": "bfloat16", "kv": "bfloat16", "indices": "int32", "output": "bfloat16", "lse": "float32"},
    "tolerance": {"output": 2e-2, "lse": 1e-3},
}


@tilelang.jit(pass_configs={
    tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True,
    tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True,
})
def sparse_mla(q, kv, indices, heads, dim, tail_dim, topk, kv_group=1, sm_scale=None, is_causal=True, block_I=64,
               num_stages=2, threads=64):
    assert dim == tilelang.math.next_power_of_2(dim), f"haven't check padding correctness yet, dim={dim}"
    assert topk % block_I == 0, "lists are whole blocks"
    if sm_scale is None:
        sm_scale = (1.0 / (dim + tail_dim)) ** 0.5 * 1.44269504
    else:
        sm_scale = sm_scale * 1.44269504
    batch, seq_len, seq_len_kv = T.dynamic("batch, seq_len, seq_len_kv")
    head_kv = heads // kv_group
    dtype, accum_dtype = T.bfloat16, T.float32
    H_per_block = head_kv
    BI, D, D_tail, NI = block_I, dim, tail_dim, tilelang.cdiv(topk, block_I)
    q: T.Tensor([batch, seq_len, heads, dim + tail_dim], dtype)
    kv: T.Tensor([batch, seq_len_kv, kv_group, dim + tail_dim], dtype)
    indices: T.Tensor([batch, seq_len, kv_group, topk], T.int32)
    output = T.empty([batch, seq_len, heads, dim], dtype)
    lse = T.empty([batch, seq_len, heads], accum_dtype)

    with T.Kernel(seq_len, batch, kv_group, threads=threads) as (bx, by, bz):
        Q_shared = T.alloc_shared([H_per_block, D], dtype)
        Q_tail = T.alloc_shared([H_per_block, D_tail], dtype)
        KV_shared = T.alloc_shared([BI, D], dtype)
        K_tail = T.alloc_shared([BI, D_tail], dtype)
        mask = T.alloc_fragment([BI], T.bool)
        acc_o = T.alloc_fragment([H_per_block, D], accum_dtype)
        acc_s = T.alloc_fragment([H_per_block, BI], accum_dtype)
        S_shared = T.alloc_shared([H_per_block, BI], dtype)
        sumexp = T.alloc_fragment([H_per_block], accum_dtype)
        sumexp_i = T.alloc_fragment([H_per_block], accum_dtype)
        alpha = T.alloc_fragment([H_per_block], accum_dtype)
        m_i = T.alloc_fragment([H_per_block], accum_dtype)
        m_i_prev = T.alloc_fragment([H_per_block], accum_dtype)
        T.fill(acc_o, 0)
        T.fill(sumexp, 0)
        T.fill(m_i, -(2 ** 30))
        b_i, g_i = by, bz
        s_i = bx
        H0 = g_i * head_kv
        H1 = H0 + H_per_block
        T.copy(q[b_i, s_i, H0:H1, :D], Q_shared)
        T.copy(q[b_i, s_i, H0:H1, D:], Q_tail)
        for i_i in T.Pipelined(NI, num_stages=num_stages):
            for bi_i in T.Parallel(BI):
                mask[bi_i] = indices[b_i, s_i, g_i, i_i * BI + bi_i] >= 0
            for bi_i, d_i in T.Parallel(BI, D):
                KV_shared[bi_i, d_i] = kv[b_i, indices[b_i, s_i, g_i, i_i * BI + bi_i], g_i, d_i]
            for bi_i, d_i in T.Parallel(BI, D_tail):
                K_tail[bi_i, d_i] = kv[b_i, indices[b_i, s_i, g_i, i_i * BI + bi_i], g_i, D + d_i]
            for h_i, bi_i in T.Parallel(H_per_block, BI):
                acc_s[h_i, bi_i] = T.if_then_else(mask[bi_i], 0, -T.infinity(acc_s.dtype))
            T.gemm(Q_shared, KV_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            T.gemm(Q_tail, K_tail, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(m_i, m_i_prev)
            T.reduce_max(acc_s, m_i, dim=1, clear=False)
            for h_i in T.Parallel(H_per_block):
                m_i[h_i] = T.max(m_i[h_i], m_i_prev[h_i])
            for h_i in T.Parallel(H_per_block):
                alpha[h_i] = T.exp2((m_i_prev[h_i] - m_i[h_i]) * sm_scale)
            for h_i, bi_i in T.Parallel(H_per_block, BI):
                acc_s[h_i, bi_i] = T.exp2(acc_s[h_i, bi_i] * sm_scale - m_i[h_i] * sm_scale)
            T.reduce_sum(acc_s, sumexp_i, dim=1)
            for h_i in T.Parallel(H_per_block):
                sumexp[h_i] = sumexp[h_i] * alpha[h_i] + sumexp_i[h_i]
            for h_i, d_i in T.Parallel(H_per_block, D):
                acc_o[h_i, d_i] = acc_o[h_i, d_i] * alpha[h_i]
            T.copy(acc_s, S_shared)
            T.gemm(S_shared, KV_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
        for h_i, d_i in T.Parallel(H_per_block, D):
            acc_o[h_i, d_i] /= sumexp[h_i]
        for h_i in T.Parallel(H_per_block):
            sumexp[h_i] = T.log2(sumexp[h_i]) + m_i[h_i] * sm_scale
        T.copy(acc_o, output[b_i, s_i, H0:H1, :])
        T.copy(sumexp, lse[b_i, s_i, H0:H1])
    return output, lse


def inputs(rng):
    lists = np.stack([rng.permutation(40)[:32] for _ in range(5)])
    lists[1, 20:] = -1
    lists[4, 3:] = -1
    return {"q": rng.standard_normal((1, 5, 16, 80)), "kv": rng.standard_normal((1, 40, 1, 80)),
            "indices": lists[None, :, None]}


def reference(q, kv, indices):
    out, lse = np.zeros((1, 5, 16, 64)), np.zeros((1, 5, 16))
    for s in range(5):
        rows = kv[0, [i for i in indices[0, s, 0] if i >= 0], 0]
        e = np.exp(q[0, s] @ rows.T / np.sqrt(80))
        out[0, s], lse[0, s] = e / e.sum(-1, keepdims=True) @ rows[:, :64], np.log2(e.sum(-1))
    return {"output": out, "lse": lse}
