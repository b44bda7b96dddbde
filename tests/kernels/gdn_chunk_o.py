"""Gated delta rule, the outputs: what the state gives and what the chunk's own steps give, both faded."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "chunk_o",
    "arguments": {"B": 1, "S": 64, "H": 2, "DK": 64, "DV": 32, "chunk_size": 32, "scale": 0.125,
                  "block_DK": 32, "block_DV": 32},
    "types": {"Q": "bfloat16", "K": "bfloat16", "V": "bfloat16", "HIDDEN": "bfloat16", "G": "float32",
              "O": "bfloat16"},
    "tolerance": 2e-2,
}


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def chunk_o(B, S, H, DK, DV, chunk_size, scale, input_dtype="bfloat16", output_dtype="bfloat16",
            accum_dtype="float32", gate_dtype="float32", use_g=True, block_S=32, block_DK=64, block_DV=64,
            threads=64, num_stages=1):
    assert chunk_size == block_S, "a block is a chunk"
    BS = S // block_S

    @T.prim_func
    def kernel(Q: T.Tensor((B, S, H, DK), dtype=input_dtype), K: T.Tensor((B, S, H, DK), dtype=input_dtype),
               V: T.Tensor((B, S, H, DV), dtype=input_dtype),
               HIDDEN: T.Tensor((B, BS, H, DK, DV), dtype=input_dtype),
               G: T.Tensor((B, S, H), dtype=gate_dtype), O: T.Tensor((B, S, H, DV), dtype=output_dtype)):
        with T.Kernel(T.ceildiv(DV, block_DV), BS, B * H, threads=threads) as (bv, bs, bbh):
            bb, bh = bbh // H, bbh % H
            Q_shared = T.alloc_shared((block_S, block_DK), dtype=input_dtype)
            K_shared = T.alloc_shared((block_S, block_DK), dtype=input_dtype)
            V_shared = T.alloc_shared((block_S, block_DV), dtype=input_dtype)
            H_shared = T.alloc_shared((block_DK, block_DV), dtype=input_dtype)
            A_shared = T.alloc_shared((block_S, block_S), dtype=input_dtype)
            O_shared = T.alloc_shared((block_S, block_DV), dtype=output_dtype)
            A_fragment = T.alloc_fragment((block_S, block_S), dtype=accum_dtype)
            O_fragment = T.alloc_fragment((block_S, block_DV), dtype=accum_dtype)
            G_shared = T.alloc_shared((block_S,), dtype=gate_dtype, scope="shared")
            G_diff = T.alloc_fragment((block_S, block_S), dtype=gate_dtype)
            T.annotate_layout({
                Q_shared: tilelang.layout.make_swizzled_layout(Q_shared),
                O_shared: tilelang.layout.make_swizzled_layout(O_shared),
            })
            T.clear(A_fragment)
            T.clear(O_fragment)
            T.disable_warp_group_reg_alloc()
            for i_k in T.Pipelined(T.ceildiv(DK, block_DK), num_stages=num_stages):
                T.copy(Q[bb, bs * block_S:(bs + 1) * block_S, bh, i_k * block_DK:(i_k + 1) * block_DK], Q_shared)
                T.copy(K[bb, bs * block_S:(bs + 1) * block_S, bh, i_k * block_DK:(i_k + 1) * block_DK], K_shared)
                T.copy(HIDDEN[bb, bs, bh, i_k * block_DK:(i_k + 1) * block_DK, bv * block_DV:(bv + 1) * block_DV],
                       H_shared)
                T.gemm(Q_shared, H_shared, O_fragment)
                T.gemm(Q_shared, K_shared, A_fragment, transpose_B=True)
            if use_g:
                for i in T.Parallel(block_S):
                    G_shared[i] = G[bb, bs * block_S + i, bh]
                for i, j in T.Parallel(block_S, block_DV):
                    O_fragment[i, j] = O_fragment[i, j] * T.exp(G_shared[i])
                for i, j in T.Parallel(block_S, block_S):
                    G_diff[i, j] = G_shared[i] - G_shared[j]
                for i, j in T.Parallel(block_S, block_S):
                    A_fragment[i, j] = T.if_then_else(G_diff[i, j] <= 0, A_fragment[i, j] * T.exp(G_diff[i, j]), 0)
            for i, j in T.Parallel(block_S, block_S):
                A_fragment[i, j] = T.if_then_else(i < j, 0, A_fragment[i, j])
            T.copy(V[bb, bs * block_S:(bs + 1) * block_S, bh, bv * block_DV:(bv + 1) * block_DV], V_shared)
            T.copy(A_fragment, A_shared)
            T.gemm(A_shared, V_shared, O_fragment)
            for i, j in T.Parallel(block_S, block_DV):
                O_fragment[i, j] = O_fragment[i, j] * scale
            T.copy(O_fragment, O_shared)
            T.copy(O_shared, O[bb, bs * block_S:(bs + 1) * block_S, bh, bv * block_DV:(bv + 1) * block_DV])

    return kernel


def inputs(rng):
    G = -rng.uniform(0, 0.1, (1, 2, 32, 2)).cumsum(2).reshape(1, 64, 2)
    return {"Q": rng.standard_normal((1, 64, 2, 64)), "K": rng.standard_normal((1, 64, 2, 64)) / 4,
            "V": rng.standard_normal((1, 64, 2, 32)), "HIDDEN": rng.standard_normal((1, 2, 2, 64, 32)), "G": G}


def reference(Q, K, V, HIDDEN, G):
    q, k, v, g = (x.reshape(1, 2, 32, *x.shape[2:]) for x in (Q, K, V, G))
    past = np.einsum("bcihd,bchdv,bcih->bcihv", q, HIDDEN, np.exp(g))
    fade = np.exp(np.minimum(g[:, :, :, None] - g[:, :, None], 0)) * np.tri(32)[:, :, None]
    own = np.einsum("bcihd,bcjhd,bcijh,bcjhv->bcihv", q, k, fade, v)
    return {"O": (0.125 * (past + own)).reshape(1, 64, 2, 32)}
