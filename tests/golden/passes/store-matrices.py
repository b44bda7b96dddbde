"""A warp stores 8 by 8 matrices of a product's result together, as they lie and turned."""
#:
import tilelang
import tilelang.language as T


@T.prim_func
def product(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"),
            C: T.Tensor((64, 64), "float16"), D: T.Tensor((64, 64), "float16")):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        out = T.alloc_shared((64, 64), "float16")
        turned = T.alloc_shared((64, 64), "float16")
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c, clear_accum=True)
        T.copy(c, out)
        for i, j in T.Parallel(64, 64):
            turned[j, i] = c[i, j] * 2.0
        T.copy(out, C)
        T.copy(turned, D)
