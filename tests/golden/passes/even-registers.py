"""128 sums a thread leave the registers evenly shared; with 192 the threads that fetch give some to the others."""
#: columns=256
#: columns=384
import tilelang
import tilelang.language as T


@tilelang.jit
def make(columns):
    @T.prim_func
    def product(A: T.Tensor((128, 64), "float16"), B: T.Tensor((columns, 64), "float16"),
                C: T.Tensor((128, columns), "float32")):
        with T.Kernel(1, threads=256) as bx:
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((columns // 2, 64), "float16")
            c = T.alloc_shared((columns // 2, 64), "float16")
            left = T.alloc_fragment((128, columns // 2), "float32")
            right = T.alloc_fragment((128, columns // 2), "float32")
            T.clear(left)
            T.clear(right)
            for k in T.Pipelined(1, num_stages=1):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.copy(B[columns // 2, k * 64], c)
                T.gemm(a, b, left, transpose_B=True)
                T.gemm(a, c, right, transpose_B=True)
            T.copy(left, C[0, 0])
            T.copy(right, C[0, columns // 2])

    return product
