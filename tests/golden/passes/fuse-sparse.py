"""A product takes a sparse form itself where its GPU multiplies such, and the tile that it was expanded to goes; not
where float32 has to stay exact, and not where tcgen05 multiplies."""
#: type=float16
#: type=float32
#: type=float16 gpu=sm_100a
import tilelang
import tilelang.language as T


@tilelang.jit
def kernel(type):
    per = 16 if type == "float16" else 8

    @T.prim_func
    def main(A: T.Tensor((64, 64), type), E: T.Tensor((64, 128 // per), "int16"), B: T.Tensor((32, 128), type),
             C: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), type)
            e = T.alloc_shared((64, 64 // per), "int16")
            b = T.alloc_shared((32, 64), type)
            c = T.alloc_fragment((64, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(E[0, k * (64 // per)], e)
                T.copy(B[0, k * 64], b)
                T.gemm_sp(a, e, b, c, transpose_B=True)
            T.copy(c, C)

    return main
