#: batch=1 heads=2 seq_q=256 seq_kv=256 dim=64 is_causal=True
#: batch=1 heads=2 seq_q=128 seq_kv=256 dim=64 is_causal=False block_M=64
#: batch=1 heads=2 seq_q=256 seq_kv=256 dim=64 is_causal=True open:block_M,block_N,num_stages,threads
"""Attention forward with an online softmax; keys and values stream through shared memory."""
import math

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[3], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def attention(batch, heads, seq_q, seq_kv, dim, is_causal, dtype="float16",
              block_M=128, block_N=64, num_stages=2, threads=128):
    scale = (1.0 / dim) ** 0.5 * math.log2(math.e)
    q_shape = [batch, seq_q, heads, dim]
    kv_shape = [batch, seq_kv, heads, dim]
    accum = "float"
    past = seq_kv - seq_q
    assert past >= 0, "queries cannot outnumber keys"

    @T.macro
    def scores(K, Q_tile, K_tile, S, k, bx, by, bz):
        T.copy(K[bz, k * block_N:(k + 1) * block_N, by, :], K_tile)
        if is_causal:
            for i, j in T.Parallel(block_M, block_N):
                S[i, j] = T.if_then_else(bx * block_M + i + past >= k * block_N + j, 0,
                                         -T.infinity(S.dtype))
        else:
            T.clear(S)
        T.gemm(Q_tile, K_tile, S, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)

    @T.macro
    def rescale(S, P, m, m_old, alpha, row_sum, total):
        T.copy(m, m_old)
        T.fill(m, -T.infinity(accum))
        T.reduce_max(S, m, dim=1, clear=False)
        for i in T.Parallel(block_M):
            m[i] = T.max(m[i], m_old[i])
            alpha[i] = T.exp2(m_old[i] * scale - m[i] * scale)
        for i, j in T.Parallel(block_M, block_N):
            S[i, j] = T.exp2(S[i, j] * scale - m[i] * scale)
        T.reduce_sum(S, row_sum, dim=1)
        for i in T.Parallel(block_M):
            total[i] = total[i] * alpha[i] + row_sum[i]
        T.copy(S, P)

    @T.prim_func
    def main(Q: T.Tensor(q_shape, dtype), K: T.Tensor(kv_shape, dtype),
             V: T.Tensor(kv_shape, dtype), Out: T.Tensor(q_shape, dtype)):
        with T.Kernel(T.ceildiv(seq_q, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_tile = T.alloc_shared([block_M, dim], dtype)
            K_tile = T.alloc_shared([block_N, dim], dtype)
            V_tile = T.alloc_shared([block_N, dim], dtype)
            S = T.alloc_fragment([block_M, block_N], accum)
            P = T.alloc_fragment([block_M, block_N], dtype)
            O = T.alloc_fragment([block_M, dim], accum)
            m, m_old, alpha, row_sum, total = [
                T.alloc_fragment([block_M], accum) for _ in range(5)]
            T.annotate_layout({Q_tile: tilelang.layout.make_swizzled_layout(Q_tile)})
            T.copy(Q[bz, bx * block_M:(bx + 1) * block_M, by, :], Q_tile)
            T.clear(O)
            T.clear(total)
            T.fill(m, -T.infinity(accum))
            steps = (T.min(T.ceildiv(seq_kv, block_N),
                           T.ceildiv((bx + 1) * block_M + past, block_N))
                     if is_causal else T.ceildiv(seq_kv, block_N))
            for k in T.Pipelined(steps, num_stages=num_stages):
                scores(K, Q_tile, K_tile, S, k, bx, by, bz)
                rescale(S, P, m, m_old, alpha, row_sum, total)
                for i, j in T.Parallel(block_M, dim):
                    O[i, j] *= alpha[i]
                T.copy(V[bz, k * block_N:(k + 1) * block_N, by, :], V_tile)
                T.gemm(P, V_tile, O, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                O[i, j] /= total[i]
            T.copy(O, Out[bz, bx * block_M:(bx + 1) * block_M, by, :])

    return main


if __name__ == "__main__":
    import torch
    kernel = attention(1, 2, 256, 256, 64, True)
    print(kernel.get_kernel_source(), file=open("/dev/null", "w"))
