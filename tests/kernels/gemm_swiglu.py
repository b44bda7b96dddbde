"""silu(X G) * (X U): two products of one tile of X, as in the first half of a gated layer."""
import math

import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "gate_up",
    "arguments": {"tokens": 60, "hidden": 96, "expert": 80},
    "types": {"X": "float16", "G": "float16", "U": "float16", "out": "float16"},
    "tolerance": 3e-3,
}

LOG2E = 1.44269504


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def gate_up(tokens, hidden, expert, block_token=32, block_hidden=32, block_expert=64, threads=128,
            num_stages=1, dtype=T.float16):
    scale = math.log2(math.e)

    @T.prim_func
    def main(X: T.Tensor((tokens, hidden), dtype), G: T.Tensor((expert, hidden), dtype),
             U: T.Tensor((expert, hidden), dtype), out: T.Tensor((tokens, expert), dtype)):
        with T.Kernel(T.ceildiv(tokens, block_token), T.ceildiv(expert, block_expert),
                      threads=threads) as (bx, by):
            x = T.alloc_shared((block_token, block_hidden), dtype=dtype)
            g = T.alloc_shared((block_expert, block_hidden), dtype=dtype)
            u = T.alloc_shared((block_expert, block_hidden), dtype=dtype)
            gate = T.alloc_fragment((block_token, block_expert), dtype=T.float32)
            up = T.alloc_fragment((block_token, block_expert), dtype=T.float32)
            T.clear(gate)
            T.clear(up)
            for k in T.Pipelined(T.ceildiv(hidden, block_hidden), num_stages=num_stages):
                T.copy(X[bx * block_token, k * block_hidden], x)
                T.copy(G[by * block_expert, k * block_hidden], g)
                T.copy(U[by * block_expert, k * block_hidden], u)
                T.gemm(x, g, gate, transpose_B=True)
                T.gemm(x, u, up, transpose_B=True)
            for i, j in T.Parallel(block_token, block_expert):
                gate[i, j] = gate[i, j] * (1.0 / (1.0 + T.exp2(-gate[i, j] * scale)))
                up[i, j] = up[i, j] * gate[i, j]
            T.copy(up, out[bx * block_token, by * block_expert])

    return main


def inputs(rng):
    return {"X": rng.standard_normal((60, 96)), "G": rng.standard_normal((80, 96)) / 8,
            "U": rng.standard_normal((80, 96)) / 8}


def reference(X, G, U):
    gate = X @ G.T
    return {"out": gate / (1 + np.exp(-gate)) * (X @ U.T)}
