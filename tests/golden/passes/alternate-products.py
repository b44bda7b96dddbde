"""Each step's product is scaled and added: every other one has registers of its own."""
#: alternates=True
#: alternates=False
import tilelang
import tilelang.language as T


@tilelang.jit
def make(alternates):
    @T.prim_func
    def promoted(A: T.Tensor((64, 320), "float16"), B: T.Tensor((16, 320), "float16"),
                 S: T.Tensor((5,), "float32"), C: T.Tensor((64, 16), "float32")):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((16, 64), "float16")
            step = T.alloc_fragment((64, 16), "float32")
            sums = T.alloc_fragment((64, 16), "float32")
            T.clear(sums)
            for k in T.Pipelined(5, num_stages=2 if alternates else 1):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, step, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 16):
                    sums[i, j] += step[i, j] * S[k]
            T.copy(sums, C)

    return promoted
