"""Attention backward with grouped heads: keys' and values' gradients of a group meet by atomic adds of tiles."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "bwd",
    "arguments": {"batch": 1, "heads": 2, "seq_len": 64, "dim_qk": 48, "dim_v": 32, "is_causal": False,
                  "block_M": 32, "block_N": 32, "groups": 2},
    "types": {"Q": "float16", "K": "float16", "V": "float16", "dO": "float16", "lse": "float32",
              "Delta": "float32", "dQ": "float32", "dK": "float32", "dV": "float32"},
    "tolerance": 1e-2,
}


@tilelang.jit(pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def bwd(batch, heads, seq_len, dim_qk, dim_v, is_causal, block_M, block_N, threads=128, num_stages=2, groups=1):
    sm_scale = (1.0 / dim_qk) ** 0.5
    scale = (1.0 / dim_qk) ** 0.5 * 1.44269504
    head_kv = heads // groups
    q_shape = [batch, seq_len, heads, dim_qk]
    k_shape = [batch, seq_len, head_kv, dim_qk]
    v_shape = [batch, seq_len, head_kv, dim_v]
    dtype, accum_dtype = T.float16, T.float32

    @T.prim_func
    def main(Q: T.Tensor(q_shape, dtype), K: T.Tensor(k_shape, dtype), V: T.Tensor(v_shape, dtype),
             dO: T.Tensor([batch, seq_len, heads, dim_v], dtype),
             lse: T.Tensor([batch, heads, seq_len], accum_dtype),
             Delta: T.Tensor([batch, heads, seq_len], accum_dtype), dQ: T.Tensor(q_shape, accum_dtype),
             dK: T.Tensor(k_shape, accum_dtype), dV: T.Tensor(v_shape, accum_dtype)):
        with T.Kernel(heads, T.ceildiv(seq_len, block_M), batch, threads=threads) as (bx, by, bz):
            K_shared = T.alloc_shared([block_M, dim_qk], dtype)
            ds_shared = T.alloc_shared([block_M, block_N], dtype)
            q = T.alloc_shared([block_N, dim_qk], dtype)
            V_shared = T.alloc_shared([block_M, dim_v], dtype)
            qkT = T.alloc_fragment([block_M, block_N], accum_dtype)
            dsT = T.alloc_fragment([block_M, block_N], accum_dtype)
            qkT_cast = T.alloc_fragment([block_M, block_N], dtype)
            dsT_cast = T.alloc_fragment([block_M, block_N], dtype)
            lse_shared = T.alloc_shared([block_N], accum_dtype)
            delta = T.alloc_shared([block_N], accum_dtype)
            do = T.alloc_shared([block_N, dim_v], dtype)
            dv = T.alloc_fragment([block_M, dim_v], accum_dtype)
            dk = T.alloc_fragment([block_M, dim_qk], accum_dtype)
            dq = T.alloc_fragment([block_N, dim_qk], accum_dtype)
            dk_shared = T.alloc_shared([block_M, dim_qk], accum_dtype)
            dv_shared = T.alloc_shared([block_M, dim_v], accum_dtype)
            dq_shared = T.alloc_shared([block_N, dim_qk], accum_dtype)
            T.copy(K[bz, by * block_M:(by + 1) * block_M, bx // groups, :], K_shared)
            T.copy(V[bz, by * block_M:(by + 1) * block_M, bx // groups, :], V_shared)
            T.clear(dv)
            T.clear(dk)
            loop_st = T.floordiv(by * block_M, block_N) if is_causal else 0
            loop_ed = T.ceildiv(seq_len, block_N)
            for k in T.Pipelined(loop_st, loop_ed, num_stages=num_stages):
                T.copy(Q[bz, k * block_N:(k + 1) * block_N, bx, :], q)
                T.clear(qkT)
                T.gemm(K_shared, q, qkT, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(lse[bz, bx, k * block_N:(k + 1) * block_N], lse_shared)
                for i, j in T.Parallel(block_M, block_N):
                    qkT[i, j] = T.exp2(qkT[i, j] * scale - lse_shared[j])
                if is_causal:
                    for i, j in T.Parallel(block_M, block_N):
                        qkT[i, j] = T.if_then_else(by * block_M + i <= k * block_N + j, qkT[i, j], 0)
                T.copy(dO[bz, k * block_N:(k + 1) * block_N, bx, :], do)
                T.clear(dsT)
                T.gemm(V_shared, do, dsT, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(qkT, qkT_cast)
                T.gemm(qkT_cast, do, dv, policy=T.GemmWarpPolicy.FullRow)
                T.copy(Delta[bz, bx, k * block_N:(k + 1) * block_N], delta)
                for i, j in T.Parallel(block_M, block_N):
                    dsT_cast[i, j] = qkT[i, j] * (dsT[i, j] - delta[j]) * sm_scale
                T.gemm(dsT_cast, q, dk, policy=T.GemmWarpPolicy.FullRow)
                T.copy(dsT_cast, ds_shared)
                T.clear(dq)
                T.gemm(ds_shared, K_shared, dq, transpose_A=True)
                T.copy(dq, dq_shared)
                T.atomic_add(dQ[bz, k * block_N:(k + 1) * block_N, bx, :], dq_shared, use_tma=True)
            T.copy(dv, dv_shared)
            T.atomic_add(dV[bz, by * block_M:(by + 1) * block_M, bx // groups, :], dv_shared, use_tma=True)
            T.copy(dk, dk_shared)
            T.atomic_add(dK[bz, by * block_M:(by + 1) * block_M, bx // groups, :], dk_shared, use_tma=True)

    return main


def forward(Q, K, V):
    p = np.exp(np.einsum("bqhd,bkhd->bhqk", Q, np.repeat(K, 2, axis=2)) / np.sqrt(48))
    total = p.sum(-1, keepdims=True)
    return p / total, np.log2(total[..., 0])


def inputs(rng):
    Q, K = rng.standard_normal((1, 64, 2, 48)), rng.standard_normal((1, 64, 1, 48))
    V, dO = rng.standard_normal((1, 64, 1, 32)), rng.standard_normal((1, 64, 2, 32))
    p, lse = forward(Q, K, V)
    delta = np.einsum("bhqk,bkhd,bqhd->bhq", p, np.repeat(V, 2, axis=2), dO)
    return {"Q": Q, "K": K, "V": V, "dO": dO, "lse": lse, "Delta": delta, "dQ": np.zeros_like(Q),
            "dK": np.zeros_like(K), "dV": np.zeros_like(V)}


def reference(Q, K, V, dO, lse, Delta, dQ, dK, dV):
    p, _ = forward(Q, K, V)
    ds = p * (np.einsum("bqhd,bkhd->bhqk", dO, np.repeat(V, 2, axis=2)) - Delta[..., None]) / np.sqrt(48)
    pair = lambda x: x.reshape(1, 64, 1, 2, -1).sum(3)
    return {"dQ": np.einsum("bhqk,bkhd->bqhd", ds, np.repeat(K, 2, axis=2)),
            "dK": pair(np.einsum("bhqk,bqhd->bkhd", ds, Q)), "dV": pair(np.einsum("bhqk,bqhd->bkhd", p, dO))}
