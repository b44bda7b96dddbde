"""A loop is dealt out to threads, a reduction crosses them, one thread does what a block does once."""
#: n=64
#: n=24
import tilelang
import tilelang.language as T


@tilelang.jit
def kernel(n: int):
    @T.prim_func
    def main(x: T.Tensor((4, n), "float32"), y: T.Tensor((4,), "float32"),
             count: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((4, n), "float32")
            rows = T.alloc_fragment((4,), "float32")
            T.copy(x, tile)
            T.reduce_max(tile, rows, dim=1)
            T.copy(rows, y)
            count[0] = n

    return main
