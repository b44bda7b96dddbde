"""Rows reduce along vectors with a masked tail; columns reduce whole rows at a time."""
#: dim=1
#: dim=0
import tilelang
import tilelang.language as T


@tilelang.jit
def kernel(dim: int):
    @T.prim_func
    def main(y: T.Tensor((8 if dim == 1 else 70,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            tile = T.alloc_fragment((8, 70), "float32")
            acc = T.alloc_fragment((8 if dim == 1 else 70,), "float32")
            T.fill(tile, 1.0)
            T.reduce_max(tile, acc, dim=dim)
            T.copy(acc, y[0])

    return main
