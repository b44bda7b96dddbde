"""The k largest logits of each row and where they are, one after the other."""
import itertools

import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "topk",
    "arguments": {"M": 50, "N": 40, "k": 6, "blk_m": 32},
    "types": {"logits": "float32", "gates": "float32", "indices": "int32"},
}


def get_configs():
    iter_params = dict(blk_m=[64, 128, 256], threads=[128, 256, 512])
    return [dict(zip(iter_params, values)) for values in itertools.product(*iter_params.values())]


@tilelang.autotune(configs=get_configs())
@tilelang.jit
def topk(logits, k, blk_m=64, threads=128):
    M, N = T.const("M, N")
    dtype = T.float32
    logits: T.Tensor([M, N], dtype)
    gates = T.empty([M, k], dtype)
    indices = T.empty([M, k], T.int32)

    with T.Kernel(T.ceildiv(M, blk_m), threads=threads) as bx:
        rows = T.alloc_fragment([blk_m, N], dtype=dtype)
        best = T.alloc_fragment([blk_m], dtype=dtype)
        where = T.alloc_fragment([blk_m, N], T.int32)
        at = T.alloc_fragment([blk_m], T.int32)
        T.copy(logits[bx * blk_m, 0], rows)
        for r in T.serial(k):
            T.fill(where, -1)
            T.reduce_max(rows, best, dim=1, clear=True)
            for i, j in T.Parallel(blk_m, N):
                where[i, j] = T.if_then_else(best[i] == rows[i, j], j, where[i, j])
            T.reduce_max(where, at, dim=1, clear=True)
            for i, j in T.Parallel(blk_m, N):
                rows[i, j] = T.if_then_else(best[i] == rows[i, j], -10000.0, rows[i, j])
            for i in T.Parallel(blk_m):
                gates[bx * blk_m + i, r] = best[i]
                indices[bx * blk_m + i, r] = at[i]
    return gates, indices


def inputs(rng):
    return {"logits": rng.permutation(50 * 40).reshape(50, 40) / 64}


def reference(logits):
    order = np.argsort(-logits, axis=1)[:, :6]
    return {"gates": np.take_along_axis(logits, order, 1), "indices": order}
