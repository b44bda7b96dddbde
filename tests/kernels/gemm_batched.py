"""C[b] = A[b] B[b / group]: several matrices of A share one of B."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "batched",
    "arguments": {"batch": 4, "group": 2, "M": 40, "N": 72, "K": 96, "block_M": 32, "block_N": 64},
    "types": {"A": "float16", "B": "float16", "C": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit(out_idx=2)
def batched(batch, group, M, N, K, block_M, block_N, block_K=32, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor([batch, M, K], dtype), B: T.Tensor([batch // group, K, N], dtype),
             C: T.Tensor([batch, M, N], dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), batch, threads=64) as (bx, by, bz):
            A_shared = T.alloc_shared([block_M, block_K], dtype)
            B_shared = T.alloc_shared([block_K, block_N], dtype)
            C_local = T.alloc_fragment([block_M, block_N], "float")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[bz, by * block_M:(by + 1) * block_M, k * block_K:(k + 1) * block_K], A_shared)
                T.copy(B[bz // group, k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, policy=T.GemmWarpPolicy.FullCol)
            T.copy(C_local, C[bz, by * block_M, bx * block_N])

    return main


def inputs(rng):
    return {"A": rng.standard_normal((4, 40, 96)), "B": rng.standard_normal((2, 96, 72))}


def reference(A, B):
    return {"C": A @ np.repeat(B, 2, axis=0)}
