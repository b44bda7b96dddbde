#: N=512 K=384
#: N=512 K=416
"""The weights are read once, and wgmma alone reads their tiles; A's are read by every block. Of a part
of a panel at the end of K a map of panels cannot say anything."""
import tilelang
import tilelang.language as T


@tilelang.jit
def few_rows(N, K):
    @T.prim_func
    def main(A: T.Tensor((16, K), "float16"), B: T.Tensor((N, K), "float16"),
             C: T.Tensor((16, N), "float32")):
        with T.Kernel(T.ceildiv(N, 64), threads=128) as bx:
            a = T.alloc_shared((16, 128), "float16")
            b = T.alloc_shared((64, 128), "float16")
            sums = T.alloc_fragment((64, 16), "float32")
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(K, 128), num_stages=3):
                T.copy(B[bx * 64, k * 128], b, eviction_policy="evict_first")
                T.copy(A[0, k * 128], a)
                T.gemm(b, a, sums, transpose_B=True)
            for i, j in T.Parallel(64, 16):
                C[j, bx * 64 + i] = sums[i, j]

    return main
