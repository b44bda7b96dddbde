#:
"""Scores are doubled and multiplied with values: two products a step, of which the second waits."""
import tilelang.language as T


@T.prim_func
def chained(Q: T.Tensor((64, 64), "float16"), K: T.Tensor((256, 64), "float16"),
            V: T.Tensor((256, 64), "float16"), O: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        q = T.alloc_shared((64, 64), "float16")
        k = T.alloc_shared((64, 64), "float16")
        v = T.alloc_shared((64, 64), "float16")
        s = T.alloc_fragment((64, 64), "float32")
        p = T.alloc_fragment((64, 64), "float16")
        o = T.alloc_fragment((64, 64), "float32")
        T.copy(Q, q)
        T.clear(o)
        for step in T.Pipelined(4, num_stages=2):
            T.copy(K[step * 64, 0], k)
            T.copy(V[step * 64, 0], v)
            T.gemm(q, k, s, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                s[i, j] = s[i, j] * 2.0
            T.copy(s, p)
            T.gemm(p, v, o)
        T.copy(o, O)
