"""An unrolled loop is expanded, a pipelined one becomes serial."""
#:
import tilelang.language as T


@T.prim_func
def kernel(x: T.Tensor((64,), "float32"), y: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32) as bx:
        for k in T.Pipelined(4, num_stages=2):
            for u in T.unroll(2):
                y[k * 2 + u] = x[k * 2 + u]
