"""A warpgroup of its own fetches the tiles of a pipelined product, of all of it or in pieces."""
#: pieces=False
#: pieces=True
import tilelang
import tilelang.language as T


@tilelang.jit
def make(pieces):
    @T.prim_func
    def product(A: T.Tensor((256, 128), "bfloat16"), B: T.Tensor((128, 128), "bfloat16"),
                C: T.Tensor((256, 128), "float32")):
        with T.Kernel(2, threads=128) as by:
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * 128, 0])

    @T.prim_func
    def product_in_pieces(A: T.Tensor((256, 512), "bfloat16"), B: T.Tensor((128, 512), "bfloat16"),
                          C: T.Tensor((3, 2, 128, 128), "float32")):
        with T.Kernel(3, threads=128) as block:
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            begin = block * 16 // 3
            end = (block + 1) * 16 // 3
            for tile in T.serial(begin // 8, (end + 7) // 8):
                first = T.max(begin - tile * 8, 0)
                T.clear(c)
                for k in T.Pipelined(first, T.min(end - tile * 8, 8), num_stages=3):
                    T.copy(A[tile * 128, k * 64], a)
                    T.copy(B[0, k * 64], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[block, T.if_then_else(first > 0, 0, 1), :, :])

    return product_in_pieces if pieces else product
