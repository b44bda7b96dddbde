"""One step of attention to selected blocks: a list of blocks a head of keys, no mask."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "nsa_decode",
    "arguments": {"batch": 2, "seq_len": 64, "heads": 32, "dim": 32, "block_size": 16, "groups": 16,
                  "selected_blocks": 2},
    "types": {"Q": "float16", "K": "float16", "V": "float16", "BlockIndices": "int32", "Output": "float16"},
    "tolerance": 3e-3,
}


@tilelang.jit
def nsa_decode(Q, K, V, BlockIndices, dim, scale=None, block_size=64, groups=1, selected_blocks=16):
    batch, heads, seq_len = T.const("batch, heads, seq_len")
    scale = ((1.0 / dim) ** 0.5 if scale is None else scale) * 1.44269504
    head_kv = heads // groups
    dtype, accum_dtype = T.float16, T.float32
    G, BS, S = groups, block_size, selected_blocks
    Q: T.Tensor([batch, 1, heads, dim], dtype)
    K: T.Tensor([batch, seq_len, head_kv, dim], dtype)
    V: T.Tensor([batch, seq_len, head_kv, dim], dtype)
    BlockIndices: T.Tensor([batch, 1, head_kv, S], T.int32)
    Output = T.empty([batch, 1, heads, dim], dtype)

    with T.Kernel(1, batch * head_kv, threads=32) as (_, bz):
        Q_shared = T.alloc_shared([G, dim], dtype)
        K_shared = T.alloc_shared([BS, dim], dtype)
        V_shared = T.alloc_shared([BS, dim], dtype)
        scores = T.alloc_fragment([G, S * BS], accum_dtype)
        acc_s = T.alloc_fragment([G, BS], accum_dtype)
        weights = T.alloc_shared([G, S * BS], dtype)
        acc_o = T.alloc_fragment([G, dim], accum_dtype)
        m = T.alloc_fragment([G], accum_dtype)
        total = T.alloc_fragment([G], accum_dtype)
        raw = T.alloc_shared([G, S * BS], accum_dtype)
        i_b, i_h = bz // head_kv, bz % head_kv
        T.copy(Q[i_b, 0, i_h * G:(i_h + 1) * G, :], Q_shared)
        for i in T.Pipelined(S, num_stages=1):
            at = BlockIndices[i_b, 0, i_h, i] * BS
            T.copy(K[i_b, at:at + BS, i_h, :], K_shared)
            T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, clear_accum=True)
            T.copy(acc_s, raw[:, i * BS:(i + 1) * BS])
        T.copy(raw, scores)
        T.reduce_max(scores, m, dim=1)
        for g, j in T.Parallel(G, S * BS):
            scores[g, j] = T.exp2((scores[g, j] - m[g]) * scale)
        T.reduce_sum(scores, total, dim=1)
        T.copy(scores, weights)
        T.clear(acc_o)
        for i in T.Pipelined(S, num_stages=1):
            at = BlockIndices[i_b, 0, i_h, i] * BS
            T.copy(V[i_b, at:at + BS, i_h, :], V_shared)
            T.gemm(weights[:, i * BS:(i + 1) * BS], V_shared, acc_o)
        for g, j in T.Parallel(G, dim):
            acc_o[g, j] /= total[g]
        T.copy(acc_o, Output[i_b, 0, i_h * G:(i_h + 1) * G, :])
    return Output


def inputs(rng):
    return {"Q": rng.standard_normal((2, 1, 32, 32)), "K": rng.standard_normal((2, 64, 2, 32)),
            "V": rng.standard_normal((2, 64, 2, 32)),
            "BlockIndices": np.array([[[[0, 3], [1, 2]]], [[[2, 0], [3, 1]]]])}


def reference(Q, K, V, BlockIndices):
    out = np.zeros((2, 1, 32, 32))
    for b in range(2):
        for h in range(32):
            rows = np.concatenate([np.arange(16 * i, 16 * i + 16) for i in BlockIndices[b, 0, h // 16]])
            p = np.exp(K[b, rows, h // 16] @ Q[b, 0, h] / np.sqrt(32))
            out[b, 0, h] = p / p.sum() @ V[b, rows, h // 16]
    return {"Output": out}
