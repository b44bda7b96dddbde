"""One class drawn from each row of logits: noise from a hash of row and column, the place of the largest sum; a limit
drops classes far below the best."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "sample",
    "arguments": {"rows": 9, "classes": 100, "min_p": 0.05},
    "runtime": {"seed": 7, "temperature": 0.8},
    "types": {"logits": "float32", "chosen": "int32", "kept": "int32"},
}


def noise(h):
    """From a 32-bit number to -log(-log(u)) with u strictly between 0 and 1."""
    h = (h ^ (h >> T.uint32(16))) * T.uint32(0x45D9F3B)
    h = (h ^ (h >> T.uint32(16))) * T.uint32(0x45D9F3B)
    h = h ^ (h >> T.uint32(16))
    u = (T.cast(h >> T.uint32(8), T.float32) + 0.5) * (1.0 / (1 << 24))
    return -T.log(-T.log(u))


@tilelang.jit
def sample(logits, seed: T.uint32, temperature: T.float32, min_p, block=4, threads=64):
    rows, classes = T.const("rows, classes")
    logits: T.Tensor((rows, classes), T.float32)
    chosen = T.empty((rows,), T.int32)
    kept = T.empty((rows,), T.int32)

    with T.Kernel(T.ceildiv(rows, block), threads=threads) as b:
        x = T.alloc_fragment((block, classes), T.float32)
        place = T.alloc_fragment((block, classes), T.int32)
        count = T.alloc_fragment((block, classes), T.int32)
        top = T.alloc_fragment((block,), T.float32)
        at = T.alloc_fragment((block,), T.int32)
        many = T.alloc_fragment((block,), T.int32)
        T.copy(logits[b * block, 0], x)
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(block, classes):
            far = T.exp((x[i, j] - top[i]) / temperature) < min_p
            count[i, j] = T.if_then_else(far, 0, 1)
            number = T.cast((b * block + i) * classes + j, T.uint32)
            x[i, j] = T.if_then_else(far, -T.infinity(T.float32), x[i, j] / temperature + noise(number + seed))
        T.reduce_sum(count, many, dim=1)
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(block, classes):
            place[i, j] = T.if_then_else(x[i, j] == top[i], j, -1)
        T.reduce_max(place, at, dim=1)
        T.copy(at, chosen[b * block])
        T.copy(many, kept[b * block])
    return chosen, kept


def inputs(rng):
    return {"logits": 2 * rng.standard_normal((9, 100))}


def reference(logits):
    mask = np.uint64(0xFFFFFFFF)
    h = (np.arange(900, dtype=np.uint64) + np.uint64(7)) & mask
    for _ in range(2):
        h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x45D9F3B)) & mask
    h ^= h >> np.uint64(16)
    u = ((h >> np.uint64(8)).astype(np.float64) + 0.5) / (1 << 24)
    near = np.exp((logits - logits.max(1, keepdims=True)) / 0.8) >= 0.05
    x = np.where(near, logits / 0.8 - np.log(-np.log(u)).reshape(9, 100), -np.inf)
    return {"chosen": x.argmax(1), "kept": near.sum(1)}
