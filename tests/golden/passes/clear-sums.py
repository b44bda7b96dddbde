#: gpu=sm_90a
"""Sums that are cleared before their loop: by wgmma, by a loop that may not run, by mma.sync."""
import tilelang.language as T


@T.prim_func
def clearing(A: T.Tensor((128, 256), "float16"), B: T.Tensor((128, 256), "float16"),
             C: T.Tensor((128, 128), "float32"), D: T.Tensor((128, 128), "float32"),
             E: T.Tensor((32, 32), "float32"), n: T.int32):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((128, 64), "float16")
        b = T.alloc_shared((128, 64), "float16")
        sums = T.alloc_fragment((128, 128), "float32")
        some = T.alloc_fragment((128, 128), "float32")
        few = T.alloc_fragment((32, 32), "float32")
        T.clear(sums)
        for step in T.Pipelined(4, num_stages=2):
            T.copy(A[0, step * 64], a)
            T.copy(B[0, step * 64], b)
            T.gemm(a, b, sums, transpose_B=True)
        T.clear(some)
        for step in T.Pipelined(n, num_stages=2):
            T.copy(A[0, step * 64], a)
            T.copy(B[0, step * 64], b)
            T.gemm(a, b, some, transpose_B=True)
        T.clear(few)
        for step in T.serial(4):
            T.gemm(a[:32, step * 16:step * 16 + 16], b[:32, step * 16:step * 16 + 16], few,
                   transpose_B=True)
        T.copy(sums, C)
        T.copy(some, D)
        T.copy(few, E)
