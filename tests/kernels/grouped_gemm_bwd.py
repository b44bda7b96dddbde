"""The gradients of the matrices of groups of rows: dB[g] = A[g]^T dC[g]; rows of the next group count zero."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "grouped_bwd",
    "arguments": {"batch_sum": 70, "batch_count": 3, "M": 40, "N": 72, "block_M": 32, "block_N": 64,
                  "block_K": 16},
    "types": {"A": "float16", "B": "float16", "sizes": "int32", "offsets": "int32", "C": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit(pass_configs={"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True})
def grouped_bwd(A, B, sizes, offsets, block_M, block_N, block_K, num_stages=2, threads=128, dtype=T.float16):
    batch_sum, batch_count, M, N = T.const("batch_sum, batch_count, M, N")
    A: T.Tensor([batch_sum, M], dtype)
    B: T.Tensor([batch_sum, N], dtype)
    sizes: T.Tensor([batch_count], T.int32)
    offsets: T.Tensor([batch_count], T.int32)
    C = T.empty([batch_count, M, N], dtype)

    with T.Kernel(T.ceildiv(M, block_M), T.ceildiv(N, block_N), batch_count, threads=threads) as (bx, by, bz):
        A_shared = T.alloc_shared([block_K, block_M], dtype)
        B_shared = T.alloc_shared([block_K, block_N], dtype)
        C_local = T.alloc_fragment([block_M, block_N], T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(sizes[bz], block_K), num_stages=num_stages):
            for i, j in T.Parallel(block_K, block_M):
                A_shared[i, j] = T.if_then_else(
                    k * block_K + i < sizes[bz] and bx * block_M + j < M,
                    A[offsets[bz] + k * block_K + i, bx * block_M + j], 0)
            for i, j in T.Parallel(block_K, block_N):
                B_shared[i, j] = T.if_then_else(
                    k * block_K + i < sizes[bz] and by * block_N + j < N,
                    B[offsets[bz] + k * block_K + i, by * block_N + j], 0)
            T.gemm(A_shared, B_shared, C_local, transpose_A=True)
        T.copy(C_local, C[bz, bx * block_M, by * block_N])
    return C


def inputs(rng):
    return {"A": rng.standard_normal((70, 40)), "B": rng.standard_normal((70, 72)),
            "sizes": np.array([20, 37, 13]), "offsets": np.array([0, 20, 57])}


def reference(A, B, sizes, offsets):
    return {"C": np.stack([A[o:o + s].T @ B[o:o + s] for o, s in zip(offsets, sizes)])}
