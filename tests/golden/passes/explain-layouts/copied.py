# No owners will do: t is written where s is held transposed, and s where t is held; s is read from a copy.
import tilelang
import tilelang.language as T


@tilelang.jit
def copied():
    @T.prim_func
    def main(A: T.Tensor((8, 8), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_fragment((8, 8), T.float32)
            t = T.alloc_fragment((8, 8), T.float32)
            T.copy(A, t)
            for i, j in T.Parallel(8, 8):
                s[i, j] = t[i, j]
            for i, j in T.Parallel(8, 8):
                t[i, j] = s[j, i]
            T.copy(t, A)

    return main
