"""Attention to selected blocks: each token has a list of blocks, the heads of a group share it."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "nsa_fwd",
    "arguments": {"batch": 1, "seq_len": 40, "heads": 16, "dim": 32, "is_causal": True, "block_size": 16, "groups": 16,
                  "selected_blocks": 2},
    "types": {"Q": "float16", "K": "float16", "V": "float16", "BlockIndices": "int32", "Output": "float16"},
    "tolerance": 3e-3,
}


@tilelang.jit(pass_configs={
    tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True,
    tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True,
    tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True,
})
def nsa_fwd(Q, K, V, BlockIndices, dim, is_causal, scale=None, block_size=64, groups=1, selected_blocks=16):
    batch, heads, seq_len = T.const("batch, heads, seq_len")
    if scale is None:
        scale = (1.0 / dim) ** 0.5 * 1.44269504
    else:
        scale = scale * 1.44269504
    head_kv = heads // groups
    dtype, accum_dtype = T.float16, T.float32
    G, BS = groups, block_size
    BK = BV = min(128, tilelang.math.next_power_of_2(dim))
    NV = tilelang.cdiv(dim, BV)
    assert tilelang.cdiv(dim, BK) == 1, "a key lies in one tile"
    Q: T.Tensor([batch, seq_len, heads, dim], dtype)
    K: T.Tensor([batch, seq_len, head_kv, dim], dtype)
    V: T.Tensor([batch, seq_len, head_kv, dim], dtype)
    BlockIndices: T.Tensor([batch, seq_len, head_kv, selected_blocks], T.int32)
    Output = T.empty([batch, seq_len, heads, dim], dtype)

    with T.Kernel(seq_len, NV, batch * head_kv, threads=32) as (bx, by, bz):
        Q_shared = T.alloc_shared([G, BK], dtype)
        K_shared = T.alloc_shared([BS, BK], dtype)
        V_shared = T.alloc_shared([BS, BV], dtype)
        O_shared = T.alloc_shared([G, BV], dtype)
        acc_s = T.alloc_fragment([G, BS], accum_dtype)
        acc_s_cast = T.alloc_shared([G, BS], dtype)
        acc_o = T.alloc_fragment([G, BV], accum_dtype)
        m = T.alloc_fragment([G], accum_dtype)
        m_prev = T.alloc_fragment([G], accum_dtype)
        alpha = T.alloc_fragment([G], accum_dtype)
        row_sum = T.alloc_fragment([G], accum_dtype)
        logsum = T.alloc_fragment([G], accum_dtype)
        i_t, i_v, i_bh = bx, by, bz
        i_b, i_h = i_bh // head_kv, i_bh % head_kv
        T.copy(Q[i_b, i_t, i_h * G:(i_h + 1) * G, :], Q_shared)
        T.fill(acc_o, 0)
        T.fill(logsum, 0)
        T.fill(m, -T.infinity(accum_dtype))
        for i in T.Pipelined(selected_blocks, num_stages=2):
            i_s = BlockIndices[i_b, i_t, i_h, i] * BS
            if i_s <= i_t and i_s >= 0:
                T.copy(K[i_b, i_s:i_s + BS, i_h, :], K_shared)
                if is_causal:
                    for g, j in T.Parallel(G, BS):
                        acc_s[g, j] = T.if_then_else(i_t >= (i_s + j), 0, -T.infinity(acc_s.dtype))
                else:
                    T.clear(acc_s)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, m_prev)
                T.fill(m, -T.infinity(accum_dtype))
                T.reduce_max(acc_s, m, dim=1, clear=False)
                for g in T.Parallel(G):
                    m[g] = T.max(m[g], m_prev[g])
                for g in T.Parallel(G):
                    alpha[g] = T.exp2(m_prev[g] * scale - m[g] * scale)
                for g, j in T.Parallel(G, BS):
                    acc_s[g, j] = T.exp2(acc_s[g, j] * scale - m[g] * scale)
                T.reduce_sum(acc_s, row_sum, dim=1)
                for g in T.Parallel(G):
                    logsum[g] = logsum[g] * alpha[g] + row_sum[g]
                T.copy(acc_s, acc_s_cast)
                for g, j in T.Parallel(G, BV):
                    acc_o[g, j] *= alpha[g]
                T.copy(V[i_b, i_s:i_s + BS, i_h, i_v * BV:(i_v + 1) * BV], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
        for g, j in T.Parallel(G, BV):
            acc_o[g, j] /= logsum[g]
        T.copy(acc_o, O_shared)
        T.copy(O_shared, Output[i_b, i_t, i_h * G:(i_h + 1) * G, i_v * BV:(i_v + 1) * BV])
    return Output


def inputs(rng):
    own = np.arange(40) // 16
    other = np.array([rng.integers(0, max(b, 1)) if b else -1 for b in own])
    return {"Q": rng.standard_normal((1, 40, 16, 32)), "K": rng.standard_normal((1, 40, 1, 32)),
            "V": rng.standard_normal((1, 40, 1, 32)), "BlockIndices": np.stack([other, own], -1)[None, :, None]}


def reference(Q, K, V, BlockIndices):
    seen = np.zeros((40, 40), bool)
    for t in range(40):
        for b in BlockIndices[0, t, 0]:
            if b >= 0:
                seen[t, 16 * b:16 * b + 16] = True
    seen &= np.tri(40, dtype=bool)
    p = np.exp(np.einsum("bqhd,bkd->bhqk", Q, K[:, :, 0]) / np.sqrt(32)) * seen
    return {"Output": np.einsum("bhqk,bkd->bqhd", p / p.sum(-1, keepdims=True), V[:, :, 0])}
