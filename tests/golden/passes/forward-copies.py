"""A tile that is copied and reduced once goes; one that is also stored stays."""
#: stored=False
#: stored=True
import tilelang
import tilelang.language as T


@tilelang.jit
def kernel(stored: bool):
    @T.prim_func
    def main(x: T.Tensor((8, 64), "float32"), y: T.Tensor((8,), "float32"),
             z: T.Tensor((8, 64), "float32")):
        with T.Kernel(4, threads=32) as bx:
            tile = T.alloc_fragment((2, 64), "float32")
            acc = T.alloc_fragment((2,), "float32")
            T.copy(x[bx * 2, 0], tile)
            T.reduce_sum(tile, acc, dim=1)
            if stored:
                T.copy(tile, z[bx * 2, 0])
            T.copy(acc, y[bx * 2])

    return main
