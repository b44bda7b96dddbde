"""C[M, N] = A[M, K] * B[N, K]^T for few rows of A: rows of B fill the tensor cores' tiles, A's the columns."""
import tilelang
import tilelang.language as T


# rotate: neighbouring blocks begin at different steps of K, and go around: all of them at once would
# ask the L2 cache for the same few lines of A. Worth a try with few rows and a K of a few thousand
# (tests/bench/results/gpu_h200.txt has both ways, "few" and "rotated"); prices do not tell them apart.
# No config has it unless a sweep's tunables say so: {rotate: [false, true]}.
@tilelang.jit(out_idx=[-1])
def matmul_decode(M, N, K, dtype="bfloat16", out_dtype="bfloat16",
                  block_M=16, block_N=64, block_K=128, num_stages=4, threads=128, rotate=False):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), out_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            sums = T.alloc_fragment((block_N, block_M), "float32")
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                step = (k + bx) % T.ceildiv(K, block_K) if rotate else k
                T.copy(B[bx * block_N, step * block_K], B_shared)
                T.copy(A[by * block_M, step * block_K], A_shared)
                T.gemm(B_shared, A_shared, sums, transpose_B=True)
            for i, j in T.Parallel(block_N, block_M):
                if bx * block_N + i < N and by * block_M + j < M:
                    C[by * block_M + j, bx * block_N + i] = sums[i, j]

    return main
