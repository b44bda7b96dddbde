"""Sums up to each element, chunk by chunk, forward or backward, by a loop over a row of a shared tile."""
import tilelang
import tilelang.language as T

KERNEL = {
    "launches": [
        {"entry": "chunk_cumsum", "arguments": {"B": 2, "S": 96, "H": 3, "chunk": 32, "reverse": False},
         "inputs": ["G"], "outputs": ["forward"]},
        {"entry": "chunk_cumsum", "arguments": {"B": 2, "S": 96, "H": 3, "chunk": 32, "reverse": True},
         "inputs": ["G"], "outputs": {"backward": "forward"}},
    ],
    "types": {"G": "float32", "forward": "float32", "backward": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit(out_idx=[-1])
def chunk_cumsum(B, S, H, chunk, reverse=False):
    @T.prim_func
    def main(G: T.Tensor([B, S, H], "float32"), forward: T.Tensor([B, S, H], "float32")):
        with T.Kernel(T.ceildiv(S, chunk), B, threads=32) as (bs, b):
            tile = T.alloc_shared([chunk, H], "float32")
            T.copy(G[b, bs * chunk:(bs + 1) * chunk, :], tile)
            for h in T.Parallel(H):
                for i in T.serial(1, chunk):
                    if reverse:
                        tile[chunk - 1 - i, h] += tile[chunk - i, h]
                    else:
                        tile[i, h] = tile[i, h] + tile[i - 1, h]
            T.copy(tile, forward[b, bs * chunk:(bs + 1) * chunk, :])

    return main


def inputs(rng):
    return {"G": rng.standard_normal((2, 96, 3))}


def reference(G):
    chunks = G.reshape(2, 3, 32, 3)
    return {"forward": chunks.cumsum(2).reshape(2, 96, 3),
            "backward": chunks[:, :, ::-1].cumsum(2)[:, :, ::-1].reshape(2, 96, 3)}
