"""Gated delta rule, A = beta K K^T below the diagonal, faded by the gates between the two steps."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "scaled_dot_kkt",
    "arguments": {"B": 1, "S": 96, "H": 2, "DK": 64, "chunk_size": 32, "use_g": True, "block_DK": 32},
    "types": {"K": "bfloat16", "Beta": "bfloat16", "G": "float32", "A": "float32"},
    "tolerance": 2e-2,
}


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def scaled_dot_kkt(B, S, H, DK, chunk_size=64, input_dtype=T.bfloat16, output_dtype=T.float32,
                   accum_dtype=T.float32, use_g=True, block_DK=64, threads=64, num_stages=2):
    K_shape = (B, S, H, DK)
    Beta_shape = (B, S, H)
    output_shape = (B, S, H, chunk_size)
    block_S = chunk_size

    @T.prim_func
    def kernel(K: T.Tensor(K_shape, dtype=input_dtype), Beta: T.Tensor(Beta_shape, dtype=input_dtype),
               G: T.Tensor(Beta_shape, dtype=accum_dtype), A: T.Tensor(output_shape, dtype=output_dtype)):
        with T.Kernel(T.ceildiv(S, block_S), B * H, threads=threads) as (bs, bbh):
            bb, bh = bbh // H, bbh % H
            Beta_shared = T.alloc_shared((block_S,), dtype=input_dtype, scope="shared")
            K_shared = T.alloc_shared((block_S, block_DK), dtype=input_dtype)
            A_shared = T.alloc_shared((block_S, block_S), dtype=output_dtype)
            Beta_K = T.alloc_fragment((block_S, block_DK), dtype=input_dtype)
            A_fragment = T.alloc_fragment((block_S, block_S), dtype=accum_dtype)
            G_shared = T.alloc_shared((block_S,), dtype=accum_dtype, scope="shared")
            G_diff = T.alloc_fragment((block_S, block_S), dtype=accum_dtype)
            T.fill(A_fragment, 0)
            T.disable_warp_group_reg_alloc()
            for i_s in T.Parallel(block_S):
                Beta_shared[i_s] = Beta[bb, bs * block_S + i_s, bh]
            for i_k in T.Pipelined(T.ceildiv(DK, block_DK), num_stages=num_stages):
                T.copy(K[bb, bs * block_S:(bs + 1) * block_S, bh, i_k * block_DK:(i_k + 1) * block_DK], K_shared)
                for i_s, i_k2 in T.Parallel(block_S, block_DK):
                    Beta_K[i_s, i_k2] = K_shared[i_s, i_k2] * Beta_shared[i_s]
                T.gemm(Beta_K, K_shared, A_fragment, transpose_B=True)
            if use_g:
                for i_s in T.Parallel(block_S):
                    G_shared[i_s] = G[bb, bs * block_S + i_s, bh]
                for i, j in T.Parallel(block_S, block_S):
                    G_diff[i, j] = G_shared[i] - G_shared[j]
                for i, j in T.Parallel(block_S, block_S):
                    if G_diff[i, j] <= 0 and i > j:
                        A_fragment[i, j] = A_fragment[i, j] * T.exp(G_diff[i, j])
                    else:
                        A_fragment[i, j] = 0
            else:
                for i, j in T.Parallel(block_S, block_S):
                    A_fragment[i, j] = T.if_then_else(i > j, A_fragment[i, j], 0)
            T.copy(A_fragment, A_shared)
            T.copy(A_shared, A[bb, bs * block_S:(bs + 1) * block_S, bh, :])

    return kernel


def inputs(rng):
    G = -rng.uniform(0, 0.1, (1, 3, 32, 2)).cumsum(2).reshape(1, 96, 2)
    return {"K": rng.standard_normal((1, 96, 2, 64)) / 8, "Beta": rng.uniform(0, 1, (1, 96, 2)), "G": G}


def reference(K, Beta, G):
    k, beta, g = K.reshape(1, 3, 32, 2, 64), Beta.reshape(1, 3, 32, 2), G.reshape(1, 3, 32, 2)
    a = np.einsum("bcihd,bcjhd,bcih->bcihj", k, k, beta)
    fade = np.exp(np.minimum(g[:, :, :, :, None] - g.transpose(0, 1, 3, 2)[:, :, None], 0))
    return {"A": (a * fade * np.tri(32, 32, -1)[:, None, :]).reshape(1, 96, 2, 32)}
