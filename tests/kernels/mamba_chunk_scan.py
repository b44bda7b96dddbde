"""The output of a chunk of a state space model: what the state before it gives, what its own steps give, and the
skip."""
import tilelang
import tilelang.language as T
from tilelang.autotuner import *

KERNEL = {
    "entry": "chunk_scan",
    "arguments": {"batch": 1, "seqlen": 128, "chunk_size": 64, "ngroups": 1, "nheads": 2, "headdim": 32,
                  "dstate": 32, "block_M": 32, "block_N": 32, "block_K": 32, "block_Dstate": 32},
    "types": {"cb": "float16", "x": "float16", "dt": "float16", "dA_cumsum": "float16", "C": "float16",
              "prev_states": "float16", "D": "float16", "Output": "float16"},
    "tolerance": 1e-2,
}


@tilelang.jit(pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def chunk_scan(cb, x, dt, dA_cumsum, C, prev_states, D, block_M=64, block_N=64, block_K=64, block_Dstate=128,
               num_stages=2, threads=128):
    batch, seqlen, chunk_size, ngroups, nheads, headdim, dstate = T.const(
        "batch, seqlen, chunk_size, ngroups, nheads, headdim, dstate")
    dtype, accum_dtype = T.float16, T.float32
    nchunks = T.ceildiv(seqlen, chunk_size)
    p = 1.44269504
    cb: T.Tensor((batch, nchunks, ngroups, chunk_size, chunk_size), dtype)  # type: ignore
    x: T.Tensor((batch, seqlen, nheads, headdim), dtype)  # type: ignore
    dt: T.Tensor((batch, nheads, nchunks, chunk_size), dtype)  # type: ignore
    dA_cumsum: T.Tensor((batch, nheads, nchunks, chunk_size), dtype)  # type: ignore
    C: T.Tensor((batch, seqlen, ngroups, dstate), dtype)  # type: ignore
    prev_states: T.Tensor((batch, nchunks, nheads, headdim, dstate), dtype)  # type: ignore
    D: T.Tensor((nheads), dtype)  # type: ignore
    Output = T.empty((batch, seqlen, nheads, headdim), dtype)

    with T.Kernel(nheads, T.ceildiv(chunk_size, block_M) * T.ceildiv(headdim, block_N), batch * nchunks,
                  threads=threads) as (bz, bx, by):
        acc_o = T.alloc_fragment((block_M, block_N), accum_dtype)
        acc_o_shared = T.alloc_shared((block_M, block_N), dtype)
        cb_shared = T.alloc_shared((block_M, block_K), dtype)
        cb_local = T.alloc_fragment((block_M, block_K), dtype)
        k_shared = T.alloc_shared((block_K), dtype)
        k_local = T.alloc_fragment((block_K), accum_dtype)
        m_local = T.alloc_fragment((block_M), accum_dtype)
        m_shared = T.alloc_shared((block_M), dtype)
        dt_shared = T.alloc_shared((block_K), dtype)
        dt_local = T.alloc_fragment((block_K), accum_dtype)
        x_shared = T.alloc_shared((block_K, block_N), dtype, scope="shared.dyn")
        scale_m = T.alloc_fragment((block_M), accum_dtype)
        C_shared = T.alloc_shared((block_M, block_Dstate), dtype)
        state = T.alloc_shared((block_N, block_Dstate), dtype)
        D_local = T.alloc_fragment((1), accum_dtype)
        skip = T.alloc_shared((block_M, block_N), dtype, scope="shared.dyn")
        skip_local = T.alloc_fragment((block_M, block_N), accum_dtype)
        batch_idx = by % batch
        chunk_idx = by // batch
        m_idx = bx // T.ceildiv(headdim, block_N)
        n_idx = bx % T.ceildiv(headdim, block_N)
        first = chunk_idx * chunk_size + m_idx * block_M
        T.annotate_layout({
            acc_o_shared: tilelang.layout.make_swizzled_layout(acc_o_shared),
            cb_shared: tilelang.layout.make_swizzled_layout(cb_shared),
            skip: tilelang.layout.make_swizzled_layout(skip),
        })
        T.no_set_max_nreg()
        T.copy(dA_cumsum[batch_idx, bz, chunk_idx, m_idx * block_M:(m_idx + 1) * block_M], m_shared)
        T.copy(m_shared, m_local)
        T.clear(acc_o)
        for i in T.Parallel(block_M):
            scale_m[i] = T.exp2(m_local[i] * p)
        T.copy(C[batch_idx, first:first + block_M, bz // (nheads // ngroups), 0:block_Dstate], C_shared)
        T.copy(prev_states[batch_idx, chunk_idx, bz, n_idx * block_N:(n_idx + 1) * block_N, 0:block_Dstate], state)
        T.gemm(C_shared, state, acc_o, transpose_B=True)
        for i, j in T.Parallel(block_M, block_N):
            acc_o[i, j] *= scale_m[i]
        loop_range = T.ceildiv((m_idx + 1) * block_M, block_K)
        for k in T.Pipelined(loop_range, num_stages=num_stages):
            T.copy(cb[batch_idx, chunk_idx, bz // (nheads // ngroups), m_idx * block_M:(m_idx + 1) * block_M,
                      k * block_K:(k + 1) * block_K], cb_shared)
            T.copy(cb_shared, cb_local)
            T.copy(dA_cumsum[batch_idx, bz, chunk_idx, k * block_K:(k + 1) * block_K], k_shared)
            T.copy(k_shared, k_local)
            for i, j in T.Parallel(block_M, block_K):
                cb_local[i, j] = cb_local[i, j] * T.exp2(m_local[i] * p - k_local[j] * p)
            T.copy(dt[batch_idx, bz, chunk_idx, k * block_K:(k + 1) * block_K], dt_shared)
            T.copy(dt_shared, dt_local)
            for i, j in T.Parallel(block_M, block_K):
                cb_local[i, j] *= dt_local[j]
            for i, j in T.Parallel(block_M, block_K):
                cb_local[i, j] = T.if_then_else(m_idx * block_M + i >= k * block_K + j, cb_local[i, j], 0)
            T.copy(x[batch_idx, chunk_idx * chunk_size + k * block_K:chunk_idx * chunk_size + (k + 1) * block_K,
                     bz, n_idx * block_N:(n_idx + 1) * block_N], x_shared)
            T.gemm(cb_local, x_shared, acc_o)
        D_local[0] = D[bz]
        T.copy(x[batch_idx, first:first + block_M, bz, n_idx * block_N:(n_idx + 1) * block_N], skip)
        T.copy(skip, skip_local)
        for i, j in T.Parallel(block_M, block_N):
            acc_o[i, j] += skip_local[i, j] * D_local[0]
        T.copy(acc_o, acc_o_shared)
        T.copy(acc_o_shared, Output[batch_idx, first:first + block_M, bz, n_idx * block_N:(n_idx + 1) * block_N])
    return Output


def inputs(rng):
    dA = -rng.uniform(0, 0.05, (1, 2, 2, 64)).cumsum(-1)
    return {"cb": rng.standard_normal((1, 2, 1, 64, 64)), "x": rng.standard_normal((1, 128, 2, 32)),
            "dt": rng.uniform(0, 1, (1, 2, 2, 64)), "dA_cumsum": dA, "C": rng.standard_normal((1, 128, 1, 32)),
            "prev_states": rng.standard_normal((1, 2, 2, 32, 32)), "D": rng.standard_normal(2)}


def reference(cb, x, dt, dA_cumsum, C, prev_states, D):
    xs, Cs = x.reshape(1, 2, 64, 2, 32), C.reshape(1, 2, 64, 32)
    fade = np.exp(np.minimum(dA_cumsum[..., :, None] - dA_cumsum[..., None, :], 0)) * np.tri(64)
    own = np.einsum("bcls,bhcls,bhcs,bcshp->bclhp", cb[:, :, 0], fade, dt, xs)
    past = np.einsum("bcln,bchpn,bhcl->bclhp", Cs, prev_states, np.exp(dA_cumsum))
    return {"Output": (own + past + xs * D[:, None]).reshape(1, 128, 2, 32)}
