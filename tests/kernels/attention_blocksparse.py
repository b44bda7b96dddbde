"""Causal attention that skips blocks of keys which a mask leaves out."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "blocksparse_attention",
    "arguments": {"batch": 1, "heads": 2, "seq_q": 96, "seq_kv": 640, "dim": 32, "downsample_len": 20,
                  "is_causal": True, "block": 32},
    "types": {"Q": "float16", "K": "float16", "V": "float16", "BlockSparseMask": "int8", "Output": "float16"},
    "tolerance": 3e-3,
}


@tilelang.jit(out_idx=[4], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def blocksparse_attention(batch, heads, seq_q, seq_kv, dim, downsample_len, is_causal, block=64):
    block_M = block_N = block
    num_stages = 1
    threads = 64
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    dtype, accum_dtype, block_mask_dtype = T.float16, T.float32, T.int8
    q_shape, kv_shape = [batch, heads, seq_q, dim], [batch, heads, seq_kv, dim]
    block_mask_shape = [batch, heads, downsample_len, downsample_len]

    def kernel_func():
        @T.macro
        def online(acc_s, acc_s_cast, m, m_prev, alpha, row_sum, logsum):
            T.copy(m, m_prev)
            T.fill(m, -T.infinity(accum_dtype))
            T.reduce_max(acc_s, m, dim=1, clear=False)
            for i in T.Parallel(block_M):
                m[i] = T.max(m[i], m_prev[i])
            for i in T.Parallel(block_M):
                alpha[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
            for i, j in T.Parallel(block_M, block_N):
                acc_s[i, j] = T.exp2(acc_s[i, j] * scale - m[i] * scale)
            T.reduce_sum(acc_s, row_sum, dim=1)
            for i in T.Parallel(block_M):
                logsum[i] = logsum[i] * alpha[i] + row_sum[i]
            T.copy(acc_s, acc_s_cast)

        @T.prim_func
        def main(Q: T.Tensor(q_shape, dtype), K: T.Tensor(kv_shape, dtype), V: T.Tensor(kv_shape, dtype),
                 BlockSparseMask: T.Tensor(block_mask_shape, block_mask_dtype), Output: T.Tensor(q_shape, dtype)):
            with T.Kernel(T.ceildiv(seq_q, block_M), heads, batch, threads=threads) as (bx, by, bz):
                Q_shared = T.alloc_shared([block_M, dim], dtype)
                K_shared = T.alloc_shared([block_N, dim], dtype)
                V_shared = T.alloc_shared([block_N, dim], dtype)
                acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
                acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
                acc_o = T.alloc_fragment([block_M, dim], accum_dtype)
                m = T.alloc_fragment([block_M], accum_dtype)
                m_prev = T.alloc_fragment([block_M], accum_dtype)
                alpha = T.alloc_fragment([block_M], accum_dtype)
                row_sum = T.alloc_fragment([block_M], accum_dtype)
                logsum = T.alloc_fragment([block_M], accum_dtype)
                block_mask = T.alloc_local([downsample_len], block_mask_dtype)
                T.copy(Q[bz, by, bx * block_M:(bx + 1) * block_M, :], Q_shared)
                T.fill(acc_o, 0)
                T.fill(logsum, 0)
                T.fill(m, -T.infinity(accum_dtype))
                for vj in T.serial(downsample_len):
                    block_mask[vj] = BlockSparseMask[bz, by, bx, vj]
                loop_range = T.ceildiv(seq_kv, block_N)
                for k in T.Pipelined(loop_range, num_stages=num_stages):
                    if block_mask[k] != 0:
                        T.copy(K[bz, by, k * block_N:(k + 1) * block_N, :], K_shared)
                        if is_causal:
                            past_len = seq_kv - seq_q
                            for i, j in T.Parallel(block_M, block_N):
                                acc_s[i, j] = T.if_then_else(
                                    bx * block_M + i + past_len >= k * block_N + j, 0, -T.infinity(acc_s.dtype))
                        else:
                            T.clear(acc_s)
                        T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                        online(acc_s, acc_s_cast, m, m_prev, alpha, row_sum, logsum)
                        for i, j in T.Parallel(block_M, dim):
                            acc_o[i, j] *= alpha[i]
                        T.copy(V[bz, by, k * block_N:(k + 1) * block_N, :], V_shared)
                        T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] /= logsum[i]
                T.copy(acc_o, Output[bz, by, bx * block_M:(bx + 1) * block_M, :])

        return main

    return kernel_func()


def inputs(rng):
    """As many blocks of keys as a loop is not unrolled for."""
    mask = rng.integers(0, 2, (1, 2, 20, 20))
    mask[:, :, :, 0] = 1  # no row without a key
    shape = (1, 2, 640, 32)
    return {"Q": rng.standard_normal((1, 2, 96, 32)), "K": rng.standard_normal(shape),
            "V": rng.standard_normal(shape), "BlockSparseMask": mask}


def reference(Q, K, V, BlockSparseMask):
    mask = np.kron(BlockSparseMask[:, :, :3], np.ones((32, 32))) * np.tri(96, 640, 544)
    p = np.exp(Q @ K.swapaxes(2, 3) / np.sqrt(32)) * mask
    return {"Output": p / p.sum(-1, keepdims=True) @ V}
