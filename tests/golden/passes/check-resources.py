"""A tile that no block can hold is refused with its size."""
#: width=1024
#: width=1000000
import tilelang
import tilelang.language as T


@tilelang.jit
def kernel(width: int):
    @T.prim_func
    def main(y: T.Tensor((1024,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            tile = T.alloc_shared((1024, width), "float32")
            T.clear(tile)
            T.copy(tile[0, 0:1024], y[0:1024])

    return main
