"""Two products of a warpgroup: the first sets its tiles' layouts, the second takes its left operand
from the registers that the first one left it in."""
#: gpu=sm_90a
import tilelang
import tilelang.language as T


@tilelang.jit
def kernel():
    @T.prim_func
    def main(Q: T.Tensor((64, 64), "float16"), K: T.Tensor((32, 64), "float16"),
             V: T.Tensor((32, 64), "float16"), O: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((64, 64), "float16")
            k = T.alloc_shared((32, 64), "float16")
            v = T.alloc_shared((32, 64), "float16")
            scores = T.alloc_fragment((64, 32), "float32")
            weights = T.alloc_fragment((64, 32), "float16")
            out = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({k: T.Layout((32, 64), lambda i, j: i * 72 + j)})
            T.copy(Q, q)
            T.copy(K, k)
            T.copy(V, v)
            T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
            T.copy(scores, weights)
            T.gemm(weights, v, out, clear_accum=True)
            T.copy(out, O)

    return main
