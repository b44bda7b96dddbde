"""Two warpgroups with a product each and a softmax between: what one has is passed through shared memory."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "two_groups",
    "arguments": {"M": 100, "N": 64, "K": 32},
    "types": {"A": "float16", "B": "float16", "V": "float16", "O": "float16"},
    "tolerance": 4e-3,
}


@tilelang.jit(out_idx=[-1])
def two_groups(M, N, K, block_M=64):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), V: T.Tensor((N, K), "float16"),
             O: T.Tensor((M, K), "float16")):
        with T.Kernel(T.ceildiv(M, block_M), threads=256) as bx:
            a = T.alloc_shared((block_M, K), "float16")
            b = T.alloc_shared((N, K), "float16")
            v = T.alloc_shared((N, K), "float16")
            p = T.alloc_shared((block_M, N), "float16")
            T.copy(A[bx * block_M, 0], a)
            T.copy(B, b)
            T.copy(V, v)
            with T.ws(0):
                s = T.alloc_fragment((block_M, N), "float32")
                top = T.alloc_fragment((block_M,), "float32")
                total = T.alloc_fragment((block_M,), "float32")
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                T.reduce_max(s, top, dim=1)
                for i, j in T.Parallel(block_M, N):
                    s[i, j] = T.exp(s[i, j] - top[i])
                T.reduce_sum(s, total, dim=1)
                for i, j in T.Parallel(block_M, N):
                    p[i, j] = s[i, j] / total[i]
            with T.ws(1):
                o = T.alloc_fragment((block_M, K), "float32")
                T.gemm(p, v, o, clear_accum=True)
                T.copy(o, O[bx * block_M, 0])

    return main


def inputs(rng):
    return {"A": rng.standard_normal((100, 32)) / 2, "B": rng.standard_normal((64, 32)) / 2,
            "V": rng.standard_normal((64, 32))}


def reference(A, B, V):
    s = np.exp(A @ B.T)
    return {"O": s / s.sum(1, keepdims=True) @ V}
