"""Few rows: B is streamed in whole rows and C stays in cache. A matrix unit takes 32 x 32 of C."""
#: M=2 block_M=2
#: M=40 block_M=40 dtype=bfloat16 amx
import tilelang
import tilelang.language as T


@tilelang.jit
def kernel(M: int, block_M: int, dtype="float16"):
    @T.prim_func
    def main(a: T.Tensor((M, 32), dtype), b: T.Tensor((32, 128), dtype),
             c: T.Tensor((M, 128), "float32")):
        with T.Kernel(1, threads=32) as bx:
            a_tile = T.alloc_shared((block_M, 32), dtype)
            b_tile = T.alloc_shared((32, 128), dtype)
            acc = T.alloc_fragment((block_M, 128), "float32")
            T.clear(acc)
            T.copy(a[bx * block_M, 0], a_tile)
            T.copy(b[0, 0], b_tile)
            T.gemm(a_tile, b_tile, acc)
            T.copy(acc, c[bx * block_M, 0])

    return main
