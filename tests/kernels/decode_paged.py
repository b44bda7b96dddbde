"""Decoding over pages: a table says where each block of keys lies, lengths differ by request."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "paged",
    "arguments": {"batch": 2, "heads": 4, "heads_kv": 2, "dim": 32, "page": 32, "block_N": 16, "block_H": 16},
    "runtime": {"num_pages": 9, "max_blocks": 4},
    "types": {"Q": "float16", "K": "float16", "V": "float16", "block_table": "int32",
              "cache_seqlens": "int32", "Output": "float16"},
    "tolerance": 3e-3,
}


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def paged(batch, heads, heads_kv, dim, page, block_N, block_H, threads=64):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    dtype, accum_dtype = T.float16, T.float32
    group = heads // heads_kv
    num_pages = T.dynamic("num_pages")
    max_blocks = T.dynamic("max_blocks")
    assert page % block_N == 0 and block_N <= page, "a tile of keys lies in one page"

    @T.prim_func
    def main(Q: T.Tensor([batch, heads, dim], dtype), K: T.Tensor([num_pages, page, heads_kv, dim], dtype),
             V: T.Tensor([num_pages, page, heads_kv, dim], dtype),
             block_table: T.Tensor([batch, max_blocks], T.int32), cache_seqlens: T.Tensor([batch], T.int32),
             Output: T.Tensor([batch, heads, dim], dtype)):
        with T.Kernel(batch, heads_kv, threads=threads) as (bx, by):
            Q_shared = T.alloc_shared([block_H, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            acc_s = T.alloc_fragment([block_H, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_H, block_N], dtype)
            acc_o = T.alloc_fragment([block_H, dim], accum_dtype)
            m = T.alloc_fragment([block_H], accum_dtype)
            m_prev = T.alloc_fragment([block_H], accum_dtype)
            alpha = T.alloc_fragment([block_H], accum_dtype)
            row_sum = T.alloc_fragment([block_H], accum_dtype)
            logsum = T.alloc_fragment([block_H], accum_dtype)
            length = T.alloc_var(T.int32)
            length = cache_seqlens[bx]
            for i, j in T.Parallel(block_H, dim):
                Q_shared[i, j] = T.if_then_else(i < group, Q[bx, by * group + i, j], 0)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(m, -T.infinity(accum_dtype))
            for kr in T.Pipelined(T.ceildiv(length, block_N), num_stages=2):
                k = T.ceildiv(length, block_N) - 1 - kr
                at = block_table[bx, (k * block_N) // page]
                row = T.floormod(k * block_N, page)
                T.copy(K[at, row:row + block_N, by, :], K_shared)
                T.clear(acc_s)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.copy(m, m_prev)
                T.fill(m, -T.infinity(accum_dtype))
                if kr == 0:
                    for i, j in T.Parallel(block_H, block_N):
                        acc_s[i, j] = T.if_then_else(k * block_N + j >= length, -T.infinity(accum_dtype),
                                                     acc_s[i, j])
                T.reduce_max(acc_s, m, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    m[i] = T.max(m[i], m_prev[i])
                    alpha[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
                for i, j in T.Parallel(block_H, block_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - m[i] * scale)
                T.reduce_sum(acc_s, row_sum, dim=1)
                T.copy(acc_s, acc_s_cast)
                for i in T.Parallel(block_H):
                    logsum[i] = logsum[i] * alpha[i] + row_sum[i]
                for i, j in T.Parallel(block_H, dim):
                    acc_o[i, j] *= alpha[i]
                T.copy(V[at, row:row + block_N, by, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, dim):
                if i < group:
                    Output[bx, by * group + i, j] = acc_o[i, j] / logsum[i]

    return main


def inputs(rng):
    return {"Q": rng.standard_normal((2, 4, 32)), "K": rng.standard_normal((9, 32, 2, 32)),
            "V": rng.standard_normal((9, 32, 2, 32)),
            "block_table": np.array([[7, 2, 0, 0], [1, 8, 4, 3]]), "cache_seqlens": np.array([41, 107])}


def reference(Q, K, V, block_table, cache_seqlens):
    out = np.zeros((2, 4, 32))
    for b in range(2):
        k = K[block_table[b]].reshape(-1, 2, 32)[:cache_seqlens[b]]
        v = V[block_table[b]].reshape(-1, 2, 32)[:cache_seqlens[b]]
        for h in range(4):
            p = np.exp(k[:, h // 2] @ Q[b, h] / np.sqrt(32))
            out[b, h] = p / p.sum() @ v[:, h // 2]
    return {"Output": out}
