"""A router: sigmoid scores with a bias for choosing, the best two experts, weights that sum to one, and how many
tokens each expert got."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "gate",
    "arguments": {"tokens": 45, "experts": 16, "k": 2},
    "types": {"logits": "float32", "bias": "float32", "weights": "float32", "chosen": "int32",
              "counts": "int32"},
    "tolerance": {"weights": 1e-5, "chosen": 0, "counts": 0},
}


@tilelang.jit
def gate(logits, bias, counts, k, block=16):
    tokens, experts = T.const("tokens, experts")
    logits: T.Tensor((tokens, experts), T.float32)
    bias: T.Tensor((experts,), T.float32)
    counts: T.Tensor((experts,), T.int32)
    weights = T.empty((tokens, k), T.float32)
    chosen = T.empty((tokens, k), T.int32)

    with T.Kernel(T.ceildiv(tokens, block), threads=64) as b:
        score = T.alloc_fragment((block, experts), T.float32)
        biased = T.alloc_fragment((block, experts), T.float32)
        masked = T.alloc_fragment((block, experts), T.float32)
        best = T.alloc_fragment((block,), T.float32)
        place = T.alloc_fragment((block, experts), T.int32)
        at = T.alloc_fragment((block,), T.int32)
        value = T.alloc_fragment((block, k), T.float32)
        total = T.alloc_fragment((block,), T.float32)
        one = T.alloc_fragment((block,), T.float32)
        T.copy(logits[b * block, 0], score)
        for i, j in T.Parallel(block, experts):
            score[i, j] = T.sigmoid(score[i, j])
            biased[i, j] = score[i, j] + bias[j]
        for r in T.unroll(k):
            T.reduce_max(biased, best, dim=1)
            for i, j in T.Parallel(block, experts):
                place[i, j] = T.if_then_else(biased[i, j] == best[i], j, experts)
            T.reduce_min(place, at, dim=1)
            for i, j in T.Parallel(block, experts):
                masked[i, j] = T.if_then_else(j == at[i], score[i, j], 0.0)
                biased[i, j] = T.if_then_else(j == at[i], -T.infinity(T.float32), biased[i, j])
            T.reduce_sum(masked, one, dim=1)
            for i in T.Parallel(block):
                value[i, r] = one[i]
            for i in T.Parallel(block):
                if b * block + i < tokens:
                    chosen[b * block + i, r] = at[i]
                    T.atomic_add(counts[at[i]], 1)
        T.reduce_sum(value, total, dim=1)
        for i, r in T.Parallel(block, k):
            value[i, r] /= total[i]
        T.copy(value, weights[b * block, 0])
    return weights, chosen


def inputs(rng):
    return {"logits": rng.standard_normal((45, 16)), "bias": rng.uniform(0, 0.2, 16),
            "counts": np.zeros(16, np.int32)}


def reference(logits, bias, counts):
    score = 1 / (1 + np.exp(-logits))
    order = np.argsort(-(score + bias), axis=1)[:, :2]
    value = np.take_along_axis(score, order, 1)
    return {"weights": value / value.sum(1, keepdims=True), "chosen": order,
            "counts": np.bincount(order.ravel(), minlength=16)}
