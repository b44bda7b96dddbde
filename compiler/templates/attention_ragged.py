"""Attention of a batch of sequences of lengths of their own, in tensors [batch, longest, heads, dim]; what is behind an end is zero."""
import math

import tilelang
import tilelang.language as T


# As attention.py, but that sequence b has lengths_q[b] queries and lengths_kv[b] keys, known when the
# kernel runs. Causal: the last of its queries sees all its keys, each earlier one fewer. Queries
# that see no key get zeros, as do those behind the end.
@tilelang.jit(out_idx=[5], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def attention_ragged(batch, heads, kv_heads, seq_q, seq_kv, dim, is_causal=False, dtype="float16",
                     block_M=128, block_N=64, num_stages=2, threads=256):
    assert heads % kv_heads == 0, "each head of keys serves as many heads of queries"
    group = heads // kv_heads
    scale = (1.0 / dim) ** 0.5 * math.log2(math.e)
    q_shape = [batch, seq_q, heads, dim]
    kv_shape = [batch, seq_kv, kv_heads, dim]
    accum = "float32"
    none = -1e30  # seen: less than any product, but no infinity, whose differences are no numbers

    @T.prim_func
    def main(Q: T.Tensor(q_shape, dtype), K: T.Tensor(kv_shape, dtype),
             V: T.Tensor(kv_shape, dtype), lengths_q: T.Tensor((batch,), "int32"),
             lengths_kv: T.Tensor((batch,), "int32"), Out: T.Tensor(q_shape, dtype)):
        with T.Kernel(T.ceildiv(seq_q, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_tile = T.alloc_shared([block_M, dim], dtype)
            K_tile = T.alloc_shared([block_N, dim], dtype)
            V_tile = T.alloc_shared([block_N, dim], dtype)
            S = T.alloc_fragment([block_M, block_N], accum)
            P = T.alloc_fragment([block_M, block_N], dtype)
            O = T.alloc_fragment([block_M, dim], accum)
            m = T.alloc_fragment([block_M], accum)
            m_old = T.alloc_fragment([block_M], accum)
            alpha = T.alloc_fragment([block_M], accum)
            row_sum = T.alloc_fragment([block_M], accum)
            total = T.alloc_fragment([block_M], accum)
            first = bx * block_M
            queries = T.min(T.max(lengths_q[bz], 0), seq_q)
            keys = T.min(T.max(lengths_kv[bz], 0), seq_kv)
            past = keys - queries
            seen = keys
            if is_causal:
                seen = T.max(T.min(keys, first + block_M + past), 0)
            steps = T.if_then_else(first < queries, T.ceildiv(seen, block_N), 0)
            T.copy(Q[bz, first:first + block_M, by, :], Q_tile)
            T.clear(O)
            T.clear(total)
            T.fill(m, none)
            for k in T.Pipelined(steps, num_stages=num_stages):
                T.copy(K[bz, k * block_N:(k + 1) * block_N, by // group, :], K_tile)
                T.gemm(Q_tile, K_tile, S, transpose_B=True, clear_accum=True,
                       policy=T.GemmWarpPolicy.FullRow)
                if is_causal:
                    if (k + 1) * block_N > T.min(first + past + 1, keys):
                        for i, j in T.Parallel(block_M, block_N):
                            S[i, j] = T.if_then_else(
                                first + i + past >= k * block_N + j and k * block_N + j < keys,
                                S[i, j], -T.infinity(accum))
                else:
                    if (k + 1) * block_N > keys:
                        for i, j in T.Parallel(block_M, block_N):
                            S[i, j] = T.if_then_else(k * block_N + j < keys, S[i, j],
                                                     -T.infinity(accum))
                T.copy(m, m_old)
                T.reduce_max(S, m, dim=1, clear=False)
                for i in T.Parallel(block_M):  # of none seen yet: 1, also where products are fused
                    alpha[i] = T.exp2((m_old[i] - m[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    S[i, j] = T.exp2(S[i, j] * scale - m[i] * scale)
                T.reduce_sum(S, row_sum, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * alpha[i] + row_sum[i]
                T.copy(S, P)
                for i, j in T.Parallel(block_M, dim):
                    O[i, j] *= alpha[i]
                T.copy(V[bz, k * block_N:(k + 1) * block_N, by // group, :], V_tile)
                T.gemm(P, V_tile, O, policy=T.GemmWarpPolicy.FullRow)
            for i in T.Parallel(block_M):
                total[i] = T.if_then_else(total[i] > 0 and first + i < queries, 1.0 / total[i], 0)
            for i, j in T.Parallel(block_M, dim):
                O[i, j] *= total[i]
            T.copy(O, Out[bz, first:first + block_M, by, :])

    return main
