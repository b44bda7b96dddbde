"""A result that a parallel loop computes is stored where it belongs, unless the tile is read again."""
#: again=False
#: again=True
import tilelang
import tilelang.language as T


@tilelang.jit
def kernel(again: bool):
    @T.prim_func
    def main(x: T.Tensor((7, 64), "float32"), y: T.Tensor((7, 64), "float16"),
             z: T.Tensor((7, 64), "float32")):
        with T.Kernel(4, threads=32) as bx:
            tile = T.alloc_fragment((2, 64), "float32")
            T.copy(x[bx * 2, 0], tile)
            for i, j in T.Parallel(2, 64):
                tile[i, j] = tile[i, j] * 2.0
            T.copy(tile, y[bx * 2, 0])
            if again:
                T.copy(tile, z[bx * 2, 0])

    return main
