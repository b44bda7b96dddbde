"""New rows of keys into the pages where they belong, rotated on the way and cast; slots of -1 are padding."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "append",
    "arguments": {"heads": 2, "dim": 32, "page": 8},
    "runtime": {"tokens": 11, "pages": 5},
    "types": {"k": "float32", "slots": "int64", "cache": "bfloat16"},
    "tolerance": 1e-2,
}


@tilelang.jit
def append(k, slots, cache, heads, dim, page):
    tokens = T.dynamic("tokens")
    pages = T.dynamic("pages")
    k: T.Tensor((tokens, heads, dim), T.float32)
    slots: T.Tensor((tokens,), T.int64)
    cache: T.Tensor((pages, heads, page, dim), T.bfloat16)

    with T.Kernel(tokens, threads=64) as t:
        slot = slots[t]
        if slot >= 0:
            for h, d in T.Parallel(heads, dim):
                cache[slot // page, h, slot % page, d] = T.cast(k[t, h, d], T.bfloat16)


def inputs(rng):
    slots = rng.permutation(40)[:11]
    slots[[2, 7]] = -1
    return {"k": rng.standard_normal((11, 2, 32)), "slots": slots, "cache": rng.standard_normal((5, 2, 8, 32))}


def reference(k, slots, cache):
    for t, s in enumerate(slots):
        if s >= 0:
            cache[s // 8, :, s % 8] = k[t]
    return {"cache": cache}
