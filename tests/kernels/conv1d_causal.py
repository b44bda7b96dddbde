"""A causal convolution of width four over the sequence, a filter a channel, and silu."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "conv1d",
    "arguments": {"batch": 2, "seq": 50, "channels": 40, "width": 4},
    "types": {"x": "bfloat16", "weight": "float32", "bias": "float32", "y": "bfloat16"},
    "tolerance": 1e-2,
}


@tilelang.jit(out_idx=[-1])
def conv1d(batch, seq, channels, width, block_S=16, block_C=32):
    @T.prim_func
    def main(x: T.Tensor((batch, seq, channels), T.bfloat16), weight: T.Tensor((width, channels), T.float32),
             bias: T.Tensor((channels,), T.float32), y: T.Tensor((batch, seq, channels), T.bfloat16)):
        with T.Kernel(T.ceildiv(seq, block_S), T.ceildiv(channels, block_C), batch, threads=128) as (bs, bc, b):
            rows = T.alloc_shared((block_S + width - 1, block_C), T.bfloat16)
            acc = T.alloc_fragment((block_S, block_C), T.float32)
            for i, j in T.Parallel(block_S + width - 1, block_C):
                s = bs * block_S + i - (width - 1)
                c = bc * block_C + j
                rows[i, j] = x[b, s, c] if s >= 0 and s < seq and c < channels else 0
            for i, j in T.Parallel(block_S, block_C):
                acc[i, j] = bias[bc * block_C + j]
            for w in T.unroll(width):
                for i, j in T.Parallel(block_S, block_C):
                    acc[i, j] += rows[i + w, j] * weight[w, bc * block_C + j]
            for i, j in T.Parallel(block_S, block_C):
                acc[i, j] = acc[i, j] * T.sigmoid(acc[i, j])
            T.copy(acc, y[b, bs * block_S:(bs + 1) * block_S, bc * block_C:(bc + 1) * block_C])

    return main


def inputs(rng):
    return {"x": rng.standard_normal((2, 50, 40)), "weight": rng.standard_normal((4, 40)),
            "bias": rng.standard_normal(40)}


def reference(x, weight, bias):
    padded = np.pad(x, ((0, 0), (3, 0), (0, 0)))
    y = bias + sum(padded[:, w:w + 50] * weight[w] for w in range(4))
    return {"y": y / (1 + np.exp(-y))}
