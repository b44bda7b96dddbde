"""Reductions from and into parts of tiles: an index drops a dimension, a slice keeps it."""
#: N=16
#: N=12
import tilelang
import tilelang.language as T


@tilelang.jit
def regions(N):
    @T.prim_func
    def main(x: T.Tensor((4, 16, N), "float32"), rows: T.Tensor((4, 16), "float32"),
             columns: T.Tensor((4, N), "float32"), most: T.Tensor((16, 4), "float32"),
             tail: T.Tensor((16, 24), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((4, 16, N), "float32")
            r = T.alloc_fragment((4, 16), "float32")
            c = T.alloc_fragment((4, N), "float32")
            m = T.alloc_fragment((16, 4), "float32")
            w = T.alloc_shared((16, 32), "float32")
            T.copy(x, s)
            for k in T.serial(4):
                T.reduce_sum(s[k, :, :], r[k, :], dim=1)
                T.reduce_sum(s[k, :, :], c[k, :], dim=0)
                T.reduce_max(s[k, :, :], m[:, k], dim=-1)
            T.copy(r, rows)
            T.copy(c, columns)
            T.copy(m, most)
            T.fill(w, 1.0)
            T.copy(w[:, 8:32], tail)

    return main
