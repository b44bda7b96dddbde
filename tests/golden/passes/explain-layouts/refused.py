# No owners will do: one loop writes s and t, another writes s and t transposed.
import tilelang
import tilelang.language as T


@tilelang.jit
def refused():
    @T.prim_func
    def main(A: T.Tensor((8, 8), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_fragment((8, 8), T.float32)
            t = T.alloc_fragment((8, 8), T.float32)
            T.copy(A, t)
            for i, j in T.Parallel(8, 8):
                s[i, j] = t[i, j]
            for i, j in T.Parallel(8, 8):
                t[i, j] = A[i, j]
                s[j, i] = A[j, i] + 1
            T.copy(t, A)
            T.copy(s, A)

    return main
