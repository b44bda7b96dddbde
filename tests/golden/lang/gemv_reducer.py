"""A matrix-vector product in which every iteration adds to a reducer."""
#: M=64 K=96 block_M=16 block_K=32
#: M=100 K=70 block_M=32 block_K=64
import tilelang
import tilelang.language as T


@tilelang.jit
def gemv(M, K, block_M, block_K):
    @T.prim_func
    def main(a: T.Tensor((M, K), "float32"), x: T.Tensor((K,), "float32"),
             y: T.Tensor((M,), "float32"), most: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            tile = T.alloc_shared((block_M, block_K), "float32")
            part = T.alloc_shared((block_K,), "float32")
            total = T.alloc_reducer((block_M,), "float32", replication="all")
            largest = T.alloc_reducer((block_M,), "float32", op="max")
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(a[bx * block_M, k * block_K], tile)
                T.copy(x[k * block_K], part)
                for i, j in T.Parallel(block_M, block_K):
                    total[i] += tile[i, j] * part[j]
                    largest[i] = T.max(largest[i], tile[i, j])
            T.finalize_reducer(total)
            T.finalize_reducer(largest)
            T.copy(total, y[bx * block_M])
            T.copy(largest, most[bx * block_M])

    return main
