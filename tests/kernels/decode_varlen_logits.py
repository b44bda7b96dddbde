"""Decoding over a packed cache with the largest weight of each block of keys written too, and a sink; lengths differ
by request."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "decode_logits",
    "arguments": {"batch": 2, "heads": 8, "k_heads": 2, "max_seqlen_kv": 96, "total_seqlen_k": 130, "dim": 32,
                  "has_sink": True},
    "types": {"Q": "float16", "K": "float16", "V": "float16", "cu_k": "int32", "s_aux": "float32",
              "O": "float16", "S": "float16"},
    "tolerance": 4e-3,
}


@tilelang.jit(out_idx=[-2, -1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def decode_logits(batch, heads, k_heads, max_seqlen_kv, total_seqlen_k, dim, has_sink, block_N=32, block_H=16,
                  num_stages=1, threads=64):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    dtype, accum_dtype = T.float16, T.float32
    kv_group_num = heads // k_heads
    valid_block_H = min(block_H, kv_group_num)
    blocks = T.ceildiv(max_seqlen_kv, block_N)

    @T.prim_func
    def main(Q: T.Tensor([batch, heads, dim], dtype), K: T.Tensor([total_seqlen_k, k_heads, dim], dtype),
             V: T.Tensor([total_seqlen_k, k_heads, dim], dtype), cu_k: T.Tensor([batch + 1], T.int32),
             s_aux: T.Tensor([heads], T.float32), O: T.Tensor([batch, heads, dim], dtype),
             S: T.Tensor([batch, heads, blocks], dtype)):
        with T.Kernel(batch, heads // valid_block_H, 1, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_H, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            S_shared = T.alloc_shared([block_H, blocks], dtype)
            S_fragment = T.alloc_fragment([block_H, blocks], accum_dtype)
            s_aux_shared = T.alloc_shared([block_H], T.float32)
            acc_s = T.alloc_fragment([block_H, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_H, block_N], dtype)
            acc_o = T.alloc_fragment([block_H, dim], accum_dtype)
            m = T.alloc_fragment([block_H], accum_dtype)
            m_prev = T.alloc_fragment([block_H], accum_dtype)
            alpha = T.alloc_fragment([block_H], accum_dtype)
            row_sum = T.alloc_fragment([block_H], accum_dtype)
            logsum = T.alloc_fragment([block_H], accum_dtype)
            first_head = by * valid_block_H
            kv_head = by
            start = cu_k[bx]
            length = cu_k[bx + 1] - cu_k[bx]
            T.copy(Q[bx, first_head:first_head + block_H, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(m, -T.infinity(accum_dtype))
            T.fill(S_shared, -T.infinity(dtype))
            for k in T.Pipelined(T.ceildiv(length, block_N), num_stages=num_stages):
                T.copy(K[start + k * block_N:start + (k + 1) * block_N, kv_head, :], K_shared)
                T.clear(acc_s)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_H, block_N):
                    acc_s[i, j] = T.if_then_else(k * block_N + j < length, acc_s[i, j], -T.infinity(accum_dtype))
                T.copy(m, m_prev)
                T.fill(m, -T.infinity(accum_dtype))
                T.reduce_max(acc_s, m, dim=1, clear=False)
                T.copy(m, S_shared[:, k])
                for i in T.Parallel(block_H):
                    m[i] = T.max(m[i], m_prev[i])
                    alpha[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
                for i, j in T.Parallel(block_H, block_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - m[i] * scale)
                T.reduce_sum(acc_s, row_sum, dim=1)
                for i in T.Parallel(block_H):
                    logsum[i] = logsum[i] * alpha[i] + row_sum[i]
                T.copy(acc_s, acc_s_cast)
                for i, j in T.Parallel(block_H, dim):
                    acc_o[i, j] *= alpha[i]
                T.copy(V[start + k * block_N:start + (k + 1) * block_N, kv_head, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            if has_sink:
                T.copy(s_aux[first_head:first_head + block_H], s_aux_shared)
                for i in T.Parallel(block_H):
                    logsum[i] += s_aux_shared[i]
            for i, j in T.Parallel(block_H, dim):
                acc_o[i, j] /= logsum[i]
            for h, k in T.Parallel(block_H, blocks):
                S_fragment[h, k] = T.exp2((S_shared[h, k] - m[h]) * scale) / logsum[h]
            for i, j in T.Parallel(block_H, dim):
                if i < valid_block_H:
                    O[bx, first_head + i, j] = acc_o[i, j]
            for h, k in T.Parallel(block_H, blocks):
                if h < valid_block_H:
                    S[bx, first_head + h, k] = S_fragment[h, k]

    return main


def inputs(rng):
    return {"Q": rng.standard_normal((2, 8, 32)), "K": rng.standard_normal((130, 2, 32)),
            "V": rng.standard_normal((130, 2, 32)), "cu_k": np.array([0, 41, 130]), "s_aux": rng.uniform(0, 1, 8)}


def reference(Q, K, V, cu_k, s_aux):
    out, top = np.zeros((2, 8, 32)), np.zeros((2, 8, 3))
    for b in range(2):
        for h in range(8):
            k, v = (x[cu_k[b]:cu_k[b + 1], h // 4] for x in (K, V))
            s = k @ Q[b, h] / np.sqrt(32)
            p = np.exp(s - s.max())
            total = p.sum() + s_aux[h]
            out[b, h] = p @ v / total
            for i in range(0, len(p), 32):
                top[b, h, i // 32] = p[i:i + 32].max() / total
    return {"O": out, "S": top}
