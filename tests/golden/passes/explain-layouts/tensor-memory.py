#: gpu=sm_100a
"""One result in tensor memory, which is loaded a row a thread; one that stays in registers."""
import tilelang
import tilelang.language as T


@T.prim_func
def product(A: T.Tensor((64, 64), "bfloat16"), B: T.Tensor((32, 64), "bfloat16"),
            C: T.Tensor((64, 32), "float32"), D: T.Tensor((64, 32), "float32")):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((64, 64), "bfloat16")
        b = T.alloc_shared((32, 64), "bfloat16")
        c = T.alloc_fragment((64, 32), "float32")
        d = T.alloc_fragment((64, 32), "float32")
        T.clear(c)
        T.clear(d)
        for k in T.Pipelined(2, num_stages=1):
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True)
            T.gemm(a, b, d, transpose_B=True)
            for i, j in T.Parallel(64, 32):
                d[i, j] = d[i, j] * 0.5
        T.copy(c, C)
        T.copy(d, D)
