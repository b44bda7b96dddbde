"""C = A B^T of float8 with the wider exponent."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "gemm_fp8",
    "arguments": {"M": 72, "N": 72, "K": 128, "block_M": 64, "block_N": 64, "block_K": 64},
    "types": {"A": "float8_e5m2", "B": "float8_e5m2", "C": "bfloat16"},
    "tolerance": 1e-2,
}


@tilelang.jit
def gemm_fp8(A, B, block_M, block_N, block_K):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float8_e5m2)
    B: T.Tensor((N, K), T.float8_e5m2)
    C = T.empty((M, N), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


def inputs(rng):
    return {"A": rng.standard_normal((72, 128)), "B": rng.standard_normal((72, 128))}


def reference(A, B):
    return {"C": A @ B.T}
