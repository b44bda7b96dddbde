"""C = A W^T, of float16 and int4 as it is: the product widens its tile."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "gemm_int4_mixed",
    "arguments": {"M": 40, "N": 96, "K": 160},
    "types": {"A": "float16", "W": "int4", "C": "float32"},
    "tolerance": 1e-4,
}


@tilelang.jit
def gemm_int4_mixed(M, N, K, block_M=32, block_N=64, block_K=64, num_stages=2, threads=128):
    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), W: T.Tensor((N, K), T.int4), C: T.Tensor((M, N), T.float32)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), T.float16)
            W_shared = T.alloc_shared((block_N, block_K), T.int4)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * block_K], W_shared)
                T.gemm(A_shared, W_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def inputs(rng):
    return {"A": rng.standard_normal((40, 160)), "W": rng.integers(-8, 8, (96, 160))}


def reference(A, W):
    return {"C": A @ W.T}
