"""C = A B in clusters of two blocks beside each other: the first one's tiles of A go to both, by barriers of their own."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "multicast",
    "arguments": {"M": 96, "N": 128, "K": 160, "block": 32, "block_K": 32},
    "types": {"A": "float16", "B": "float16", "C": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit(out_idx=[2])
def multicast(M, N, K, block, block_K):
    half = block // 2

    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((K, N), T.float16), C: T.Tensor((M, N), T.float32)):
        with T.ClusterKernel(N // block // 2, M // half, threads=128, cluster_dims=(1, 2)) as (bx, by):
            A_shared = T.alloc_shared((block, block_K), T.float16)
            B_shared = T.alloc_shared((block_K, block), T.float16)
            C_local = T.alloc_fragment((block, block), T.float32)
            full = T.alloc_barrier([128])
            column = (bx * 2 + T.block_rank_in_cluster()) * block
            T.clear(C_local)
            for k in T.serial(K // block_K):
                # Half a tile further down in the second block, which gets what the first one asks for.
                T.tma_copy(A[by * half, k * block_K], A_shared, barrier=full, cluster_mask=0b11)
                T.tma_copy(B[k * block_K, column], B_shared, barrier=full)
                T.mbarrier_arrive(full)
                T.mbarrier_wait_parity(full, k % 2)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by // 2 * block, column])

    return main


def inputs(rng):
    return {"A": rng.standard_normal((96, 160)), "B": rng.standard_normal((160, 128))}


def reference(A, B):
    return {"C": A @ B}
