"""C = A B^T where only the call says M, N and K."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "gemm_dynamic",
    "arguments": {"block_M": 64, "block_N": 64, "block_K": 32},
    "runtime": {"m": 77, "n": 96, "k": 88},
    "types": {"A": "float16", "B": "float16", "C": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit(pass_configs={"tl.disable_warp_specialized": True})
def gemm_dynamic(A, B, block_M, block_N, block_K, num_stages=3, threads=128):
    M = T.dynamic("m")
    N, K = T.dynamic("n"), T.dynamic("k")
    A: T.Tensor([M, K], T.float16)
    B: T.Tensor([N, K], T.float16)
    C = T.empty([M, N], T.float16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared([block_M, block_K], T.float16)
        B_shared = T.alloc_shared([block_N, block_K], T.float16)
        C_local = T.alloc_fragment([block_M, block_N], T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


def inputs(rng):
    return {"A": rng.standard_normal((77, 88)), "B": rng.standard_normal((96, 88))}


def reference(A, B):
    return {"C": A @ B.T}
