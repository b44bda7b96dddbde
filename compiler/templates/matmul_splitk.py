"""C[M, N] = A[M, K] * B[N, K]^T for small M and N: blocks share the sum over K, a second launch adds."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def matmul_splitk(M, N, K, dtype="bfloat16", out_dtype="bfloat16", split=4,
                  block_M=128, block_N=128, block_K=64, num_stages=3, threads=256, block=1024,
                  accum_dtype="float32"):
    chunk = (K + split * block_K - 1) // (split * block_K) * block_K  # of K, whole tiles

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), out_dtype)):
        partial = T.alloc_global((split, M, N), accum_dtype)
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split,
                      threads=threads) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            sums = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(sums)
            for k in T.Pipelined(chunk // block_K, num_stages=num_stages):
                T.copy(A[by * block_M, bz * chunk + k * block_K], A_shared)
                T.copy(B[bx * block_N, bz * chunk + k * block_K], B_shared)
                T.gemm(A_shared, B_shared, sums, transpose_B=True)
            T.copy(sums, partial[bz, by * block_M:(by + 1) * block_M, bx * block_N:(bx + 1) * block_N])
        with T.Kernel(T.ceildiv(N, block), M, threads=128) as (bx, by):
            total = T.alloc_fragment((block,), accum_dtype)
            T.clear(total)
            for s in T.unroll(split):
                for j in T.Parallel(block):
                    total[j] += partial[s, by, bx * block + j]
            T.copy(total, C[by, bx * block:(bx + 1) * block])

    return main
