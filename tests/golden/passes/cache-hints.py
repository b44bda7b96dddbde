#: M=8 N=256
"""Loads and stores of threads say what copies say, of tensors: of x twice the same; copies of y do not agree, z is read
and written, a part of w is to stay, and nobody says anything of v."""
import tilelang
import tilelang.language as T


@tilelang.jit
def hints(M, N):
    @T.prim_func
    def main(x: T.Tensor((M, N), T.float16), y: T.Tensor((M, N), T.float16),
             z: T.Tensor((M, N), T.float16), w: T.Tensor((N,), T.float16), v: T.Tensor((N,), T.float16),
             out: T.Tensor((M, N), T.float16)):
        with T.Kernel(M, threads=128) as b:
            T.annotate_l2_hit_ratio({w: 0.75})
            tile = T.alloc_fragment((N,), T.float16)
            other = T.alloc_fragment((N,), T.float16)
            T.copy(x[b, 0], tile, eviction_policy="evict_first")
            T.copy(x[M - 1 - b, 0], other, eviction_policy="evict_first")
            T.copy(y[b, 0], tile, eviction_policy="evict_first")
            T.copy(y[M - 1 - b, 0], other, eviction_policy="evict_last")
            T.copy(z[b, 0], tile, eviction_policy="evict_last")
            for i in T.Parallel(N):
                tile[i] = tile[i] * w[i] + v[i] + other[i]
            T.copy(tile, z[b, 0])
            T.copy(tile, out[b, 0], eviction_policy="evict_last")

    return main
