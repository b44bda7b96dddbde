"""Causal linear attention: o_t = q_t sum_{s <= t} k_s v_s^T, chunk by chunk with a state in registers; blocks of
the key width add their parts."""
import tilelang as tl
import tilelang.language as T

KERNEL = {
    "entry": "linear_attn_fwd",
    "arguments": {"B": 1, "S": 96, "H": 2, "DK": 64, "DV": 32, "chunk_size": 32},
    "types": {"Q": "float16", "K": "float16", "V": "float16", "O": "float32", "final_state": "float32"},
    "tolerance": 5e-3,
}


@tl.jit(out_idx=[4], pass_configs={"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True})
def linear_attn_fwd(B, S, H, DK, DV, dtype: str = "float16", scale: float = None, chunk_size=64):
    if scale is None:
        scale = DK ** -0.5
    accum_dtype = "float"
    BK = BV = 32
    assert S % chunk_size == 0 and DK % BK == 0 and DV % BV == 0
    NK, NV, NT = DK // BK, DV // BV, S // chunk_size

    @T.prim_func
    def main(Q: T.Tensor([B, S, H, DK], dtype), K: T.Tensor([B, S, H, DK], dtype),
             V: T.Tensor([B, S, H, DV], dtype), O: T.Tensor([B, S, H, DV], accum_dtype),
             final_state: T.Tensor([B, H, DK, DV], accum_dtype)):
        with T.Kernel(NV, NK, B * H, threads=64) as (i_v, i_k, i_bh):
            i_b = i_bh // H
            i_h = i_bh % H
            q = T.alloc_shared([chunk_size, BK], dtype)
            k = T.alloc_shared([chunk_size, BK], dtype)
            v = T.alloc_shared([chunk_size, BV], dtype)
            h = T.alloc_fragment([BK, BV], accum_dtype)
            h_shared = T.alloc_shared([BK, BV], dtype)
            s = T.alloc_fragment([chunk_size, chunk_size], accum_dtype)
            s_shared = T.alloc_shared([chunk_size, chunk_size], dtype)
            o = T.alloc_fragment([chunk_size, BV], accum_dtype)
            o_shared = T.alloc_shared([chunk_size, BV], accum_dtype)
            T.annotate_layout({o_shared: tl.layout.make_swizzled_layout(o_shared)})
            T.use_swizzle(10)
            T.clear(h)
            for i in T.Pipelined(0, NT):
                for row, col in T.Parallel(chunk_size, BK):
                    q[row, col] = Q[i_b, i * chunk_size + row, i_h, i_k * BK + col] * scale
                T.copy(K[i_b, i * chunk_size:(i + 1) * chunk_size, i_h, i_k * BK:(i_k + 1) * BK], k)
                T.copy(V[i_b, i * chunk_size:(i + 1) * chunk_size, i_h, i_v * BV:(i_v + 1) * BV], v)
                T.gemm(q, k, s, clear_accum=True, transpose_B=True)
                for row, col in T.Parallel(chunk_size, chunk_size):
                    s_shared[row, col] = T.if_then_else(row >= col, s[row, col], 0)
                T.gemm(s_shared, v, o, clear_accum=True)
                T.copy(h, h_shared)
                T.gemm(k, v, h, transpose_A=True)
                T.gemm(q, h_shared, o)
                T.copy(o, o_shared)
                T.atomic_add(O[i_b, i * chunk_size:(i + 1) * chunk_size, i_h, i_v * BV:(i_v + 1) * BV], o_shared)
            T.copy(h, final_state[i_b, i_h, i_k * BK:(i_k + 1) * BK, i_v * BV:(i_v + 1) * BV])

    return main


def inputs(rng):
    return {"Q": rng.standard_normal((1, 96, 2, 64)), "K": rng.standard_normal((1, 96, 2, 64)) / 8,
            "V": rng.standard_normal((1, 96, 2, 32)), "O": np.zeros((1, 96, 2, 32))}


def reference(Q, K, V, O):
    s = np.einsum("bqhd,bkhd->bhqk", Q, K) / 8 * np.tri(96)
    return {"O": np.einsum("bhqk,bkhd->bqhd", s, V), "final_state": np.einsum("bshk,bshv->bhkv", K, V)}
