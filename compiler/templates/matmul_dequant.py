"""C[M, N] = A[M, K] * W[N, K]^T with W in 4 or 8 bits and a scale a group: (code - zero) * scale, or float8 * scale."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def matmul_dequant(M, N, K, bits=4, group=128, dtype="float16", out_dtype="float16",
                   block_M=64, block_N=128, block_K=64, num_stages=3, threads=128, codes="uint8"):
    assert bits in (4, 8), f"codes have 4 or 8 bits, not {bits}"
    assert codes in ("uint8", "float8_e4m3fn", "float8_e5m2"), f"no codes of {codes}"
    assert codes == "uint8" or bits == 8, f"{codes} has 8 bits, not {bits}"
    assert K % group == 0, f"K={K} is no multiple of group={group}"
    assert group % block_K == 0, f"a tile of {block_K} is no part of a group of {group}"
    pack = 8 // bits  # codes in a byte, the first in its low bits
    zero = 1 << (bits - 1)
    mask = (1 << bits) - 1

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), W: T.Tensor((N, K // pack), codes),
             scale: T.Tensor((N, K // group), dtype), C: T.Tensor((M, N), out_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            W_shared = T.alloc_shared((block_N, block_K // pack), codes)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            sums = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(sums)
            for k in T.Pipelined(K // block_K, num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * (block_K // pack)], W_shared)
                for i, j in T.Parallel(block_N, block_K):
                    if codes == "uint8":
                        code = T.cast((W_shared[i, j // pack] >> (j % pack * bits)) & mask, "int32") - zero
                    else:
                        code = W_shared[i, j]
                    B_shared[i, j] = (T.cast(code, dtype)
                                      * scale[T.min(bx * block_N + i, N - 1), k * block_K // group])
                T.gemm(A_shared, B_shared, sums, transpose_B=True)
            T.copy(sums, C[by * block_M, bx * block_N])

    return main
