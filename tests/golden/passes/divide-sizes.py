#:
"""What is known of run-time sizes stands in the shapes; of M nothing is."""
import tilelang
import tilelang.language as T


@tilelang.jit
def scaled():
    M, N, K = T.dynamic("M, N, K")

    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), B: T.StridedTensor((M, 64), (K, 1), "float16"),
             C: T.Tensor((M, N), "float16")):
        T.assume(N % 64 == 0 and 2 * K % 16 == 0)
        T.assume(N % 96 == 0)
        with T.Kernel(M, threads=64) as b:
            for j in T.Parallel(64):
                C[b, j] = A[b, j] + B[b, j]

    return main
