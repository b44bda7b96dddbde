"""A few queries against many keys: the keys are split, the parts joined by macros in a second launch; causal parts
end at run time."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "inference",
    "arguments": {"batch": 1, "heads": 2, "seqlen_q": 32, "seqlen_kv": 128, "dim": 32, "is_causal": False,
                  "block_M": 32, "block_N": 32},
    "types": {"Q": "float16", "K": "float16", "V": "float16", "Output": "float16"},
    "tolerance": 3e-3,
}

num_split = 2


@tilelang.jit(out_idx=[3], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def inference(batch, heads, seqlen_q, seqlen_kv, dim, is_causal, block_M, block_N):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    shape_q = [batch, seqlen_q, heads, dim]
    shape_kv = [batch, seqlen_kv, heads, dim]
    part_shape = [batch, seqlen_q, heads, num_split, dim]
    dtype, accum_dtype = T.float16, T.float32

    @T.macro
    def split(Q, K, V, glse, partial):
        with T.Kernel(T.ceildiv(seqlen_q, block_M), heads * batch, num_split, threads=64) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            O_shared = T.alloc_shared([block_M, dim], dtype)
            acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
            acc_o = T.alloc_fragment([block_M, dim], accum_dtype)
            m = T.alloc_fragment([block_M], accum_dtype)
            m_prev = T.alloc_fragment([block_M], accum_dtype)
            alpha = T.alloc_fragment([block_M], accum_dtype)
            row_sum = T.alloc_fragment([block_M], accum_dtype)
            logsum = T.alloc_fragment([block_M], accum_dtype)
            mid = bx
            hid = by % heads
            bid = by // heads
            sid = bz
            T.copy(Q[bid, mid * block_M:(mid + 1) * block_M, hid, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(m, -T.infinity(accum_dtype))
            loop_range = (T.min(T.ceildiv(seqlen_kv // num_split, block_N), T.ceildiv((mid + 1) * block_M, block_N))
                          if is_causal else T.ceildiv((seqlen_kv // num_split), block_N))
            for k in T.Pipelined(loop_range, num_stages=2):
                at = (seqlen_kv // num_split) * sid + k * block_N
                T.copy(K[bid, at:at + block_N, hid, :], K_shared)
                T.clear(acc_s)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[bid, at:at + block_N, hid, :], V_shared)
                T.copy(m, m_prev)
                T.fill(m, -T.infinity(accum_dtype))
                T.reduce_max(acc_s, m, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    m[i] = T.max(m[i], m_prev[i])
                for i in T.Parallel(block_M):
                    alpha[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - m[i] * scale)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] *= alpha[i]
                T.copy(acc_s, acc_s_cast)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
                T.reduce_sum(acc_s, row_sum, dim=1)
                for i in T.Parallel(block_M):
                    logsum[i] = logsum[i] * alpha[i] + row_sum[i]
            for i, j in T.Parallel(block_M, dim):
                acc_o[i, j] /= logsum[i]
            for i in T.Parallel(block_M):
                logsum[i] = T.log2(logsum[i]) + m[i] * scale
            T.copy(logsum, glse[bid, hid, sid, mid * block_M:(mid + 1) * block_M])
            T.copy(acc_o, O_shared)
            T.copy(O_shared, partial[bid, mid * block_M:(mid + 1) * block_M, hid, sid, :])

    @T.macro
    def combine(glse, partial, Output):
        with T.Kernel(T.ceildiv(seqlen_q, block_M), heads, batch, threads=64) as (bx, by, bz):
            po_shared = T.alloc_shared([block_M, dim], dtype)
            po_local = T.alloc_fragment([block_M, dim], dtype)
            o_accum = T.alloc_fragment([block_M, dim], accum_dtype)
            lse_local = T.alloc_fragment([num_split, block_M], accum_dtype)
            lse_split = T.alloc_fragment([block_M], accum_dtype)
            lse_logsum = T.alloc_fragment([block_M], accum_dtype)
            lse_max = T.alloc_fragment([block_M], accum_dtype)
            weight = T.alloc_fragment([block_M], accum_dtype)
            T.clear(lse_logsum)
            T.clear(o_accum)
            T.copy(glse[bz, by, :, bx * block_M:(bx + 1) * block_M], lse_local)
            T.reduce_max(lse_local, lse_max, dim=0)
            for k in T.Pipelined(num_split):
                T.copy(lse_local[k, :], lse_split)
                for i in T.Parallel(block_M):
                    lse_logsum[i] += T.exp2(lse_split[i] - lse_max[i])
            for i in T.Parallel(block_M):
                lse_logsum[i] = T.log2(lse_logsum[i]) + lse_max[i]
            for k in T.Pipelined(num_split, num_stages=2):
                T.copy(partial[bz, bx * block_M:(bx + 1) * block_M, by, k, :], po_shared)
                T.copy(po_shared, po_local)
                for i in T.Parallel(block_M):
                    lse_split[i] = lse_local[k, i]
                for i in T.Parallel(block_M):
                    weight[i] = T.exp2(lse_split[i] - lse_logsum[i])
                for i, j in T.Parallel(block_M, dim):
                    o_accum[i, j] += po_local[i, j] * weight[i]
            T.copy(o_accum, Output[bz, bx * block_M:(bx + 1) * block_M, by, :])

    @T.prim_func
    def main(Q: T.Tensor(shape_q, dtype), K: T.Tensor(shape_kv, dtype), V: T.Tensor(shape_kv, dtype),
             Output: T.Tensor(shape_q, dtype)):
        glse = T.alloc_global([batch, heads, num_split, seqlen_q], dtype)
        partial = T.alloc_global(part_shape, dtype)
        split(Q, K, V, glse, partial)
        combine(glse, partial, Output)

    return main


def inputs(rng):
    return {"Q": rng.standard_normal((1, 32, 2, 32)), "K": rng.standard_normal((1, 128, 2, 32)),
            "V": rng.standard_normal((1, 128, 2, 32))}


def reference(Q, K, V):
    p = np.exp(np.einsum("bqhd,bkhd->bhqk", Q, K) / np.sqrt(32))
    return {"Output": np.einsum("bhqk,bkhd->bqhd", p / p.sum(-1, keepdims=True), V)}
