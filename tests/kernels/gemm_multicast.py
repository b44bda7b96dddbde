"""C = A B in clusters of two blocks above each other, which load the tiles of B that both need once."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "multicast",
    "arguments": {"M": 128, "N": 96, "K": 160, "block": 32, "block_K": 32},
    "types": {"A": "float16", "B": "float16", "C": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit(out_idx=[2])
def multicast(M, N, K, block, block_K):
    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((K, N), T.float16), C: T.Tensor((M, N), T.float32)):
        with T.ClusterKernel(N // block, M // block, threads=128, cluster_dims=(1, 2)) as (bx, by):
            A_shared = T.alloc_shared((block, block_K), T.float16)
            B_shared = T.alloc_shared((block_K, block), T.float16)
            C_local = T.alloc_fragment((block, block), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(K // block_K, num_stages=2):
                T.copy(A[by * block, k * block_K], A_shared)
                T.copy_cluster(B[k * block_K, bx * block], B_shared, cluster_mask=0b11)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block, bx * block])

    return main


def inputs(rng):
    return {"A": rng.standard_normal((128, 160)), "B": rng.standard_normal((160, 96))}


def reference(A, B):
    return {"C": A @ B}
