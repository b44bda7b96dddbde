"""Attention of one query a sequence: heads that share keys are the rows of a product, lengths are split."""
import math

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[3], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def attention_decode(batch, heads, kv_heads, length, dim, dtype="float16", split=8,
                     block_H=64, block_N=64, num_stages=2, threads=128):
    assert heads % kv_heads == 0, "each head of keys serves as many heads of queries"
    group = heads // kv_heads
    assert group <= block_H, f"{group} heads share keys, more than block_H={block_H}"
    scale = (1.0 / dim) ** 0.5 * math.log2(math.e)
    steps = (length + split * block_N - 1) // (split * block_N)
    chunk = steps * block_N
    accum = "float32"

    @T.prim_func
    def main(Q: T.Tensor((batch, kv_heads, group, dim), dtype),
             K: T.Tensor((batch, length, kv_heads, dim), dtype),
             V: T.Tensor((batch, length, kv_heads, dim), dtype),
             Out: T.Tensor((batch, kv_heads, group, dim), dtype)):
        partial = T.alloc_global((split, batch, kv_heads, block_H, dim), accum)
        weights = T.alloc_global((split, batch, kv_heads, block_H), accum)
        with T.Kernel(split, kv_heads, batch, threads=threads) as (bx, by, bz):
            Q_tile = T.alloc_shared((block_H, dim), dtype)
            K_tile = T.alloc_shared((block_N, dim), dtype)
            V_tile = T.alloc_shared((block_N, dim), dtype)
            S = T.alloc_fragment((block_H, block_N), accum)
            P = T.alloc_fragment((block_H, block_N), dtype)
            O = T.alloc_fragment((block_H, dim), accum)
            m = T.alloc_fragment((block_H,), accum)
            m_old = T.alloc_fragment((block_H,), accum)
            alpha = T.alloc_fragment((block_H,), accum)
            row_sum = T.alloc_fragment((block_H,), accum)
            total = T.alloc_fragment((block_H,), accum)
            T.copy(Q[bz, by, 0:block_H, :], Q_tile)
            T.clear(O)
            T.clear(total)
            T.fill(m, -1e30)
            for k in T.Pipelined(steps, num_stages=num_stages):
                T.copy(K[bz, bx * chunk + k * block_N:bx * chunk + (k + 1) * block_N, by, :], K_tile)
                T.gemm(Q_tile, K_tile, S, transpose_B=True, clear_accum=True,
                       policy=T.GemmWarpPolicy.FullRow)
                if bx * chunk + (k + 1) * block_N > length:  # never, where chunks divide the keys
                    for i, j in T.Parallel(block_H, block_N):
                        S[i, j] = T.if_then_else(bx * chunk + k * block_N + j < length, S[i, j],
                                                 -T.infinity(accum))
                T.copy(m, m_old)
                T.reduce_max(S, m, dim=1, clear=False)
                for i in T.Parallel(block_H):  # of none seen yet: 1, also where products are fused
                    alpha[i] = T.exp2((m_old[i] - m[i]) * scale)
                for i, j in T.Parallel(block_H, block_N):
                    S[i, j] = T.exp2(S[i, j] * scale - m[i] * scale)
                T.reduce_sum(S, row_sum, dim=1)
                for i in T.Parallel(block_H):
                    total[i] = total[i] * alpha[i] + row_sum[i]
                T.copy(S, P)
                for i, j in T.Parallel(block_H, dim):
                    O[i, j] *= alpha[i]
                T.copy(V[bz, bx * chunk + k * block_N:bx * chunk + (k + 1) * block_N, by, :], V_tile)
                T.gemm(P, V_tile, O, policy=T.GemmWarpPolicy.FullRow)
            for i in T.Parallel(block_H):
                total[i] = T.max(total[i], 1e-30)  # of no keys: zeros that weigh nothing
            for i, j in T.Parallel(block_H, dim):
                partial[bx, bz, by, i, j] = O[i, j] / total[i]
            for i in T.Parallel(block_H):
                weights[bx, bz, by, i] = T.log2(total[i]) + m[i] * scale
        with T.Kernel(group, kv_heads, batch, threads=dim) as (bx, by, bz):
            row = T.alloc_fragment((dim,), accum)
            most = T.alloc_var(accum, init=-T.infinity(accum))
            sums = T.alloc_var(accum, init=0.0)
            T.clear(row)
            for s in T.serial(split):
                most = T.max(most, weights[s, bz, by, bx])
            for s in T.serial(split):
                weight = T.exp2(weights[s, bz, by, bx] - most)
                sums += weight
                for j in T.Parallel(dim):
                    row[j] += partial[s, bz, by, bx, j] * weight
            for j in T.Parallel(dim):
                row[j] = row[j] / sums
            T.copy(row, Out[bz, by, bx, :])

    return main
