"""The loss of rows of logits against a label each, and its gradient; rows labelled -1 count nothing."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "cross_entropy",
    "arguments": {"rows": 13, "classes": 130},
    "types": {"logits": "float32", "labels": "int32", "loss": "float32", "grad": "float32"},
    "tolerance": 1e-4,
}


@tilelang.jit
def cross_entropy(logits, labels, block=4):
    rows, classes = T.const("rows, classes")
    logits: T.Tensor((rows, classes), T.float32)
    labels: T.Tensor((rows,), T.int32)
    loss = T.empty((rows,), T.float32)
    grad = T.empty((rows, classes), T.float32)

    with T.Kernel(T.ceildiv(rows, block), threads=64) as b:
        tile = T.alloc_fragment((block, classes), T.float32)
        label = T.alloc_fragment((block,), T.int32)
        top = T.alloc_fragment((block,), T.float32)
        total = T.alloc_fragment((block,), T.float32)
        chosen = T.alloc_fragment((block,), T.float32)
        picked = T.alloc_fragment((block, classes), T.float32)
        T.copy(logits[b * block:(b + 1) * block, :], tile)
        T.copy(labels[b * block:(b + 1) * block], label)
        T.reduce_max(tile, top, dim=1)
        for i, j in T.Parallel(block, classes):
            picked[i, j] = T.if_then_else(j == label[i], tile[i, j] - top[i], 0.0)
        T.reduce_sum(picked, chosen, dim=1)
        for i, j in T.Parallel(block, classes):
            tile[i, j] = T.exp(tile[i, j] - top[i])
        T.reduce_sum(tile, total, dim=1)
        for i in T.Parallel(block):
            if b * block + i < rows:
                loss[b * block + i] = T.if_then_else(label[i] >= 0, T.log(total[i]) - chosen[i], 0.0)
        for i, j in T.Parallel(block, classes):
            hit = T.cast(j == label[i], T.float32)
            tile[i, j] = T.if_then_else(label[i] >= 0, tile[i, j] / total[i] - hit, 0.0)
        T.copy(tile, grad[b * block:(b + 1) * block, :])
    return loss, grad


def inputs(rng):
    labels = rng.integers(0, 130, 13)
    labels[[3, 12]] = -1
    return {"logits": 3 * rng.standard_normal((13, 130)), "labels": labels}


def reference(logits, labels):
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    counts = labels >= 0
    hot = np.eye(130)[np.maximum(labels, 0)]
    return {"loss": np.where(counts, -(log_p * hot).sum(1), 0),
            "grad": np.where(counts[:, None], np.exp(log_p) - hot, 0)}
