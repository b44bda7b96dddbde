import tilelang
import tilelang.language as T
@tilelang.lazy_jit
def k(W: T.Tensor[[int, int], "int4"], x: T.Tensor[[1], T.int32]):
    with T.ClusterKernel(4, cluster_dims=2) as bx:
        x[0] = W[0, 0]
        T.cluster_sync()
        T.sync_grid()
        w = x[0]
