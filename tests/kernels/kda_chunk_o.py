"""Delta attention with a gate a lane of the keys: outputs from the state, read through faded queries, and from a
given matrix inside the chunk."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "kda_o",
    "arguments": {"B": 1, "S": 64, "H": 2, "DK": 64, "DV": 32, "chunk_size": 32, "scale": 0.125, "block_DK": 32,
                  "block_DV": 32},
    "types": {"Q": "bfloat16", "V": "bfloat16", "GK": "float32", "A": "bfloat16", "HIDDEN": "bfloat16",
              "O": "bfloat16"},
    "tolerance": 2e-2,
}


def get_configs():
    import itertools
    block_DK = [32, 64, 128]
    block_DV = [32, 64]
    return [{"block_DK": c[0], "block_DV": c[1], "threads": c[2], "num_stages": c[3]}
            for c in itertools.product(block_DK, block_DV, [128, 256], [0, 1, 2])]


@tilelang.autotune(configs=get_configs(), warmup=10, rep=5)
@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def kda_o(B, S, H, DK, DV, chunk_size, scale, input_dtype="bfloat16", output_dtype="bfloat16",
          accum_dtype="float32", gate_dtype="float32", block_DK=64, block_DV=64, threads=64, num_stages=0):
    block_S = chunk_size
    BS = S // block_S

    @T.prim_func
    def kernel(Q: T.Tensor((B, S, H, DK), dtype=input_dtype), V: T.Tensor((B, S, H, DV), dtype=input_dtype),
               GK: T.Tensor((B, S, H, DK), dtype=gate_dtype), A: T.Tensor((B, S, H, block_S), dtype=input_dtype),
               HIDDEN: T.Tensor((B, BS, H, DK, DV), dtype=input_dtype),
               O: T.Tensor((B, S, H, DV), dtype=output_dtype)):
        with T.Kernel(T.ceildiv(DV, block_DV), BS, B * H, threads=threads) as (bv, bs, bbh):
            bb, bh = bbh // H, bbh % H
            Q_shared = T.alloc_shared((block_S, block_DK), dtype=input_dtype)
            V_shared = T.alloc_shared((block_S, block_DV), dtype=input_dtype)
            GK_shared = T.alloc_shared((block_S, block_DK), dtype=gate_dtype)
            A_shared = T.alloc_shared((block_S, block_S), dtype=input_dtype)
            H_shared = T.alloc_shared((block_DK, block_DV), dtype=input_dtype)
            GQ = T.alloc_fragment((block_S, block_DK), dtype=input_dtype)
            A_fragment = T.alloc_fragment((block_S, block_S), dtype=input_dtype)
            O_fragment = T.alloc_fragment((block_S, block_DV), dtype=accum_dtype)
            T.clear(O_fragment)
            for i_k in T.Pipelined(T.ceildiv(DK, block_DK), num_stages=num_stages):
                T.copy(Q[bb, bs * block_S:(bs + 1) * block_S, bh, i_k * block_DK:(i_k + 1) * block_DK], Q_shared)
                T.copy(GK[bb, bs * block_S:(bs + 1) * block_S, bh, i_k * block_DK:(i_k + 1) * block_DK], GK_shared)
                T.copy(HIDDEN[bb, bs, bh, i_k * block_DK:(i_k + 1) * block_DK, bv * block_DV:(bv + 1) * block_DV],
                       H_shared)
                for i, j in T.Parallel(block_S, block_DK):
                    GQ[i, j] = Q_shared[i, j] * T.exp2(GK_shared[i, j])
                T.gemm(GQ, H_shared, O_fragment)
            for i, j in T.Parallel(block_S, block_DV):
                O_fragment[i, j] *= scale
            T.copy(A[bb, bs * block_S:(bs + 1) * block_S, bh, :], A_shared)
            T.copy(A_shared, A_fragment)
            for i, j in T.Parallel(block_S, block_S):
                A_fragment[i, j] = T.if_then_else(i >= j, A_fragment[i, j], 0)
            T.copy(V[bb, bs * block_S:(bs + 1) * block_S, bh, bv * block_DV:(bv + 1) * block_DV], V_shared)
            T.gemm(A_fragment, V_shared, O_fragment)
            T.copy(O_fragment, O[bb, bs * block_S:(bs + 1) * block_S, bh, bv * block_DV:(bv + 1) * block_DV])

    return kernel


def inputs(rng):
    GK = -rng.uniform(0, 0.1, (1, 2, 32, 2, 64)).cumsum(2).reshape(1, 64, 2, 64)
    return {"Q": rng.standard_normal((1, 64, 2, 64)), "V": rng.standard_normal((1, 64, 2, 32)), "GK": GK,
            "A": rng.standard_normal((1, 64, 2, 32)), "HIDDEN": rng.standard_normal((1, 2, 2, 64, 32))}


def reference(Q, V, GK, A, HIDDEN):
    q, v, g, a = (x.reshape(1, 2, 32, *x.shape[2:]) for x in (Q, V, GK, A))
    past = np.einsum("bcihd,bchdv->bcihv", q * np.exp2(g), HIDDEN) * 0.125
    own = np.einsum("bcihj,bcjhv->bcihv", a * np.tri(32)[:, None, :], v)
    return {"O": (past + own).reshape(1, 64, 2, 32)}
