#:
"""Two tiles are fetched two steps ahead; a third one, whose place is computed in the loop, is not."""
import tilelang
import tilelang.language as T


@tilelang.jit(pass_configs={"tl.disable_warp_specialized": True})
def sums():
    @T.prim_func
    def main(A: T.Tensor((64, 1024), "float32"), B: T.Tensor((64, 1024), "float32"),
             C: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((64, 32), "float32")
            b = T.alloc_shared((64, 32), "float32")
            d = T.alloc_shared((64, 32), "float32")
            c = T.alloc_fragment((64, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(32, num_stages=3):
                T.copy(A[0, k * 32], a)
                T.copy(B[0, k * 32], b)
                other = 31 - k
                T.copy(B[0, other * 32], d)
                for i, j in T.Parallel(64, 32):
                    c[i, j] += a[i, j] * b[i, j] + d[i, j]
            T.copy(c, C)

    return main
