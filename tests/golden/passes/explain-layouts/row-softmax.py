# Reductions hand their result to everybody who holds a part of the row.
import tilelang
import tilelang.language as T


@tilelang.jit
def row_softmax():
    @T.prim_func
    def main(A: T.Tensor((4, 32), T.float32), B: T.Tensor((4, 32), T.float32)):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((4, 32), T.float32)
            top = T.alloc_fragment((4,), T.float32)
            total = T.alloc_fragment((4,), T.float32)
            T.copy(A, x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(4, 32):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(4, 32):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, B)

    return main
