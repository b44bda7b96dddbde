"""y = x^T through a shared tile with an odd row length, and the sums of the columns of x on the way."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "transpose",
    "arguments": {"M": 70, "N": 45},
    "types": {"x": "float32", "y": "float32", "sums": "float32"},
    "tolerance": {"y": 0, "sums": 1e-5},
}


def padded(buffer):
    rows, cols = buffer.shape
    return T.Layout(buffer.shape, lambda i, j: i * (cols + 1) + j)


@tilelang.jit
def transpose(x, sums, block=32):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), T.float32)
    sums: T.Tensor((N,), T.float32)
    y = T.empty((N, M), T.float32)

    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        tile = T.alloc_shared((block, block), T.float32)
        T.annotate_layout({tile: padded(tile)})
        part = T.alloc_fragment((block,), T.float32)
        held = T.alloc_fragment((block, block), T.float32)
        T.copy(x[by * block, bx * block], tile)
        T.copy(tile, held)
        T.reduce_sum(held, part, dim=0)
        for j in T.Parallel(block):
            T.atomic_add(sums[bx * block + j], part[j])
        for i, j in T.Parallel(block, block):
            y[bx * block + i, by * block + j] = tile[j, i]
    return y


def inputs(rng):
    return {"x": rng.standard_normal((70, 45)), "sums": np.zeros(45)}


def reference(x, sums):
    return {"y": x.T, "sums": x.sum(0)}
