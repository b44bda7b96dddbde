"""Scores of an index: relu of the products of a token's heads with keys, weighted and summed over heads, masked to the
range that the token may see."""
import tilelang
from tilelang import language as T

KERNEL = {
    "entry": "logits",
    "arguments": {"heads": 4, "dim": 32, "block_N": 32, "block_Q": 8},
    "runtime": {"seq_len": 20, "seq_len_kv": 70},
    "types": {"Q": "bfloat16", "K": "bfloat16", "scale": "float32", "weights": "float32", "starts": "int32",
              "ends": "int32", "out": "float32"},
    "tolerance": 1e-4,
}


@tilelang.jit
def logits(Q, K, scale, weights, starts, ends, out, heads, dim, block_N=256, num_stages=3, threads=64,
           block_Q=None):
    if block_Q is None:
        block_Q = 128 // heads
    seq_len = T.dynamic("seq_len")
    seq_len_kv = T.dynamic("seq_len_kv")
    Q: T.Tensor([seq_len * heads, dim], T.bfloat16)
    K: T.Tensor([seq_len_kv, dim], T.bfloat16)
    scale: T.Tensor([seq_len_kv], T.float32)
    weights: T.Tensor([seq_len, heads], T.float32)
    starts: T.Tensor([seq_len], T.int32)
    ends: T.Tensor([seq_len], T.int32)
    out: T.Tensor([seq_len, seq_len_kv], T.float32)

    with T.Kernel(T.ceildiv(seq_len, block_Q), threads=threads) as bx:
        q_shared = T.alloc_shared([block_Q * heads, dim], T.bfloat16)
        k_shared = T.alloc_shared([block_N, dim], T.bfloat16)
        k_scale = T.alloc_fragment([block_N], T.float32)
        s = T.alloc_fragment([block_N, block_Q * heads], T.float32)
        by_head = T.reshape(s, (block_N, block_Q, heads))
        total = T.alloc_fragment([block_N, block_Q], T.float32)
        weight = T.alloc_fragment([block_Q, heads], T.float32)
        first = T.alloc_var(T.int32)
        last = T.alloc_var(T.int32)
        row = bx * block_Q
        first = 2147483647
        last = -2147483648
        for i in T.serial(block_Q):
            first = T.min(first, T.min(starts[T.min(row + i, seq_len - 1)], seq_len_kv))
        for i in T.serial(block_Q):
            last = T.max(last, T.min(ends[T.min(row + i, seq_len - 1)], seq_len_kv))
        T.copy(Q[row * heads, 0], q_shared)
        T.copy(weights[row, 0], weight)
        for n in T.Pipelined(T.ceildiv(last - first, block_N), num_stages=num_stages):
            T.copy(K[first + n * block_N, 0], k_shared)
            T.copy(scale[first + n * block_N], k_scale)
            T.gemm(k_shared, q_shared, s, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
            for j, i, h in T.Parallel(block_N, block_Q, heads):
                by_head[j, i, h] = (T.max(by_head[j, i, h], 0) * weight[i, h]) * k_scale[j]
            T.reduce_sum(by_head, total, dim=-1, clear=True)
            for i, j in T.Parallel(block_Q, block_N):
                k = first + n * block_N + j
                if row + i < seq_len and k < seq_len_kv:
                    if starts[row + i] <= k < ends[row + i]:
                        out[row + i, k] = total[j, i]


def inputs(rng):
    starts = rng.integers(0, 20, 20)
    ends = starts + rng.integers(1, 50, 20)
    return {"Q": rng.standard_normal((80, 32)), "K": rng.standard_normal((70, 32)),
            "scale": rng.uniform(0.5, 2, 70), "weights": rng.standard_normal((20, 4)), "starts": starts,
            "ends": ends, "out": np.zeros((20, 70))}


def reference(Q, K, scale, weights, starts, ends, out):
    s = np.maximum(Q.reshape(20, 4, 32) @ K.T, 0) * scale
    k = np.arange(70)
    return {"out": np.where((k >= starts[:, None]) & (k < ends[:, None]), np.einsum("qhk,qh->qk", s, weights), 0)}
