"""Second names for memory: rows that are halves of rows, words of four bytes, tiles in a flat buffer."""
#: N=64
#: N=48
import tilelang
import tilelang.language as T


@tilelang.jit
def views(N):
    @T.prim_func
    def main(a: T.Tensor((16, N), "float32"), codes: T.Tensor((16, N), "uint8"),
             halves: T.Tensor((32,), "float32"), words: T.Tensor((16, N // 4), "uint32"),
             back: T.Tensor((4, 4, N), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((16, N), "float32")
            half_rows = T.reshape(tile, (32, N // 2))
            sums = T.alloc_fragment((32,), "float32")
            T.copy(a, tile)
            T.reduce_sum(half_rows, sums, dim=1)
            T.copy(sums, halves)

            raw = T.alloc_shared((16, N), "uint8")
            packed = T.view(raw, (16, N // 4), "uint32")
            T.copy(codes, raw)
            for i, j in T.Parallel(16, N // 4):
                packed[i, j] = packed[i, j] ^ T.cast(j, "uint32")
            T.copy(packed, words)

            pool = T.alloc_shared((16 * N,), "float32")
            stages = T.view(pool, (4, 4, N))
            for s in T.serial(4):
                T.copy(a[s * 4, 0], stages[s, :, :])
            for i in T.Parallel(16 * N):
                pool[i] = pool[i] + T.cast(i, "float32")
            T.copy(stages, back)
            across = T.reshape(back, (16 * N,))
            across[0] = across[16 * N - 1]

    return main
