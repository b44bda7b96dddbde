"""C = A B in clusters of two blocks, each with half of K: one warpgroup fetches into a ring, one multiplies, and the
second block sends what it has to the first, which adds."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "ring_cluster",
    "arguments": {"M": 130, "N": 80, "K": 256},
    "types": {"A": "float16", "B": "float16", "C": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit(out_idx=[-1])
def ring_cluster(M, N, K, block_M=64, block_N=32, block_K=32, stages=2):
    steps = K // block_K // 2

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.ClusterKernel(2, T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256,
                             cluster_dims=(2, 1, 1)) as (half, bx, by):
            a = T.alloc_shared((stages, block_M, block_K), "float16")
            b = T.alloc_shared((stages, block_K, block_N), "float16")
            own = T.alloc_shared((block_M, block_N), "float32")
            other = T.alloc_shared((block_M, block_N), "float32")
            full = T.alloc_barrier(arrive_count=[128] * stages)
            free = T.alloc_barrier(arrive_count=[128] * stages)
            came = T.alloc_cluster_barrier([1])
            with T.ws(1):
                for k in T.serial(steps):
                    T.barrier_wait(free[k % stages], (k // stages) & 1 ^ 1)
                    first = (half * steps + k) * block_K
                    T.tma_copy(A[by * block_M, first], a[k % stages, :, :], barrier=full[k % stages])
                    T.tma_copy(B[first, bx * block_N], b[k % stages, :, :], barrier=full[k % stages])
                    T.barrier_arrive(full[k % stages])
            with T.ws(0):
                sums = T.alloc_fragment((block_M, block_N), "float32")
                T.clear(sums)
                for k in T.serial(steps):
                    T.barrier_wait(full[k % stages], (k // stages) & 1)
                    T.gemm(a[k % stages, :, :], b[k % stages, :, :], sums)
                    T.barrier_arrive(free[k % stages])
                T.copy(sums, own)
            T.cluster_sync()
            if T.block_rank_in_cluster() == 1:
                T.copy_cluster(own, other, dst_block=0, remote_barrier=came[0])
            else:
                T.mbarrier_wait_parity(came[0], 0)
                for i, j in T.Parallel(block_M, block_N):
                    own[i, j] += other[i, j]
                T.copy(own, C[by * block_M, bx * block_N])
            T.cluster_sync()

    return main


def inputs(rng):
    return {"A": rng.standard_normal((130, 256)), "B": rng.standard_normal((256, 80))}


def reference(A, B):
    return {"C": A @ B}
