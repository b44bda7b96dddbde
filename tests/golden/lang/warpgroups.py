"""Two warpgroups of a block: one fetches a tile, the other multiplies it."""
#: N=64
import tilelang
import tilelang.language as T


@tilelang.jit
def warpgroups(N):
    @T.prim_func
    def main(a: T.Tensor((64, N), "float16"), c: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((64, N), "float16")
            product = T.alloc_fragment((64, 64), "float32")
            with T.ws(0):
                T.copy(a, tile)
            with T.ws(1):
                T.gemm(tile, tile, product, transpose_B=True, clear_accum=True)
                T.copy(product, c)

    return main
