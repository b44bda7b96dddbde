#: M=16384 N=16384
"""x and y are read once; weight by every block, and twice in each."""
import tilelang
import tilelang.language as T


@tilelang.jit
def weighted(M, N):
    @T.prim_func
    def main(x: T.Tensor((M, N), "float16"), y: T.Tensor((M, N), "float16"),
             weight: T.Tensor((M, N), "float16"), out: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, 4), threads=128) as bx:
            tile = T.alloc_fragment((4, 1024), "float32")
            sums = T.alloc_fragment((4,), "float32")
            rows = T.alloc_shared((4, 1024), "float16")
            T.clear(sums)
            for k in T.serial(N // 1024):
                T.copy(y[bx * 4, k * 1024], rows)
                for i, j in T.Parallel(4, 1024):
                    tile[i, j] = x[bx * 4 + i, k * 1024 + j] * rows[i, j]
                for i, j in T.Parallel(4, 1024):
                    tile[i, j] += weight[0, j] * weight[1, j]
                T.reduce_sum(tile, sums, dim=1, clear=False)
            T.copy(sums, out[bx * 4])

    return main
