"""C = relu(A B): sizes that no tile divides, blocks of the grid in panels."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "gemm",
    "arguments": {"M": 100, "N": 72, "K": 104, "block_M": 64, "block_N": 64, "block_K": 32},
    "types": {"A": "float16", "B": "float16", "C": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit
def gemm(A, B, block_M, block_N, block_K, dtype=T.float16, accum_dtype=T.float32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((K, N), dtype)
    C = T.empty((M, N), dtype)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_K, block_N), dtype)
        C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
        T.use_swizzle(panel_size=4, enable=True)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        for i, j in T.Parallel(block_M, block_N):
            C_local[i, j] = T.max(C_local[i, j], 0)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


def inputs(rng):
    return {"A": rng.standard_normal((100, 104)), "B": rng.standard_normal((104, 72))}


def reference(A, B):
    return {"C": np.maximum(A @ B, 0)}
