"""Barriers around a tile that goes through shared memory again and again; tensor cores see what
threads stored behind a fence."""
#:
import tilelang
import tilelang.language as T


@T.prim_func
def product(A: T.Tensor((128, 128), "bfloat16"), B: T.Tensor((128, 128), "bfloat16"),
            C: T.Tensor((128, 128), "float32")):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((128, 64), "bfloat16")
        b = T.alloc_shared((128, 64), "bfloat16")
        c = T.alloc_fragment((128, 128), "float32")
        T.clear(c)
        for k in T.serial(2):
            T.copy(A[0, k * 64], a)
            T.copy(B[0, k * 64], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C)
