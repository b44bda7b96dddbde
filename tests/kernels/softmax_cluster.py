"""Softmax of rows that are split over the blocks of a cluster, which tell each other maxima and sums."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "softmax_cluster",
    "arguments": {"M": 12, "N": 200, "block_M": 4, "blocks": 4},
    "types": {"x": "float16", "y": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit
def softmax_cluster(x, block_M, blocks):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), T.float16)
    y = T.empty((M, N), T.float16)
    width = N // blocks

    with T.ClusterKernel(blocks, T.ceildiv(M, block_M), threads=128, cluster_dims=(blocks, 1)) as (bx, by):
        rank = T.block_rank_in_cluster()
        row = T.alloc_fragment((block_M, width), T.float32)
        own = T.alloc_fragment((block_M,), T.float32)
        told = T.alloc_shared((block_M,), T.float32)
        tops = T.alloc_shared((blocks, block_M), T.float32)
        sums = T.alloc_shared((blocks, block_M), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        T.copy(x[by * block_M, bx * width], row)
        T.reduce_max(row, own, dim=1)
        T.copy(own, told)
        T.cluster_sync()
        for other in T.serial(blocks):
            T.copy_cluster(told, tops[rank, :], dst_block=other)
        T.cluster_sync()
        T.fill(top, -T.infinity(T.float32))
        for i in T.Parallel(block_M):
            for p in T.serial(blocks):
                top[i] = T.max(top[i], tops[p, i])
        for i, j in T.Parallel(block_M, width):
            row[i, j] = T.exp(row[i, j] - top[i])
        T.reduce_sum(row, own, dim=1)
        for i in T.Parallel(block_M):
            told[i] = own[i]
        for other in T.serial(blocks):
            T.copy_cluster(told, sums[rank, :], dst_block=other)
        T.cluster_sync()
        T.clear(total)
        for i in T.Parallel(block_M):
            for p in T.serial(blocks):
                total[i] += sums[p, i]
        for i, j in T.Parallel(block_M, width):
            row[i, j] /= total[i]
        T.copy(row, y[by * block_M, bx * width])
    return y


def inputs(rng):
    return {"x": 4 * rng.standard_normal((12, 200))}


def reference(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return {"y": e / e.sum(1, keepdims=True)}
