"""Whole vectors of a large output go past the caches; small, ragged and re-read ones do not."""
#: M=4096 N=1024 reread=False
#: M=4096 N=1024 reread=True
#: M=4096 N=1000 reread=False
#: M=16 N=1024 reread=False
import tilelang
import tilelang.language as T


@tilelang.jit
def kernel(M: int, N: int, reread: bool):
    @T.prim_func
    def main(x: T.Tensor((M, N), "float32"), y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=32) as bx:
            for j in T.Parallel(N):
                if reread:
                    y[bx, j] = y[bx, j] + x[bx, j]
                else:
                    y[bx, j] = x[bx, j] * 2.0

    return main
