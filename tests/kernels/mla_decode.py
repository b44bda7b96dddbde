"""Multi-head latent decoding: every head attends to one compressed row a token, whose last part carries the
positions. The keys' first part is the value."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "mla_decode",
    "arguments": {"batch": 1, "heads": 32, "kv_heads": 1, "seqlen_kv": 96, "dim": 64, "pe_dim": 16,
                  "block_N": 32, "block_H": 32, "num_split": 2, "softmax_scale": 0.1118},
    "types": {"Q": "float16", "Q_pe": "float16", "KV": "float16", "K_pe": "float16", "Output": "float16"},
    "tolerance": 3e-3,
}


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def mla_decode(batch, heads, kv_heads, seqlen_kv, dim, pe_dim, block_N, block_H, num_split, softmax_scale):
    scale = float(softmax_scale * 1.44269504)
    dtype = T.float16
    accum_dtype = T.float32
    kv_group_num = heads // kv_heads
    VALID_BLOCK_H = min(block_H, kv_group_num)
    assert kv_heads == 1, "one compressed head"

    @T.macro
    def part(Q, Q_pe, KV, K_pe, glse, partial, bid, hid, sid):
        Q_shared = T.alloc_shared([block_H, dim], dtype)
        S_shared = T.alloc_shared([block_H, block_N], dtype)
        Q_pe_shared = T.alloc_shared([block_H, pe_dim], dtype)
        KV_shared = T.alloc_shared([block_N, dim], dtype)
        K_pe_shared = T.alloc_shared([block_N, pe_dim], dtype)
        O_shared = T.alloc_shared([block_H, dim], dtype)
        acc_s = T.alloc_fragment([block_H, block_N], accum_dtype)
        acc_o = T.alloc_fragment([block_H, dim], accum_dtype)
        m = T.alloc_fragment([block_H], accum_dtype)
        m_prev = T.alloc_fragment([block_H], accum_dtype)
        alpha = T.alloc_fragment([block_H], accum_dtype)
        row_sum = T.alloc_fragment([block_H], accum_dtype)
        logsum = T.alloc_fragment([block_H], accum_dtype)
        T.use_swizzle(10)
        T.annotate_layout({O_shared: tilelang.layout.make_swizzled_layout(O_shared)})
        T.copy(Q[bid, hid * VALID_BLOCK_H:(hid + 1) * VALID_BLOCK_H, :], Q_shared)
        T.copy(Q_pe[bid, hid * VALID_BLOCK_H:(hid + 1) * VALID_BLOCK_H, :], Q_pe_shared)
        T.fill(acc_o, 0)
        T.fill(logsum, 0)
        T.fill(m, -T.infinity(accum_dtype))
        steps = T.ceildiv(seqlen_kv // num_split, block_N)
        for k in T.Pipelined(steps, num_stages=2):
            kv_start = (seqlen_kv // num_split) * sid + k * block_N
            kv_end = (seqlen_kv // num_split) * sid + (k + 1) * block_N
            T.copy(KV[bid, kv_start:kv_end, 0, :], KV_shared)
            T.copy(K_pe[bid, kv_start:kv_end, 0, :], K_pe_shared)
            T.gemm(Q_shared, KV_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol,
                   clear_accum=True)
            T.gemm(Q_pe_shared, K_pe_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, block_N):
                acc_s[i, j] = T.if_then_else(kv_start + j < (seqlen_kv // num_split) * (sid + 1), acc_s[i, j],
                                             -T.infinity(accum_dtype))
            T.copy(m, m_prev)
            T.fill(m, -T.infinity(accum_dtype))
            T.reduce_max(acc_s, m, dim=1, clear=False)
            for i in T.Parallel(block_H):
                m[i] = T.max(m[i], m_prev[i])
            for i in T.Parallel(block_H):
                alpha[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
            for i, j in T.Parallel(block_H, block_N):
                acc_s[i, j] = T.exp2(acc_s[i, j] * scale - m[i] * scale)
            T.reduce_sum(acc_s, row_sum, dim=1)
            T.copy(acc_s, S_shared)
            for i in T.Parallel(block_H):
                logsum[i] = logsum[i] * alpha[i] + row_sum[i]
            for i, j in T.Parallel(block_H, dim):
                acc_o[i, j] *= alpha[i]
            T.gemm(S_shared, KV_shared, acc_o, policy=T.GemmWarpPolicy.FullCol)
        for i, j in T.Parallel(block_H, dim):
            acc_o[i, j] /= logsum[i]
        for i in T.Parallel(block_H):
            logsum[i] = T.log2(logsum[i]) + m[i] * scale
        T.copy(logsum, glse[bid, hid * VALID_BLOCK_H:(hid + 1) * VALID_BLOCK_H, sid])
        T.copy(acc_o, O_shared)
        T.copy(O_shared, partial[bid, hid * VALID_BLOCK_H:(hid + 1) * VALID_BLOCK_H, sid, :])

    @T.prim_func
    def main(Q: T.Tensor([batch, heads, dim], dtype), Q_pe: T.Tensor([batch, heads, pe_dim], dtype),
             KV: T.Tensor([batch, seqlen_kv, kv_heads, dim], dtype),
             K_pe: T.Tensor([batch, seqlen_kv, kv_heads, pe_dim], dtype),
             Output: T.Tensor([batch, heads, dim], dtype)):
        glse = T.alloc_global([batch, heads, num_split], dtype)
        partial = T.alloc_global([batch, heads, num_split, dim], dtype)
        with T.Kernel(batch, heads // VALID_BLOCK_H, num_split, threads=128) as (bid, hid, sid):
            part(Q, Q_pe, KV, K_pe, glse, partial, bid, hid, sid)
        with T.Kernel(heads, batch, threads=128) as (hid, bid):
            po_local = T.alloc_fragment([dim], dtype)
            o_accum = T.alloc_fragment([dim], accum_dtype)
            lse_local = T.alloc_var(accum_dtype)
            lse_logsum = T.alloc_var(accum_dtype)
            lse_max = T.alloc_var(accum_dtype)
            lse_logsum = 0
            lse_max = -T.infinity(accum_dtype)
            T.clear(o_accum)
            for k in T.serial(num_split):
                lse_max = T.max(lse_max, glse[bid, hid, k])
            for k in T.Pipelined(num_split, num_stages=1):
                lse_local = glse[bid, hid, k]
                lse_logsum += T.exp2(lse_local - lse_max)
            lse_logsum = T.log2(lse_logsum) + lse_max
            for k in T.serial(num_split):
                for i in T.Parallel(dim):
                    po_local[i] = partial[bid, hid, k, i]
                lse_local = T.exp2(glse[bid, hid, k] - lse_logsum)
                for i in T.Parallel(dim):
                    o_accum[i] += po_local[i] * lse_local
            for i in T.Parallel(dim):
                Output[bid, hid, i] = o_accum[i]

    return main


def inputs(rng):
    return {"Q": rng.standard_normal((1, 32, 64)), "Q_pe": rng.standard_normal((1, 32, 16)),
            "KV": rng.standard_normal((1, 96, 1, 64)), "K_pe": rng.standard_normal((1, 96, 1, 16))}


def reference(Q, Q_pe, KV, K_pe):
    q, k = np.concatenate([Q, Q_pe], -1)[0], np.concatenate([KV, K_pe], -1)[0, :, 0]
    p = np.exp(q @ k.T * 0.1118)
    return {"Output": (p / p.sum(-1, keepdims=True) @ KV[0, :, 0])[None]}
