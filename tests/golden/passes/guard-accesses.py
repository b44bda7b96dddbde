"""Element accesses outside a global tensor read zero and write nothing; a negative index counts
from the end."""
#:
import tilelang.language as T


@T.prim_func
def kernel(x: T.Tensor((50,), "float32"), y: T.Tensor((50,), "float32")):
    with T.Kernel(4, threads=32) as bx:
        for i in T.Parallel(16):
            y[bx * 16 + i] = x[bx * 16 + i] + x[-1]
