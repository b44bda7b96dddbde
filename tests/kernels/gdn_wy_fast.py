"""Gated delta rule, the two products with the inverse: W = A (beta exp(g) K), U = A (beta V)."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "wy_fast",
    "arguments": {"B": 1, "S": 64, "H": 2, "DK": 64, "DV": 32, "chunk_size": 32, "block_DK": 32,
                  "block_DV": 32},
    "types": {"K": "bfloat16", "V": "bfloat16", "Beta": "bfloat16", "G": "float32", "A": "bfloat16",
              "W": "bfloat16", "U": "bfloat16"},
    "tolerance": 2e-2,
}


@tilelang.jit(out_idx=[-2, -1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def wy_fast(B, S, H, DK, DV, chunk_size, input_dtype="bfloat16", output_dtype="bfloat16", gate_dtype="float32",
            accum_dtype="float32", block_DK=64, block_DV=64, threads=64, num_stages=2):
    block_S = chunk_size
    BS = chunk_size

    @T.prim_func
    def kernel(K: T.Tensor((B, S, H, DK), dtype=input_dtype), V: T.Tensor((B, S, H, DV), dtype=input_dtype),
               Beta: T.Tensor((B, S, H), dtype=input_dtype), G: T.Tensor((B, S, H), dtype=gate_dtype),
               A: T.Tensor((B, S, H, BS), dtype=output_dtype), W: T.Tensor((B, S, H, DK), dtype=output_dtype),
               U: T.Tensor((B, S, H, DV), dtype=output_dtype)):
        with T.Kernel(T.ceildiv(S, block_S), B * H, threads=threads) as (bs, bbh):
            bb, bh = bbh // H, bbh % H
            Beta_shared = T.alloc_shared((block_S,), dtype=input_dtype, scope="shared")
            K_shared = T.alloc_shared((block_S, block_DK), dtype=input_dtype)
            V_shared = T.alloc_shared((block_S, block_DV), dtype=input_dtype)
            G_shared = T.alloc_shared((block_S,), dtype=gate_dtype, scope="shared")
            A_shared = T.alloc_shared((block_S, block_S), dtype=input_dtype)
            W_fragment = T.alloc_fragment((block_S, block_DK), dtype=accum_dtype)
            U_fragment = T.alloc_fragment((block_S, block_DV), dtype=accum_dtype)
            W_shared = T.alloc_shared((block_S, block_DK), dtype=output_dtype)
            U_shared = T.alloc_shared((block_S, block_DV), dtype=output_dtype)
            W_Beta_shared = T.alloc_shared((block_S, block_DK), dtype=input_dtype)
            U_Beta_shared = T.alloc_shared((block_S, block_DV), dtype=input_dtype)
            T.annotate_layout({
                K_shared: tilelang.layout.make_swizzled_layout(K_shared),
                A_shared: tilelang.layout.make_swizzled_layout(A_shared),
                W_shared: tilelang.layout.make_swizzled_layout(W_shared),
            })
            T.disable_warp_group_reg_alloc()
            for i_s in T.Parallel(block_S):
                Beta_shared[i_s] = Beta[bb, bs * block_S + i_s, bh]
                G_shared[i_s] = T.exp(G[bb, bs * block_S + i_s, bh])
            T.copy(A[bb, bs * block_S:(bs + 1) * block_S, bh, :], A_shared)
            for i_v in T.Pipelined(T.ceildiv(DV, block_DV), num_stages=num_stages):
                T.copy(V[bb, bs * block_S:(bs + 1) * block_S, bh, i_v * block_DV:(i_v + 1) * block_DV], V_shared)
                for i_s, i_v2 in T.Parallel(block_S, block_DV):
                    U_Beta_shared[i_s, i_v2] = V_shared[i_s, i_v2] * Beta_shared[i_s]
                T.gemm(A_shared, U_Beta_shared, U_fragment, clear_accum=True)
                T.copy(U_fragment, U_shared)
                T.copy(U_shared, U[bb, bs * block_S:(bs + 1) * block_S, bh, i_v * block_DV:(i_v + 1) * block_DV])
            for i_k in T.Pipelined(T.ceildiv(DK, block_DK), num_stages=num_stages):
                T.copy(K[bb, bs * block_S:(bs + 1) * block_S, bh, i_k * block_DK:(i_k + 1) * block_DK], K_shared)
                for i_s, i_k2 in T.Parallel(block_S, block_DK):
                    W_Beta_shared[i_s, i_k2] = K_shared[i_s, i_k2] * Beta_shared[i_s] * G_shared[i_s]
                T.gemm(A_shared, W_Beta_shared, W_fragment, clear_accum=True)
                T.copy(W_fragment, W_shared)
                T.copy(W_shared, W[bb, bs * block_S:(bs + 1) * block_S, bh, i_k * block_DK:(i_k + 1) * block_DK])

    return kernel


def inputs(rng):
    A = rng.standard_normal((1, 64, 2, 32)) * np.tile(np.tri(32), (2, 1))[None, :, None, :]
    G = -rng.uniform(0, 0.1, (1, 2, 32, 2)).cumsum(2).reshape(1, 64, 2)
    return {"K": rng.standard_normal((1, 64, 2, 64)), "V": rng.standard_normal((1, 64, 2, 32)),
            "Beta": rng.uniform(0, 1, (1, 64, 2)), "G": G, "A": A}


def reference(K, V, Beta, G, A):
    a = A.reshape(1, 2, 32, 2, 32)
    u = (V * Beta[..., None]).reshape(1, 2, 32, 2, 32)
    w = (K * (Beta * np.exp(G))[..., None]).reshape(1, 2, 32, 2, 64)
    return {"U": np.einsum("bcihj,bcjhd->bcihd", a, u).reshape(1, 64, 2, 32),
            "W": np.einsum("bcihj,bcjhd->bcihd", a, w).reshape(1, 64, 2, 64)}
