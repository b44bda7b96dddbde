"""C[M, N] = A[M, K] * B[N, K]^T, where each tile of K is summed apart and then added in float32."""
import tilelang
import tilelang.language as T


# For float8: tensor cores keep fewer bits of such sums than float32 has.
@tilelang.jit(out_idx=[-1])
def matmul_promoted(M, N, K, dtype="float8_e4m3fn", out_dtype="bfloat16", block_M=128, block_N=128,
                    block_K=128, num_stages=3, threads=256, panel=8):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), out_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            step = T.alloc_fragment((block_M, block_N), "float32")
            sums = T.alloc_fragment((block_M, block_N), "float32")
            T.use_swizzle(panel_size=panel, enable=panel > 0)
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, step, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    sums[i, j] += step[i, j]
            T.copy(sums, C[by * block_M, bx * block_N])

    return main
