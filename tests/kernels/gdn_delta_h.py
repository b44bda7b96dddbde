"""Gated delta rule, the states: each chunk corrects its values by what the state predicts, fades the state and adds
its own."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "delta_h",
    "arguments": {"B": 1, "S": 96, "H": 2, "DK": 32, "DV": 64, "chunk_size": 32, "use_g": True,
                  "use_initial_state": True, "store_final_state": True, "save_new_value": True, "block_DV": 32},
    "types": {"K": "bfloat16", "W": "bfloat16", "U": "bfloat16", "G": "float32", "initial_state": "bfloat16",
              "h": "bfloat16", "final_state": "float32", "V_new": "bfloat16"},
    "tolerance": 3e-2,
}


@tilelang.autotune(configs=[dict(block_DV=v, threads=t) for v in (32, 64) for t in (128, 256)])
@tilelang.jit(out_idx=[-3, -2, -1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def delta_h(B, S, H, DK, DV, chunk_size, use_g, use_initial_state, store_final_state, save_new_value,
            input_dtype="bfloat16", gate_dtype="float32", state_dtype="float32", accum_dtype="float32",
            block_DV=32, threads=64, num_stages=1):
    block_S = chunk_size
    BS = S // block_S

    @T.prim_func
    def kernel(K: T.Tensor((B, S, H, DK), dtype=input_dtype), W: T.Tensor((B, S, H, DK), dtype=input_dtype),
               U: T.Tensor((B, S, H, DV), dtype=input_dtype), G: T.Tensor((B, S, H), dtype=gate_dtype),
               initial_state: T.Tensor((B, H, DK, DV), dtype=input_dtype),
               h: T.Tensor((B, BS, H, DK, DV), dtype=input_dtype),
               final_state: T.Tensor((B, H, DK, DV), dtype=state_dtype),
               V_new: T.Tensor((B, S, H, DV), dtype=input_dtype)):
        with T.Kernel(T.ceildiv(DV, block_DV), B * H, threads=threads) as (bv, bbh):
            bb, bh = bbh // H, bbh % H
            b_h_shared = T.alloc_shared((DK, block_DV), dtype=input_dtype)
            b_h = T.alloc_fragment((DK, block_DV), dtype=accum_dtype)
            U_shared = T.alloc_shared((block_S, block_DV), dtype=input_dtype)
            U_fragment = T.alloc_fragment((block_S, block_DV), dtype=accum_dtype)
            W_shared = T.alloc_shared((block_S, DK), dtype=input_dtype)
            v_new = T.alloc_fragment((block_S, block_DV), dtype=accum_dtype)
            v_new_shared = T.alloc_shared((block_S, block_DV), dtype=input_dtype)
            K_shared = T.alloc_shared((block_S, DK), dtype=input_dtype)
            G_last = T.alloc_var(T.float32)
            G_shared = T.alloc_shared((block_S, block_DV), dtype=gate_dtype)
            G_fragment = T.alloc_fragment((block_S, block_DV), dtype=gate_dtype)
            T.annotate_layout({
                U_shared: tilelang.layout.make_swizzled_layout(U_shared),
                G_shared: tilelang.layout.make_swizzled_layout(G_shared),
            })
            T.use_swizzle(10)
            if use_initial_state:
                T.copy(initial_state[bb, bh, 0:DK, bv * block_DV:(bv + 1) * block_DV], b_h_shared)
                T.copy(b_h_shared, b_h)
            else:
                T.clear(b_h)
                T.clear(b_h_shared)
            for i_s in T.Pipelined(T.ceildiv(S, block_S), num_stages=num_stages):
                T.copy(b_h_shared, h[bb, i_s, bh, 0:DK, bv * block_DV:(bv + 1) * block_DV])
                T.copy(W[bb, i_s * block_S:(i_s + 1) * block_S, bh, 0:DK], W_shared)
                T.gemm(W_shared, b_h_shared, v_new, clear_accum=True)
                T.copy(U[bb, i_s * block_S:(i_s + 1) * block_S, bh, bv * block_DV:(bv + 1) * block_DV], U_shared)
                T.copy(U_shared, U_fragment)
                for i, j in T.Parallel(block_S, block_DV):
                    v_new[i, j] = -v_new[i, j] + U_fragment[i, j]
                if save_new_value:
                    T.copy(v_new, dst=v_new_shared)
                    T.copy(v_new_shared,
                           V_new[bb, i_s * block_S:(i_s + 1) * block_S, bh, bv * block_DV:(bv + 1) * block_DV])
                T.copy(K[bb, i_s * block_S:(i_s + 1) * block_S, bh, 0:DK], K_shared)
                if use_g:
                    G_last = G[bb, (i_s + 1) * block_S - 1, bh]
                    for i, j in T.Parallel(block_S, block_DV):
                        G_shared[i, j] = G[bb, i_s * block_S + i, bh]
                    T.copy(G_shared, G_fragment)
                    for i, j in T.Parallel(block_S, block_DV):
                        v_new[i, j] = (v_new[i, j] * T.exp2((G_last - G_fragment[i, j]) * 1.442695)
                                       if G_last - G_fragment[i, j] <= 0 else 0)
                    G_last = T.exp2(G_last * 1.442695)
                    for i, j in T.Parallel(DK, block_DV):
                        b_h[i, j] *= G_last
                T.copy(v_new, v_new_shared)
                T.gemm(K_shared, v_new_shared, b_h, transpose_A=True)
                T.copy(b_h, b_h_shared)
            if store_final_state:
                T.copy(b_h, final_state[bb, bh, 0:DK, bv * block_DV:(bv + 1) * block_DV])

    return kernel


def inputs(rng):
    G = -rng.uniform(0, 0.1, (1, 3, 32, 2)).cumsum(2).reshape(1, 96, 2)
    return {"K": rng.standard_normal((1, 96, 2, 32)) / 6, "W": rng.standard_normal((1, 96, 2, 32)) / 6,
            "U": rng.standard_normal((1, 96, 2, 64)), "G": G, "initial_state": rng.standard_normal((1, 2, 32, 64))}


def reference(K, W, U, G, initial_state):
    state = initial_state.copy()
    h, values = [], []
    for c in range(3):
        k, w, u, g = (x[:, 32 * c:32 * c + 32] for x in (K, W, U, G))
        h.append(round_to(state, "bfloat16"))
        v = u - np.einsum("bshk,bhkv->bshv", w, h[-1])
        values.append(v)
        fade = np.exp(g[:, -1:] - g)
        state = state * np.exp(g[:, -1])[..., None, None] + np.einsum("bshk,bshv->bhkv", k, v * fade[..., None])
    return {"h": np.stack(h, 1), "final_state": state, "V_new": np.concatenate(values, 1)}
