# A tile that keeps the layout that the kernel gives it, which no instruction of tensor cores reads.
import tilelang
import tilelang.language as T


@tilelang.jit
def f():
    @T.prim_func
    def main(
        A: T.Tensor((16, 32), T.float16),
        B: T.Tensor((32, 16), T.float16),
        C: T.Tensor((16, 16), T.float32),
    ):
        with T.Kernel(1, threads=32) as bx:
            a = T.alloc_shared((16, 32), T.float16)
            b = T.alloc_shared((32, 16), T.float16)
            c = T.alloc_fragment((16, 16), T.float32)
            T.annotate_layout({b: T.Layout((32, 16), lambda i, j: j * 32 + i)})
            T.clear(c)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c)
            T.copy(c, C)

    return main
