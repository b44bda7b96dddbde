"""The same with whole tiles added through shared memory, and the sums of all parts in one tensor."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "splitk_tiles",
    "arguments": {"M": 100, "N": 72, "K": 192, "block_M": 64, "block_N": 64, "block_K": 32, "split_k": 3},
    "types": {"A": "bfloat16", "B": "bfloat16", "C": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit
def splitk_tiles(M, N, K, block_M, block_N, block_K, split_k, dtype="bfloat16"):
    part = K // split_k

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split_k, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_shared = T.alloc_shared((block_M, block_N), "float32")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(part // block_K, num_stages=2):
                T.copy(A[by * block_M, bz * part + k * block_K], A_shared)
                T.copy(B[bx * block_N, bz * part + k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C_shared)
            T.atomic_add(C[by * block_M, bx * block_N], C_shared)

    return main


def inputs(rng):
    return {"A": rng.standard_normal((100, 192)), "B": rng.standard_normal((72, 192)),
            "C": np.zeros((100, 72))}


def reference(A, B, C):
    return {"C": A @ B.T}
