"""Two groups of threads, each with work of its own, become one block."""
#: n=64
import tilelang
import tilelang.language as T


@tilelang.jit
def kernel(n: int):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=256):
            with T.ws(0):
                for i in T.Parallel(n):
                    y[i] = x[i] * 2.0
            with T.ws(1):
                x[0] = 1.0

    return main
