"""Blocks inside of the tensors copy without guards, blocks at the edges with them."""
#:
import tilelang
import tilelang.language as T


@T.prim_func
def edges(A: T.Tensor((100, 200), "float32"), B: T.Tensor((100, 200), "float32")):
    with T.Kernel(2, 2, threads=128) as (bx, by):
        tile = T.alloc_fragment((64, 128), "float32")
        T.copy(A[by * 64, bx * 128], tile)
        T.copy(tile, B[by * 64, bx * 128])
