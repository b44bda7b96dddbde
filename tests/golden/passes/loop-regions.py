#:
"""Regions of which only the run knows the extents: between tensors loops of these extents, with a tile loops over it."""
import tilelang
import tilelang.language as T


@T.prim_func
def regions(A: T.Tensor((64, 128), T.float32), B: T.Tensor((64, 128), T.float32), n: T.int32):
    with T.Kernel(2, threads=64) as b:
        tile = T.alloc_shared((16, 128), T.float32)
        held = T.alloc_fragment((16, 128), T.float32)
        T.copy(A[b * 16, 0], tile)
        T.fill(B[n:32, 0], 1.0)
        T.copy(A[0:n, 5:n], B[0:n, 5:n])
        T.copy(A[b, 0:n], tile[2, 0:n])
        T.copy(tile[n:8, :], held[n:8, :])
        T.atomic_add(B[0:n, 3], held[0:n, 3])
