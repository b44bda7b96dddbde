"""Gradients of the keys and values of grouped heads without atomics: each head of queries writes a part, the
parts are added afterwards. Query and value heads have different widths."""
import tilelang
import tilelang.language as T

KERNEL = {
    "launches": [
        {"entry": "bwd_split",
         "arguments": {"batch": 1, "heads": 4, "seq_len": 48, "dim_qk": 32, "dim_v": 16, "groups": 2,
                       "block_M": 32, "block_N": 16},
         "inputs": ["Q", "K", "V", "dO", "lse", "Delta"], "outputs": ["dK_parts", "dV_parts"]},
        {"entry": "sum_parts", "arguments": {"n": 3072, "parts": 2},
         "inputs": {"dK_parts": "parts_in"}, "outputs": {"dK": "total"}},
        {"entry": "sum_parts", "arguments": {"n": 1536, "parts": 2},
         "inputs": {"dV_parts": "parts_in"}, "outputs": {"dV": "total"}},
    ],
    "types": {"Q": "float16", "K": "float16", "V": "float16", "dO": "float16", "lse": "float32",
              "Delta": "float32", "dK_parts": "float16", "dV_parts": "float16", "dK": "float16",
              "dV": "float16"},
    "tolerance": 1e-2,
}


@tilelang.jit(out_idx=[-2, -1])
def bwd_split(batch, heads, seq_len, dim_qk, dim_v, groups, block_M, block_N, threads=64):
    sm_scale = (1.0 / dim_qk) ** 0.5
    scale = sm_scale * 1.44269504
    head_kv = heads // groups
    dtype, accum_dtype = T.float16, T.float32

    @T.prim_func
    def main(Q: T.Tensor([batch, seq_len, heads, dim_qk], dtype),
             K: T.Tensor([batch, seq_len, head_kv, dim_qk], dtype),
             V: T.Tensor([batch, seq_len, head_kv, dim_v], dtype),
             dO: T.Tensor([batch, seq_len, heads, dim_v], dtype),
             lse: T.Tensor([batch, heads, seq_len], accum_dtype),
             Delta: T.Tensor([batch, heads, seq_len], accum_dtype),
             dK_parts: T.Tensor([groups, batch, seq_len, head_kv, dim_qk], dtype),
             dV_parts: T.Tensor([groups, batch, seq_len, head_kv, dim_v], dtype)):
        with T.Kernel(heads, T.ceildiv(seq_len, block_M), batch, threads=threads) as (bx, by, bz):
            K_shared = T.alloc_shared([block_M, dim_qk], dtype)
            V_shared = T.alloc_shared([block_M, dim_v], dtype)
            q = T.alloc_shared([block_N, dim_qk], dtype)
            do = T.alloc_shared([block_N, dim_v], dtype)
            lse_shared = T.alloc_shared([block_N], accum_dtype)
            delta = T.alloc_shared([block_N], accum_dtype)
            p = T.alloc_fragment([block_M, block_N], accum_dtype)
            ds = T.alloc_fragment([block_M, block_N], accum_dtype)
            p_cast = T.alloc_fragment([block_M, block_N], dtype)
            ds_cast = T.alloc_fragment([block_M, block_N], dtype)
            dv = T.alloc_fragment([block_M, dim_v], accum_dtype)
            dk = T.alloc_fragment([block_M, dim_qk], accum_dtype)
            T.copy(K[bz, by * block_M:(by + 1) * block_M, bx // groups, :], K_shared)
            T.copy(V[bz, by * block_M:(by + 1) * block_M, bx // groups, :], V_shared)
            T.clear(dv)
            T.clear(dk)
            for k in T.Pipelined(T.ceildiv(seq_len, block_N), num_stages=1):
                T.copy(Q[bz, k * block_N:(k + 1) * block_N, bx, :], q)
                T.copy(dO[bz, k * block_N:(k + 1) * block_N, bx, :], do)
                T.copy(lse[bz, bx, k * block_N:(k + 1) * block_N], lse_shared)
                T.copy(Delta[bz, bx, k * block_N:(k + 1) * block_N], delta)
                T.gemm(K_shared, q, p, transpose_B=True, policy=T.GemmWarpPolicy.FullRow, clear_accum=True)
                T.gemm(V_shared, do, ds, transpose_B=True, policy=T.GemmWarpPolicy.FullRow, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    p[i, j] = T.exp2(p[i, j] * scale - lse_shared[j])
                T.copy(p, p_cast)
                T.gemm(p_cast, do, dv, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    ds_cast[i, j] = p[i, j] * (ds[i, j] - delta[j]) * sm_scale
                T.gemm(ds_cast, q, dk, policy=T.GemmWarpPolicy.FullRow)
            T.copy(dv, dV_parts[bx % groups, bz, by * block_M:(by + 1) * block_M, bx // groups, :])
            T.copy(dk, dK_parts[bx % groups, bz, by * block_M:(by + 1) * block_M, bx // groups, :])

    return main


@tilelang.jit(out_idx=[1])
def sum_parts(n, parts, block=256):
    @T.prim_func
    def main(parts_in: T.Tensor([parts, n], "float16"), total: T.Tensor([n], "float16")):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            tile = T.alloc_fragment([parts, block], "float16")
            wide = T.alloc_fragment([parts, block], "float32")
            sums = T.alloc_fragment([block], "float32")
            T.copy(parts_in[0:parts, bx * block:(bx + 1) * block], tile)
            T.copy(tile, wide)
            T.reduce_sum(wide, sums, dim=0)
            T.copy(sums, total[bx * block])

    return main


def forward(Q, K, V):
    s = np.einsum("bqhd,bkhd->bhqk", Q, np.repeat(K, 2, axis=2)) / np.sqrt(32)
    p = np.exp(s)
    total = p.sum(-1, keepdims=True)
    return p / total, np.log2(total[..., 0])


def inputs(rng):
    Q, K = rng.standard_normal((1, 48, 4, 32)), rng.standard_normal((1, 48, 2, 32))
    V, dO = rng.standard_normal((1, 48, 2, 16)), rng.standard_normal((1, 48, 4, 16))
    p, lse = forward(Q, K, V)
    delta = np.einsum("bhqk,bkhd,bqhd->bhq", p, np.repeat(V, 2, axis=2), dO)
    return {"Q": Q, "K": K, "V": V, "dO": dO, "lse": lse, "Delta": delta}


def reference(Q, K, V, dO, lse, Delta):
    p, _ = forward(Q, K, V)
    dv = np.einsum("bhqk,bqhd->bkhd", p, dO)
    ds = p * (np.einsum("bqhd,bkhd->bhqk", dO, np.repeat(V, 2, axis=2)) - Delta[..., None]) / np.sqrt(32)
    dk = np.einsum("bhqk,bqhd->bkhd", ds, Q)
    return {"dK": dk.reshape(1, 48, 2, 2, 32).sum(3).ravel(), "dV": dv.reshape(1, 48, 2, 2, 16).sum(3).ravel()}
