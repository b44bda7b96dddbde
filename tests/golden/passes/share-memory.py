"""What a block stages for its results lies where the tiles of its products were: a fourth block
fits on an SM."""
#:gpu=sm_80
import tilelang
import tilelang.language as T


@T.prim_func
def product(A: T.Tensor((4096, 128), "float16"), B: T.Tensor((128, 4096), "float16"),
            C: T.Tensor((4096, 4096), "float32")):
    with T.Kernel(64, 64, threads=128) as (bx, by):
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        out = T.alloc_shared((64, 64), "float32")
        T.clear(c)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[by * 64, k * 64], a)
            T.copy(B[k * 64, bx * 64], b)
            T.gemm(a, b, c)
        T.copy(c, out)
        T.copy(out, C[by * 64, bx * 64])
