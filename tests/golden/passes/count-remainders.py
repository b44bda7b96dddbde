"""Three versions of a tile: which one a step has, and which phase, is counted; of four it is a mask."""
#: stages=3
#: stages=4
import tilelang
import tilelang.language as T


@tilelang.jit
def make(stages):
    @T.prim_func
    def product(A: T.Tensor((64, 512), "float16"), B: T.Tensor((16, 512), "float16"),
                C: T.Tensor((64, 16), "float32")):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((16, 64), "float16")
            sums = T.alloc_fragment((64, 16), "float32")
            T.clear(sums)
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, sums, transpose_B=True)
            T.copy(sums, C)

    return product
