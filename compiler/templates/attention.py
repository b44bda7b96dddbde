"""Out = softmax(Q K^T / sqrt(dim)) V, head by head, with an online softmax; tensors are [batch, sequence, heads, dim]."""
import math

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[3], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def attention(batch, heads, kv_heads, seq_q, seq_kv, dim, is_causal=False, dtype="float16",
              block_M=128, block_N=128, num_stages=2, threads=256):
    # With fewer heads of keys than of queries, neighbours share one. Causal: the last query sees
    # all keys, each earlier one fewer.
    assert heads % kv_heads == 0, "each head of keys serves as many heads of queries"
    past = seq_kv - seq_q
    assert past >= 0 or not is_causal, "causal attention takes at least as many keys as queries"
    group = heads // kv_heads
    scale = (1.0 / dim) ** 0.5 * math.log2(math.e)
    q_shape = [batch, seq_q, heads, dim]
    kv_shape = [batch, seq_kv, kv_heads, dim]
    accum = "float32"
    rows = (seq_q + block_M - 1) // block_M
    steps = (seq_kv + block_N - 1) // block_N

    @T.prim_func
    def main(Q: T.Tensor(q_shape, dtype), K: T.Tensor(kv_shape, dtype),
             V: T.Tensor(kv_shape, dtype), Out: T.Tensor(q_shape, dtype)):
        with T.Kernel(rows, heads, batch, threads=threads) as (bx, by, bz):
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
            # Blocks with the most keys start first.
            first = (rows - 1 - bx) * block_M if is_causal else bx * block_M
            T.copy(Q[bz, first:first + block_M, by, :], Q_tile)
            T.clear(O)
            T.clear(total)
            T.fill(m, -T.infinity(accum))
            seen = (T.min(steps, T.ceildiv(first + block_M + past, block_N)) if is_causal
                    else steps)
            for k in T.Pipelined(seen, num_stages=num_stages):
                T.copy(K[bz, k * block_N:(k + 1) * block_N, by // group, :], K_tile)
                T.gemm(Q_tile, K_tile, S, transpose_B=True, clear_accum=True,
                       policy=T.GemmWarpPolicy.FullRow)
                if is_causal:
                    if (k + 1) * block_N > first + past + 1:
                        for i, j in T.Parallel(block_M, block_N):
                            S[i, j] = T.if_then_else(first + i + past >= k * block_N + j, S[i, j],
                                                     -T.infinity(accum))
                else:
                    if (k + 1) * block_N > seq_kv:  # never, where blocks divide the keys
                        for i, j in T.Parallel(block_M, block_N):
                            S[i, j] = T.if_then_else(k * block_N + j < seq_kv, S[i, j],
                                                     -T.infinity(accum))
                T.copy(m, m_old)
                T.reduce_max(S, m, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    alpha[i] = T.exp2(m_old[i] * scale - m[i] * scale)
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
                total[i] = 1.0 / total[i]
            for i, j in T.Parallel(block_M, dim):
                O[i, j] *= total[i]
            T.copy(O, Out[bz, first:first + block_M, by, :])

    return main
