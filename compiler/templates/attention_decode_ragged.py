"""Attention of one query a sequence, each of a length of its own in tensors [batch, longest, heads, dim]."""
import math

import tilelang
import tilelang.language as T


# As attention_decode.py, but that sequence b has lengths[b] keys, known when the kernel runs; blocks
# share each by itself. A sequence without keys gets zeros.
@tilelang.jit(out_idx=[4], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def attention_decode_ragged(batch, heads, kv_heads, length, dim, dtype="float16",
                            split=8, block_H=64, block_N=64, num_stages=2, threads=128):
    assert heads % kv_heads == 0, "each head of keys serves as many heads of queries"
    group = heads // kv_heads
    assert group <= block_H, f"{group} heads share keys, more than block_H={block_H}"
    scale = (1.0 / dim) ** 0.5 * math.log2(math.e)
    accum = "float32"

    @T.prim_func
    def main(Q: T.Tensor((batch, kv_heads, group, dim), dtype),
             K: T.Tensor((batch, length, kv_heads, dim), dtype),
             V: T.Tensor((batch, length, kv_heads, dim), dtype),
             lengths: T.Tensor((batch,), "int32"),
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
            keys = T.min(T.max(lengths[bz], 0), length)
            begin = bx * T.ceildiv(keys, split * block_N) * block_N  # of this block's share
            end = T.min(begin + T.ceildiv(keys, split * block_N) * block_N, keys)
            T.copy(Q[bz, by, 0:block_H, :], Q_tile)
            T.clear(O)
            T.clear(total)
            T.fill(m, -1e30)
            for k in T.Pipelined(T.ceildiv(T.max(end - begin, 0), block_N), num_stages=num_stages):
                T.copy(K[bz, begin + k * block_N:begin + (k + 1) * block_N, by, :], K_tile)
                T.gemm(Q_tile, K_tile, S, transpose_B=True, clear_accum=True,
                       policy=T.GemmWarpPolicy.FullRow)
                if begin + (k + 1) * block_N > end:
                    for i, j in T.Parallel(block_H, block_N):
                        S[i, j] = T.if_then_else(begin + k * block_N + j < end, S[i, j],
                                                 -T.infinity(accum))
                T.copy(m, m_old)
                T.reduce_max(S, m, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    alpha[i] = T.exp2((m_old[i] - m[i]) * scale)
                for i, j in T.Parallel(block_H, block_N):
                    S[i, j] = T.exp2(S[i, j] * scale - m[i] * scale)
                T.reduce_sum(S, row_sum, dim=1)
                for i in T.Parallel(block_H):
                    total[i] = total[i] * alpha[i] + row_sum[i]
                T.copy(S, P)
                for i, j in T.Parallel(block_H, dim):
                    O[i, j] *= alpha[i]
                T.copy(V[bz, begin + k * block_N:begin + (k + 1) * block_N, by, :], V_tile)
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
