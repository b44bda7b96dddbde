"""wgmma reads float32 K-major alone: the operand that lies otherwise comes from registers, and where that is B, the
result is turned. A sum along its rows keeps it as it is, and other GPUs have mma.sync."""
#: trans=False
#: trans=True
#: summed=True
#: trans=False gpu=sm_80
import tilelang
import tilelang.language as T


@tilelang.jit(pass_configs={"kiln.tf32": 1})
def product(trans=False, summed=False):
    @T.prim_func
    def main(A: T.Tensor((128, 128), "float32"), B: T.Tensor((128, 128), "float32"),
             bias: T.Tensor((128,), "float32"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(2, 1, threads=128) as (bx, by):
            a = T.alloc_shared((32, 128) if trans else (128, 32), "float32")
            b = T.alloc_shared((64, 32) if trans else (32, 64), "float32")
            c = T.alloc_fragment((128, 64), "float32")
            r = T.alloc_fragment((128,), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                if trans:
                    T.copy(A[k * 32, 0], a)
                    T.copy(B[bx * 64, k * 32], b)
                else:
                    T.copy(A[0, k * 32], a)
                    T.copy(B[k * 32, bx * 64], b)
                T.gemm(a, b, c, transpose_A=trans, transpose_B=trans)
            if summed:
                T.reduce_sum(c, r, dim=1)
            for i, j in T.Parallel(128, 64):
                c[i, j] = c[i, j] + bias[bx * 64 + j]
            T.copy(c, C[0, bx * 64])

    return main
