"""Integer products, brought back to int8 with a scale a row and a column."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "gemm_int8",
    "arguments": {"M": 70, "N": 96, "K": 128},
    "types": {"A": "int8", "B": "int8", "row_scale": "float32", "col_scale": "float32", "C": "int8",
              "raw": "int32"},
}


@tilelang.jit(out_idx=[-2, -1])
def gemm_int8(M, N, K, block_M=64, block_N=64, block_K=64, threads=128):
    @T.prim_func
    def main(A: T.Tensor((M, K), T.int8), B: T.Tensor((N, K), T.int8),
             row_scale: T.Tensor((M,), T.float32), col_scale: T.Tensor((N,), T.float32),
             C: T.Tensor((M, N), T.int8), raw: T.Tensor((M, N), T.int32)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), T.int8)
            B_shared = T.alloc_shared((block_N, block_K), T.int8)
            sums = T.alloc_fragment((block_M, block_N), T.int32)
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, sums, transpose_B=True)
            T.copy(sums, raw[by * block_M, bx * block_N])
            for i, j in T.Parallel(block_M, block_N):
                m = by * block_M + i
                n = bx * block_N + j
                if m < M and n < N:
                    scaled = T.cast(sums[i, j], T.float32) * row_scale[m] * col_scale[n]
                    C[m, n] = T.cast(T.clamp(T.round(scaled), -128, 127), T.int8)

    return main


def inputs(rng):
    return {"A": rng.integers(-128, 128, (70, 128)), "B": rng.integers(-128, 128, (96, 128)),
            "row_scale": 2.0 ** rng.integers(-9, -6, 70), "col_scale": 2.0 ** rng.integers(-4, -1, 96)}


def reference(A, B, row_scale, col_scale):
    raw = A @ B.T
    scaled = np.rint(raw * row_scale[:, None] * col_scale[None, :])
    return {"C": np.clip(scaled, -128, 127).astype(np.int64), "raw": raw}
