"""Products of groups of rows with a matrix each; where the groups start only the call knows. Tiles are laid out
as if every group were filled up to whole tiles."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "grouped",
    "arguments": {"batch_sum": 70, "batch_count": 3, "K": 64, "N": 72, "block_M": 32, "block_N": 64,
                  "block_K": 32},
    "types": {"A": "float16", "B": "float16", "sizes": "int32", "offsets": "int32", "padded": "int32",
              "C": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit(pass_configs={"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True})
def grouped(A, B, sizes, offsets, padded, block_M, block_N, block_K, num_stages=2, threads=128):
    batch_sum, batch_count, K, N = T.const("batch_sum, batch_count, K, N")
    dtype, accum_dtype = T.float16, T.float32
    A: T.Tensor([batch_sum, K], dtype)
    B: T.Tensor([batch_count, K, N], dtype)
    sizes: T.Tensor([batch_count], T.int32)
    offsets: T.Tensor([batch_count], T.int32)
    padded: T.Tensor([batch_count], T.int32)
    C = T.empty([batch_sum, N], dtype)

    with T.Kernel(T.ceildiv(batch_sum, block_M) + batch_count, T.ceildiv(N, block_N), threads=threads) as (bx, by):
        A_shared = T.alloc_shared([block_M, block_K], dtype)
        B_shared = T.alloc_shared([block_K, block_N], dtype)
        C_local = T.alloc_fragment([block_M, block_N], accum_dtype)
        group = T.alloc_var(dtype=T.int32)
        size = T.alloc_var(dtype=T.int32)
        row_padded = bx * block_M
        group = 0
        for i in range(batch_count):
            reached = row_padded >= padded[i]
            group = T.if_then_else(reached, i, group)
        size = sizes[group]
        row = row_padded - padded[group] + offsets[group]
        rows = T.max(0, T.min(block_M, size + padded[group] - row_padded))
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[row:row + block_M, k * block_K:(k + 1) * block_K], A_shared)
            T.copy(B[group, k * block_K:(k + 1) * block_K, by * block_N:(by + 1) * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        for i, j in T.Parallel(block_M, block_N):
            if i < rows and by * block_N + j < N:
                C[row + i, by * block_N + j] = C_local[i, j]
    return C


def inputs(rng):
    return {"A": rng.standard_normal((70, 64)), "B": rng.standard_normal((3, 64, 72)),
            "sizes": np.array([20, 37, 13]), "offsets": np.array([0, 20, 57]), "padded": np.array([0, 32, 96])}


def reference(A, B, sizes, offsets, padded):
    parts = [A[o:o + s] @ b for o, s, b in zip(offsets, sizes, B)]
    return {"C": np.concatenate(parts)}
