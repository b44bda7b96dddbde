"""The loop with the most arithmetic fetches the next block's rows; a tile that stays put needs none."""
#: moves=True
#: moves=False
import tilelang
import tilelang.language as T


@tilelang.jit
def kernel(moves: bool):
    @T.prim_func
    def main(x: T.Tensor((8, 64), "float32"), y: T.Tensor((8, 64), "float32"),
             z: T.Tensor((8, 64), "float32")):
        with T.Kernel(4, threads=32) as bx:
            tile = T.alloc_fragment((2, 64), "float32")
            if moves:
                T.copy(x[bx * 2, 0], tile)
            else:
                T.copy(x[2, 0], tile)
            for i, j in T.Parallel(2, 64):
                y[bx * 2 + i, j] = T.exp(tile[i, j])
            for i, j in T.Parallel(2, 64):
                z[bx * 2 + i, j] = tile[i, j] + 1.0

    return main
