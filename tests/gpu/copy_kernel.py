"""y = x, as many pieces of 16 KiB as `pieces` says."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[1])
def copy(pieces, block=1024, threads=256):
    size = pieces * 4096

    @T.prim_func
    def main(x: T.Tensor([size], "float32"), y: T.Tensor([size], "float32")):
        with T.Kernel(T.ceildiv(size, block), threads=threads) as bx:
            for i in T.Parallel(block):
                y[bx * block + i] = x[bx * block + i]

    return main
