"""dV inside a chunk: the transposed lower triangle of A times dO, over blocks of the width of V."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "bwd_dv",
    "arguments": {"B": 1, "S": 96, "H": 2, "DV": 64, "chunk_size": 32, "block_DV": 32},
    "types": {"DO": "float32", "A": "bfloat16", "dv": "bfloat16"},
    "tolerance": 2e-2,
}


@tilelang.jit(out_idx=[-1])
def bwd_dv(B, S, H, DV, chunk_size, input_dtype=T.bfloat16, do_dtype=T.float32, output_dtype=T.bfloat16,
           block_DV=64, threads=64, num_stages=1):
    block_S = BS = chunk_size
    DO_shape, A_shape = (B, S, H, DV), (B, S, H, BS)

    @T.prim_func
    def kernel(DO: T.Tensor(DO_shape, dtype=do_dtype), A: T.Tensor(A_shape, dtype=input_dtype),
               dv: T.Tensor(DO_shape, dtype=output_dtype)):
        with T.Kernel(T.ceildiv(S, block_S), B * H, threads=threads) as (bs, bbh):
            bb, bh = bbh // H, bbh % H
            A_shared = T.alloc_shared((BS, BS), dtype=do_dtype)
            DO_shared = T.alloc_shared((BS, block_DV), dtype=do_dtype)
            acc = T.alloc_fragment((BS, block_DV), dtype=T.float32)
            out = T.alloc_shared((BS, block_DV), dtype=output_dtype)
            T.copy(A[bb, bs * BS:(bs + 1) * BS, bh, :], A_shared)
            for i, j in T.Parallel(BS, BS):
                A_shared[i, j] = T.if_then_else(i >= j, A_shared[i, j], 0)
            for i_v in T.Pipelined(T.ceildiv(DV, block_DV), num_stages=num_stages):
                T.copy(DO[bb, bs * BS:(bs + 1) * BS, bh, i_v * block_DV:(i_v + 1) * block_DV], DO_shared)
                T.gemm(A_shared, DO_shared, acc, transpose_A=True, clear_accum=True)
                T.copy(acc, out)
                T.copy(out, dv[bb, bs * BS:(bs + 1) * BS, bh, i_v * block_DV:(i_v + 1) * block_DV])

    return kernel


def inputs(rng):
    return {"DO": rng.standard_normal((1, 96, 2, 64)), "A": rng.standard_normal((1, 96, 2, 32))}


def reference(DO, A):
    a, do = A.reshape(1, 3, 32, 2, 32), DO.reshape(1, 3, 32, 2, 64)
    return {"dv": np.einsum("bcihj,bcihd->bcjhd", a * np.tri(32)[:, None, :], do).reshape(1, 96, 2, 64)}
