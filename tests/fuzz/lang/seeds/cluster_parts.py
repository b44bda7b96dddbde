import tilelang.language as T


@T.prim_func
def parts(A: T.Tensor((64, 128), "float16"), B: T.Tensor((2, 64, 64), "float32")):
    with T.ClusterKernel(2, threads=256, cluster_dims=2) as bx:
        s = T.alloc_shared((64, 64), "float16")
        full = T.alloc_barrier(arrive_count=128)
        empty = T.alloc_barrier(arrive_count=128)
        acc = T.alloc_fragment((64, 64), "float32")
        with T.ws(1):
            for t in range(2):
                T.barrier_wait(empty, (t & 1) ^ 1)
                T.tma_copy(A[0, t * 64], s, barrier=full, cluster_mask=3)
                T.barrier_arrive(full)
        with T.ws(0):
            T.clear(acc)
            for t in range(2):
                T.barrier_wait(full, t & 1)
                for i, j in T.Parallel(64, 64):
                    acc[i, j] += T.cast(s[i, j], "float32") + bx
                T.barrier_arrive(empty)
            T.copy(acc, B[bx, 0, 0])


@T.prim_func
def walk(A: T.Tensor((64, 16), "float32"), B: T.Tensor((64, 16), "float32")):
    with T.ClusterKernel(2, threads=64, cluster_dims=2) as bid:
        rank = T.block_rank_in_cluster()
        sched = T.PersistentTileScheduler(4, 1, num_workers=1, cluster_size=2)
        s = T.alloc_shared((16, 16), "float32")
        d = T.alloc_shared((16, 16), "float32")
        sched.init(bid // 2)
        while sched.valid():
            m = sched.m_idx * 2 + rank
            T.copy_cluster(A[sched.m_idx * 32, 0], s, cluster_mask=3)
            T.cluster_sync()
            T.copy_cluster(s, d, dst_block=1 - rank)
            T.cluster_sync()
            T.copy(d, B[m * 16, 0])
            T.cluster_sync()
            sched.next_tile()
