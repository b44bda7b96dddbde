"""C = A B: the blocks of a cluster take a part of K each, and each adds up its rows of what all of them have."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "splitk_cluster",
    "arguments": {"M": 128, "N": 96, "K": 384, "block_M": 64, "block_N": 32, "block_K": 32, "parts": 4},
    "types": {"A": "float16", "B": "float16", "C": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit
def splitk_cluster(A, B, block_M, block_N, block_K, parts):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    depth = K // parts
    rows = block_M // parts

    with T.ClusterKernel(parts, T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128,
                         cluster_dims=(parts, 1, 1)) as (_, bx, by):
        rank = T.block_rank_in_cluster()
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        C_shared = T.alloc_shared((block_M, block_N), T.float32)
        theirs = T.alloc_shared((parts, rows, block_N), T.float32)
        total = T.alloc_fragment((rows, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(depth // block_K, num_stages=2):
            T.copy(A[by * block_M, rank * depth + k * block_K], A_shared)
            T.copy(B[rank * depth + k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C_shared)
        T.cluster_sync()
        for step in T.serial(parts):
            to = (rank + step) % parts
            T.copy_cluster(C_shared[to * rows : (to + 1) * rows, :], theirs[rank, :, :], dst_block=to)
        T.cluster_sync()
        for i, j in T.Parallel(rows, block_N):
            total[i, j] = 0
            for p in T.serial(parts):
                total[i, j] += theirs[p, i, j]
        T.copy(total, C[by * block_M + rank * rows, bx * block_N])
    return C


def inputs(rng):
    return {"A": rng.standard_normal((128, 384)), "B": rng.standard_normal((384, 96))}


def reference(A, B):
    return {"C": A @ B}
