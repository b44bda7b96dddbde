"""A product whose tiles an autotuner picks: a comprehension over the candidates, a config for the test."""
import itertools

import tilelang as tl
import tilelang.language as T
from tilelang.autotuner import autotune

KERNEL = {
    "entry": "tuned",
    "arguments": {"M": 72, "N": 80, "K": 64},
    "config": {"block_M": 64, "block_N": 64, "block_K": 32, "num_stages": 2, "thread_num": 128},
    "types": {"A": "float16", "B": "float16", "C": "float32"},
    "tolerance": 1e-5,
}


def get_configs(M, N, K):
    sizes = [16, 32, 64, 128, 256]
    out = []
    for bm, bn, bk, stages, threads in itertools.product(sizes, sizes, [32, 64], range(4), (128, 256)):
        if bm * bn > 128 * 256 or bm * bn < 64 * 64:
            continue
        out.append({"block_M": bm, "block_N": bn, "block_K": bk, "num_stages": stages,
                    "thread_num": threads})
    return out


@autotune(configs=get_configs(72, 80, 64))
@tl.jit(out_idx=[-1], pass_configs={tl.PassConfigKey.TL_DISABLE_TMA_LOWER: False})
def tuned(M, N, K, block_M=None, block_N=None, block_K=None, num_stages=None, thread_num=None):
    dtype = T.float16
    accum_dtype = T.float32

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        C: T.Tensor((M, N), accum_dtype),
    ):
        with T.Kernel(tl.cdiv(N, block_N), tl.cdiv(M, block_M), threads=thread_num) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(tl.cdiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def inputs(rng):
    return {"A": rng.standard_normal((72, 64)), "B": rng.standard_normal((80, 64))}


def reference(A, B):
    return {"C": A @ B.T}
