"""Of two tiles of a block, one is multiplied while the other is stored: one warp runs the products."""
#: gpu=sm_100a
import tilelang
import tilelang.language as T


@T.prim_func
def product(A: T.Tensor((16384, 128), "bfloat16"), B: T.Tensor((256, 128), "bfloat16"),
            C: T.Tensor((16384, 256), "float32")):
    with T.Kernel(2, 128, threads=128) as (bx, by):
        a = T.alloc_shared((128, 64), "bfloat16")
        b = T.alloc_shared((128, 64), "bfloat16")
        c = T.alloc_fragment((128, 128), "float32")
        T.clear(c)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[by * 128, k * 64], a)
            T.copy(B[bx * 128, k * 64], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * 128, bx * 128])
