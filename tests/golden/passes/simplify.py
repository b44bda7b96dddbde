"""A branch that the block's range decides, and index arithmetic that folds."""
#:
import tilelang.language as T


@T.prim_func
def kernel(x: T.Tensor((64,), "float32"), y: T.Tensor((64,), "float32")):
    with T.Kernel(4, threads=32) as bx:
        for i in T.serial(16):
            if bx * 16 + i < 64:
                y[bx * 16 + i] = x[(bx * 16 + i) // 1 + 0 * i]
            else:
                y[0] = 0.0
