"""Functions that are no instruction of a GPU, of arguments small and large."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def functions(M, N):
    @T.prim_func
    def main(x: T.Tensor((M, N), "float32"), out: T.Tensor((5, M, N), "float32")):
        with T.Kernel(M, threads=128) as bx:
            for j in T.Parallel(N):
                out[0, bx, j] = T.sin(x[bx, j] * 64)
                out[1, bx, j] = T.cos(x[bx, j] * 1048576)
                out[2, bx, j] = T.erf(x[bx, j])
                out[3, bx, j] = T.pow(T.abs(x[bx, j]), 1.7)
                out[4, bx, j] = T.tanh(x[bx, j])

    return main
