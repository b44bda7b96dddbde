"""Decoding with grouped heads: the keys are split over blocks, a second launch joins their results by weight."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "decode",
    "arguments": {"batch": 2, "heads": 8, "groups": 2, "seqlen_kv": 160, "dim": 32, "block_N": 32,
                  "block_H": 16, "num_split": 3, "num_stages": 2, "threads": 64},
    "types": {"Q": "float16", "K": "float16", "V": "float16", "mask": "uint8", "Output": "float16"},
    "tolerance": 3e-3,
}


@tilelang.jit(out_idx=[4], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def decode(batch, heads, groups, seqlen_kv, dim, block_N, block_H, num_split, num_stages, threads):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    dtype, accum_dtype = T.float16, T.float32
    kv_group_num = heads // groups
    valid_H = min(block_H, kv_group_num)
    steps = tilelang.cdiv(tilelang.cdiv(seqlen_kv, block_N), num_split)

    @T.prim_func
    def main(Q: T.Tensor([batch, heads, dim], dtype), K: T.Tensor([batch, seqlen_kv, groups, dim], dtype),
             V: T.Tensor([batch, seqlen_kv, groups, dim], dtype),
             mask: T.Tensor([batch, seqlen_kv, groups], "uint8"), Output: T.Tensor([batch, heads, dim], dtype)):
        glse = T.alloc_global([batch, heads, num_split], accum_dtype)
        partial = T.alloc_global([batch, heads, num_split, dim], accum_dtype)
        with T.Kernel(batch, heads // valid_H, num_split, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_H, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            acc_s = T.alloc_fragment([block_H, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_H, block_N], dtype)
            acc_o = T.alloc_fragment([block_H, dim], accum_dtype)
            mask_local = T.alloc_fragment([block_N], "uint8")
            m = T.alloc_fragment([block_H], accum_dtype)
            m_prev = T.alloc_fragment([block_H], accum_dtype)
            alpha = T.alloc_fragment([block_H], accum_dtype)
            row_sum = T.alloc_fragment([block_H], accum_dtype)
            logsum = T.alloc_fragment([block_H], accum_dtype)
            bid, hid, sid = bx, by, bz
            cur_kv_head = hid // (kv_group_num // valid_H)
            T.copy(Q[bid, hid * valid_H:hid * valid_H + block_H, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(m, -T.infinity(accum_dtype))
            for k in T.Pipelined(steps, num_stages=num_stages):
                start = (sid * steps + k) * block_N
                T.copy(K[bid, start:start + block_N, cur_kv_head, :], K_shared)
                T.copy(mask[bid, start:start + block_N, cur_kv_head], mask_local)
                T.clear(acc_s)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_H, block_N):
                    acc_s[i, j] = T.if_then_else((mask_local[j] != 0) & (start + j < seqlen_kv),
                                                 acc_s[i, j], -1e20)
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
                for i in T.Parallel(block_H):
                    logsum[i] = logsum[i] * alpha[i] + row_sum[i]
                T.copy(acc_s, acc_s_cast)
                for i, j in T.Parallel(block_H, dim):
                    acc_o[i, j] *= alpha[i]
                T.copy(V[bid, start:start + block_N, cur_kv_head, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_H, dim):
                acc_o[i, j] /= logsum[i]
            for i in T.Parallel(block_H):
                logsum[i] = T.log2(logsum[i]) + m[i] * scale
            for i in T.Parallel(block_H):
                if i < valid_H:
                    glse[bid, hid * valid_H + i, sid] = logsum[i]
            for i, j in T.Parallel(block_H, dim):
                if i < valid_H:
                    partial[bid, hid * valid_H + i, sid, j] = acc_o[i, j]
        with T.Kernel(heads, batch, threads=32) as (by, bz):
            po = T.alloc_fragment([dim], accum_dtype)
            o = T.alloc_fragment([dim], accum_dtype)
            lse_all = T.alloc_fragment([num_split], accum_dtype)
            lse_max = T.alloc_fragment([1], accum_dtype)
            weight = T.alloc_var(accum_dtype)
            total = T.alloc_var(accum_dtype)
            T.clear(o)
            T.copy(glse[bz, by, :], lse_all)
            T.reduce_max(lse_all, lse_max, dim=0, clear=True)
            total = 0
            for k in T.serial(num_split):
                total += T.exp2(glse[bz, by, k] - lse_max[0])
            for k in T.serial(num_split):
                weight = T.exp2(glse[bz, by, k] - lse_max[0]) / total
                T.copy(partial[bz, by, k, :], po)
                for i in T.Parallel(dim):
                    o[i] += po[i] * weight
            T.copy(o, Output[bz, by, :])

    return main


def inputs(rng):
    mask = (rng.uniform(size=(2, 160, 2)) < 0.8).astype(np.uint8)
    return {"Q": rng.standard_normal((2, 8, 32)), "K": rng.standard_normal((2, 160, 2, 32)),
            "V": rng.standard_normal((2, 160, 2, 32)), "mask": mask}


def reference(Q, K, V, mask):
    q = Q.reshape(2, 2, 4, 32)
    s = np.einsum("bghd,bkgd->bghk", q, K) / np.sqrt(32)
    p = np.exp(s) * mask.transpose(0, 2, 1)[:, :, None, :]
    o = np.einsum("bghk,bkgd->bghd", p / p.sum(-1, keepdims=True), V)
    return {"Output": o.reshape(2, 8, 32)}
