"""A vector divided by its norm in one kernel: blocks leave partial sums, all meet, and each scales its own piece."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "normalise",
    "arguments": {"N": 1000, "block": 96},
    "types": {"x": "float32", "partial": "float32", "y": "float16", "norm": "float32"},
    "tolerance": 2e-3,
}


@tilelang.jit
def normalise(N: int, block: int, threads: int = 128):
    pieces = T.ceildiv(N, block)

    @T.prim_func
    def main(
        x: T.Tensor((N,), T.float32),
        partial: T.Tensor((pieces,), T.float32),
        y: T.Tensor((N,), T.float16),
        norm: T.Tensor((1,), T.float32),
    ):
        with T.Kernel(pieces, threads=threads) as b:
            piece = T.alloc_fragment((block,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            sums = T.alloc_shared((pieces,), T.float32)
            again = T.alloc_fragment((block,), T.float32)
            all_sums = T.alloc_fragment((pieces,), T.float32)
            squares = T.alloc_fragment((1,), T.float32)
            first = b * block
            T.copy(x[first : first + block], piece)
            for i in T.Parallel(block):
                piece[i] = T.if_then_else(first + i < N, piece[i] * piece[i], 0.0)
            T.reduce_sum(piece, total)
            twice = b * 2
            kept = T.alloc_var(T.float32, init=total[0])
            number = T.alloc_var(T.int32, init=twice)
            partial[b] = kept + (number - 2 * b)

            T.sync_grid()
            T.copy(partial, sums)
            T.copy(sums, all_sums)
            T.reduce_sum(all_sums, squares)
            for i in T.Parallel(block):
                if first + i < N:
                    again[i] = x[first + i]
                    y[first + i] = again[i] * T.rsqrt(squares[0])

            T.sync_grid()
            if b == pieces - 1:
                norm[0] = T.sqrt(x[0] * x[0] / (y[0] * y[0]))

    return main


def inputs(rng):
    return {"x": rng.uniform(0.5, 2, 1000), "partial": np.zeros(11), "norm": np.zeros(1)}


def reference(x, partial, norm):
    pieces = np.array([(x[k : k + 96] ** 2).sum() for k in range(0, 1000, 96)])
    size = np.sqrt((x**2).sum())
    return {"partial": pieces, "y": x / size, "norm": np.array([size])}
