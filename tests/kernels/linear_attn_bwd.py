"""The gradients of causal linear attention: dQ with the state of what came before, then, backward over the chunks,
dK and dV with the state of what comes after."""
import tilelang as tl
import tilelang.language as T

KERNEL = {
    "entry": "linear_attn_bwd",
    "arguments": {"B": 1, "S": 64, "H": 2, "DK": 32, "DV": 32, "chunk_size": 32},
    "types": {"Q": "float16", "K": "float16", "V": "float16", "dO": "float16", "dQ": "float32", "dK": "float32",
              "dV": "float32"},
    "tolerance": 1e-2,
}


@tl.jit(pass_configs={"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True})
def linear_attn_bwd(B, S, H, DK, DV, dtype: str = "float16", scale: float = None, chunk_size=64):
    if scale is None:
        scale = DK ** -0.5
    accum_dtype = "float"
    BK = BV = 32
    NK, NV, NT = DK // BK, DV // BV, S // chunk_size

    @T.prim_func
    def main(Q: T.Tensor([B, S, H, DK], dtype), K: T.Tensor([B, S, H, DK], dtype),
             V: T.Tensor([B, S, H, DV], dtype), dO: T.Tensor([B, S, H, DV], dtype),
             dQ: T.Tensor([B, S, H, DK], accum_dtype), dK: T.Tensor([B, S, H, DK], accum_dtype),
             dV: T.Tensor([B, S, H, DV], accum_dtype)):
        with T.Kernel(NV, NK, B * H, threads=64) as (i_v, i_k, i_bh):
            i_b, i_h = i_bh // H, i_bh % H
            ds = T.alloc_fragment([chunk_size, chunk_size], accum_dtype)
            ds_shared = T.alloc_shared([chunk_size, chunk_size], dtype)
            dq = T.alloc_fragment([chunk_size, BK], accum_dtype)
            dq_shared = T.alloc_shared([chunk_size, BK], accum_dtype)
            dk = T.alloc_fragment([chunk_size, BK], accum_dtype)
            dk_shared = T.alloc_shared([chunk_size, BK], accum_dtype)
            dv = T.alloc_fragment([chunk_size, BV], accum_dtype)
            dv_shared = T.alloc_shared([chunk_size, BV], accum_dtype)
            h = T.alloc_fragment([BV, BK], accum_dtype)
            h_shared = T.alloc_shared([BV, BK], dtype)
            dh = T.alloc_fragment([BK, BV], accum_dtype)
            dh_shared = T.alloc_shared([BK, BV], dtype)
            q = T.alloc_shared([chunk_size, BK], dtype)
            k = T.alloc_shared([chunk_size, BK], dtype)
            v = T.alloc_shared([chunk_size, BV], dtype)
            do = T.alloc_shared([chunk_size, BV], dtype)
            T.annotate_layout({
                dq_shared: tl.layout.make_swizzled_layout(dq_shared),
                dk_shared: tl.layout.make_swizzled_layout(dk_shared),
            })
            T.use_swizzle(10)
            T.clear(h)
            T.clear(dh)

            for i in T.Pipelined(0, NT):
                T.copy(K[i_b, i * chunk_size:(i + 1) * chunk_size, i_h, i_k * BK:(i_k + 1) * BK], k)
                T.copy(V[i_b, i * chunk_size:(i + 1) * chunk_size, i_h, i_v * BV:(i_v + 1) * BV], v)
                T.copy(dO[i_b, i * chunk_size:(i + 1) * chunk_size, i_h, i_v * BV:(i_v + 1) * BV], do)
                T.gemm(do, v, ds, transpose_B=True, clear_accum=True)
                for row, col in T.Parallel(chunk_size, chunk_size):
                    ds_shared[row, col] = T.if_then_else(row >= col, ds[row, col], 0)
                T.gemm(ds_shared, k, dq, clear_accum=True)
                T.copy(h, h_shared)
                T.gemm(do, h_shared, dq)
                T.gemm(v, k, h, transpose_A=True)
                for row, col in T.Parallel(chunk_size, BK):
                    dq[row, col] *= scale
                T.copy(dq, dq_shared)
                T.atomic_add(dQ[i_b, i * chunk_size:(i + 1) * chunk_size, i_h, i_k * BK:(i_k + 1) * BK], dq_shared)

            for i in T.Pipelined(0, NT):
                start = NT - i - 1
                for row, col in T.Parallel(chunk_size, BK):
                    q[row, col] = Q[i_b, start * chunk_size + row, i_h, i_k * BK + col] * scale
                T.copy(K[i_b, start * chunk_size:(start + 1) * chunk_size, i_h, i_k * BK:(i_k + 1) * BK], k)
                T.copy(V[i_b, start * chunk_size:(start + 1) * chunk_size, i_h, i_v * BV:(i_v + 1) * BV], v)
                T.copy(dO[i_b, start * chunk_size:(start + 1) * chunk_size, i_h, i_v * BV:(i_v + 1) * BV], do)
                T.copy(dh, dh_shared)
                T.gemm(v, do, ds, transpose_B=True, clear_accum=True)
                for row, col in T.Parallel(chunk_size, chunk_size):
                    ds_shared[row, col] = T.if_then_else(row <= col, ds[row, col], 0)
                T.gemm(ds_shared, q, dk, clear_accum=True)
                T.gemm(v, dh_shared, dk, transpose_B=True)
                T.gemm(k, q, ds, transpose_B=True, clear_accum=True)
                for row, col in T.Parallel(chunk_size, chunk_size):
                    ds_shared[row, col] = T.if_then_else(row <= col, ds[row, col], 0)
                T.gemm(ds_shared, do, dv, clear_accum=True)
                T.gemm(k, dh_shared, dv)
                T.gemm(q, do, dh, transpose_A=True)
                T.copy(dk, dk_shared)
                T.atomic_add(dK[i_b, start * chunk_size:(start + 1) * chunk_size, i_h, i_k * BK:(i_k + 1) * BK],
                             dk_shared)
                T.copy(dv, dv_shared)
                T.atomic_add(dV[i_b, start * chunk_size:(start + 1) * chunk_size, i_h, i_v * BV:(i_v + 1) * BV],
                             dv_shared)

    return main


def inputs(rng):
    out = {n: rng.standard_normal((1, 64, 2, 32)) for n in ("Q", "K", "V", "dO")}
    return {**out, **{n: np.zeros((1, 64, 2, 32)) for n in ("dQ", "dK", "dV")}}


def reference(Q, K, V, dO, dQ, dK, dV):
    scale, mask = 32 ** -0.5, np.tri(64)
    ds = np.einsum("bqhd,bkhd->bhqk", dO, V) * mask * scale
    s = np.einsum("bqhd,bkhd->bhqk", Q, K) * mask * scale
    return {"dQ": np.einsum("bhqk,bkhd->bqhd", ds, K), "dK": np.einsum("bhqk,bqhd->bkhd", ds, Q),
            "dV": np.einsum("bhqk,bqhd->bkhd", s, dO)}
