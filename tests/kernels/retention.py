"""Retention: linear attention whose past fades by a rate a head."""
import tilelang as tl
import tilelang.language as T

KERNEL = {
    "entry": "retention",
    "arguments": {"B": 1, "S": 96, "H": 3, "DK": 32, "DV": 32, "chunk_size": 32},
    "types": {"Q": "float16", "K": "float16", "V": "float16", "O": "float16"},
    "tolerance": 1e-2,
}


@tl.jit(out_idx=3, pass_configs={"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True})
def retention(B, S, H, DK, DV, dtype: str = "float16", scale: float = None, chunk_size=64):
    if scale is None:
        scale = DK ** -0.5
    accum_dtype = "float"
    BV = 32
    NV, NT = DV // BV, S // chunk_size

    @T.prim_func
    def main(Q: T.Tensor([B, S, H, DK], dtype), K: T.Tensor([B, S, H, DK], dtype),
             V: T.Tensor([B, S, H, DV], dtype), O: T.Tensor([B, S, H, DV], dtype)):
        with T.Kernel(NV, B * H, threads=64) as (i_v, i_bh):
            i_b = i_bh // H
            i_h = i_bh % H
            log_decay = T.alloc_var(T.float32)
            log_decay = T.log2(1 - T.exp2(-5.0 - 1.0 * i_h))
            q = T.alloc_shared([chunk_size, DK], dtype)
            k = T.alloc_shared([chunk_size, DK], dtype)
            v = T.alloc_shared([chunk_size, BV], dtype)
            h = T.alloc_fragment([DK, BV], accum_dtype)
            h_shared = T.alloc_shared([DK, BV], dtype)
            s = T.alloc_fragment([chunk_size, chunk_size], accum_dtype)
            s_shared = T.alloc_shared([chunk_size, chunk_size], dtype)
            o = T.alloc_fragment([chunk_size, BV], accum_dtype)
            T.clear(h)
            T.use_swizzle(10)
            for i in T.Pipelined(0, NT):
                for row, col in T.Parallel(chunk_size, DK):
                    q[row, col] = Q[i_b, i * chunk_size + row, i_h, col] * scale
                T.copy(K[i_b, i * chunk_size:(i + 1) * chunk_size, i_h, :], k)
                T.copy(V[i_b, i * chunk_size:(i + 1) * chunk_size, i_h, i_v * BV:(i_v + 1) * BV], v)
                T.gemm(q, k, s, clear_accum=True, transpose_B=True)
                for row, col in T.Parallel(chunk_size, chunk_size):
                    s_shared[row, col] = T.if_then_else(row >= col, s[row, col] * T.exp2((row - col) * log_decay),
                                                        0)
                T.copy(h, h_shared)
                T.gemm(q, h_shared, o, clear_accum=True)
                for row, col in T.Parallel(chunk_size, BV):
                    o[row, col] = T.exp2((row + 1) * log_decay) * o[row, col]
                T.gemm(s_shared, v, o)
                for row, col in T.Parallel(chunk_size, BV):
                    v[row, col] = v[row, col] * T.exp2((chunk_size - row - 1) * log_decay)
                for row, col in T.Parallel(DK, BV):
                    h[row, col] = T.exp2(chunk_size * log_decay) * h[row, col]
                T.copy(o, O[i_b, i * chunk_size:(i + 1) * chunk_size, i_h, i_v * BV:(i_v + 1) * BV])
                T.gemm(k, v, h, transpose_A=True)

    return main


def inputs(rng):
    return {n: rng.standard_normal((1, 96, 3, 32)) for n in ("Q", "K", "V")}


def reference(Q, K, V):
    at = np.arange(96)
    decay = (1 - 2.0 ** (-5 - np.arange(3)))[:, None, None] ** (at[:, None] - at[None, :]) * np.tri(96)
    s = np.einsum("bqhd,bkhd->bhqk", Q, K) / np.sqrt(32) * decay
    return {"O": np.einsum("bhqk,bkhd->bqhd", s, V)}
