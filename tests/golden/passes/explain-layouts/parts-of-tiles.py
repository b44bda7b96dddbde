"""Products on parts of tiles: halves of rows, a version of two, columns that ask for a narrower swizzle, rows that
only warps can begin at."""
#: gpu=sm_90a
import tilelang
import tilelang.language as T


@tilelang.jit
def kernel():
    @T.prim_func
    def main(Q: T.Tensor((64, 128), "float16"), K: T.Tensor((2, 72, 128), "float16"),
             O: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((64, 128), "float16")
            k = T.alloc_shared((2, 72, 128), "float16")
            v = T.alloc_shared((64, 64), "float16")
            out = T.alloc_fragment((64, 32), "float32")
            T.copy(Q, q)
            T.copy(K, k)
            T.copy(Q[:, 64:], v)
            T.clear(out)
            for s in T.serial(2):
                T.gemm(q[:, 32:96], k[s, 32:64, 64:], out, transpose_B=True)
            T.gemm(q[:, :64], v[:, 32:], out)
            T.gemm(q[:, :64], k[1, 3:35, 64:], out, transpose_B=True)
            T.gemm(q[:, 4:68], v[:, :32], out)
            T.copy(out, O)

    return main
