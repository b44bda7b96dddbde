#: gpu=sm_80
"""Two products of copied tiles: one adds to sums from before, the other starts anew in each step."""
import tilelang.language as T


@T.prim_func
def lagging(A: T.Tensor((64, 256), "float16"), B: T.Tensor((64, 256), "float16"),
            C: T.Tensor((64, 64), "float32"), D: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        c = T.alloc_shared((64, 64), "float16")
        d = T.alloc_shared((64, 64), "float16")
        sums = T.alloc_fragment((64, 64), "float32")
        last = T.alloc_fragment((64, 64), "float32")
        T.clear(sums)
        for step in T.Pipelined(4, num_stages=3):
            T.copy(A[0, step * 64], a)
            T.copy(B[0, step * 64], b)
            T.gemm(a, b, sums, transpose_B=True)
        for step in T.Pipelined(4, num_stages=3):
            T.copy(A[0, step * 64], c)
            T.copy(B[0, step * 64], d)
            T.gemm(c, d, last, transpose_B=True, clear_accum=True)
        T.copy(sums, C)
        T.copy(last, D)
