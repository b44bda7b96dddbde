"""What a loop of products adds to lies in tensor memory meanwhile: cleared by the first product, or
stored there; what is looked at in between does not."""
#: gpu=sm_100a
import tilelang
import tilelang.language as T


@T.prim_func
def product(A: T.Tensor((128, 128), "bfloat16"), B: T.Tensor((128, 128), "bfloat16"),
            C: T.Tensor((128, 128), "float32"), D: T.Tensor((128, 128), "float32"),
            E: T.Tensor((128, 128), "float32")):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((128, 64), "bfloat16")
        b = T.alloc_shared((128, 64), "bfloat16")
        c = T.alloc_fragment((128, 128), "float32")
        d = T.alloc_fragment((128, 128), "float32")
        e = T.alloc_fragment((128, 128), "float32")
        T.clear(c)
        T.copy(D, d)
        T.clear(e)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[0, k * 64], a)
            T.copy(B[0, k * 64], b)
            T.gemm(a, b, c, transpose_B=True)
            T.gemm(a, b, d, transpose_B=True)
            T.gemm(a, b, e, transpose_B=True)
            for i, j in T.Parallel(128, 128):
                e[i, j] = e[i, j] * 0.5
        T.copy(c, C)
        T.copy(d, D)
        T.copy(e, E)
