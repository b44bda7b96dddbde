"""Products of float32 that may be rounded to tf32: the right operand is not K-major, so that wgmma
cannot read it; the result of the first product is the left operand of the second, where it lies."""
#: gpu=sm_90a
import tilelang
import tilelang.language as T


@tilelang.jit(pass_configs={"kiln.tf32": True})
def kernel():
    @T.prim_func
    def main(A: T.Tensor((64, 16), "float32"), B: T.Tensor((16, 16), "float32"),
             C: T.Tensor((64, 16), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 16), "float32")
            b = T.alloc_shared((16, 16), "float32")
            once = T.alloc_fragment((64, 16), "float32")
            twice = T.alloc_fragment((64, 16), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, once, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            T.gemm(once, b, twice, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(twice, C)

    return main
