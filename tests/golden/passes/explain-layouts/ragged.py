# 13 elements over 8 threads, a scale that every thread holds, and a fragment that is asked about.
import tilelang
import tilelang.language as T


@tilelang.jit
def ragged():
    @T.prim_func
    def main(A: T.Tensor((13,), T.float32), B: T.Tensor((13,), T.float32)):
        with T.Kernel(1, threads=8):
            x = T.alloc_fragment((13,), T.float32)
            scale = T.alloc_fragment((1,), T.float32)
            limit = T.alloc_fragment((2,), T.float32)
            T.fill(limit, 1.0)
            for k in T.Parallel(1):
                scale[0] = A[0]
            T.copy(A, x)
            if limit[1] > 0:
                for i in T.Parallel(13):
                    B[i] = x[i] * scale[0]

    return main
