"""A tile that TMA fetches for both blocks of a cluster, and one whose rows are too short for it."""
#: gpu=sm_90a width=64
#: gpu=sm_90a width=4
import tilelang
import tilelang.language as T


@tilelang.jit
def make(width):
    @T.prim_func
    def same(A: T.Tensor((256, 64), "float16"), B: T.Tensor((512, 64), "float16")):
        with T.ClusterKernel(4, threads=128, cluster_dims=2) as bx:
            tile = T.alloc_shared((64, width), "float16")
            for k in T.serial(2):
                T.copy_cluster(A[bx // 2 * 128 + k * 64, 0], tile, cluster_mask=0b11)
                T.copy(tile, B[bx * 128 + k * 64, 0])

    return same
