"""The last axis becomes vectors with a masked tail; a branch on it becomes a predicate."""
#:
import tilelang.language as T


@T.prim_func
def kernel(x: T.Tensor((4, 40), "float32"), s: T.Tensor((4,), "float32"),
           y: T.Tensor((4, 40), "float32")):
    with T.Kernel(1, threads=32) as bx:
        for i, j in T.Parallel(4, 40):
            if j % 2 == 0:
                y[i, j] = x[i, j] * s[i]
            else:
                y[i, j] = x[i, 39 - j]
