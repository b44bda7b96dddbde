"""What threads cannot work on where it is goes through a tile where they can, turned where instructions want that."""
#: clear=True
#: clear=False
import tilelang
import tilelang.language as T


@tilelang.jit
def kernel(clear: bool):
    @T.prim_func
    def main(x: T.Tensor((32, 16), "float16"), y: T.Tensor((32, 8), "float32"),
             z: T.Tensor((32,), "float32"), u: T.Tensor((32, 32), "int8"),
             v: T.Tensor((32, 8), "int8"), w: T.Tensor((32, 8), "int32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_fragment((16, 8), "float16")
            c = T.alloc_shared((32, 8), "float32")
            rows = T.alloc_shared((32,), "float32")
            T.copy(x, a)
            T.copy(x[0:16, 0:8], b)
            T.fill(rows, 1)
            T.clear(c)
            T.gemm(a, b, c, clear_accum=clear)
            T.reduce_sum(c, rows, dim=1, clear=clear)
            T.copy(c, y)
            T.copy(rows, z)
            left = T.alloc_shared((32, 32), "int8")
            right = T.alloc_shared((32, 8), "int8")
            sums = T.alloc_fragment((32, 8), "int32")
            T.copy(u, left)
            T.copy(v, right)
            T.gemm(left, right, sums, clear_accum=True)
            T.copy(sums, w)

    return main
