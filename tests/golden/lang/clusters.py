"""Clusters whose blocks pass tiles round a ring, and clusters that load a tile of theirs once."""
#: N=64 blocks=2
import tilelang
import tilelang.language as T


@tilelang.jit
def clusters(N, blocks):
    @T.prim_func
    def main(a: T.Tensor((64, N), "float16"), b: T.Tensor((64, N), "float32"), c: T.Tensor((64, N), "float16")):
        with T.ClusterKernel(4, threads=128, cluster_dims=blocks) as bx:
            rank = T.block_rank_in_cluster()
            tile = T.alloc_shared((blocks, 16, N), "float16")
            total = T.alloc_fragment((16, N), "float32")
            came = T.alloc_cluster_barrier([1] * blocks)
            T.clear(total)
            T.copy(a[bx * 16, 0], tile[0, :, :])
            T.cluster_sync()
            for step in T.serial(blocks):
                for i, j in T.Parallel(16, N):
                    total[i, j] += tile[step, i, j]
                if step < blocks - 1:
                    T.copy_cluster(tile[step, :, :], tile[step + 1, :, :], dst_block=(rank + 1) % blocks,
                                   remote_barrier=came[step])
                    T.mbarrier_wait_parity(came[step], 0)
            T.cluster_sync()
            if rank == 0:
                T.copy(total, b[bx * 16, 0])
        with T.ClusterKernel(4, threads=128, cluster_dims=blocks) as bx:
            piece = T.alloc_shared((16, N), "float16")
            T.copy_cluster(a[bx * 16, 0], piece, cluster_mask=0b11)
            T.copy(piece, c[bx * 16, 0])

    return main
