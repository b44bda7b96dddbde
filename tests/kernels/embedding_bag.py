"""Sums of rows of a table over bags that end where the next begins; a loop whose bounds are in memory."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "bag",
    "arguments": {"rows": 30, "dim": 40, "bags": 7},
    "runtime": {"total": 19},
    "types": {"table": "float16", "ids": "int32", "starts": "int32", "weights": "float32", "out": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit(out_idx=[-1])
def bag(rows, dim, bags):
    total = T.dynamic("total")

    @T.prim_func
    def main(table: T.Tensor((rows, dim), T.float16), ids: T.Tensor((total,), T.int32),
             starts: T.Tensor((bags + 1,), T.int32), weights: T.Tensor((total,), T.float32),
             out: T.Tensor((bags, dim), T.float32)):
        with T.Kernel(bags, threads=32) as b:
            acc = T.alloc_fragment((dim,), T.float32)
            T.clear(acc)
            for i in T.serial(starts[b], starts[b + 1]):
                row = ids[i]
                weight = weights[i]
                for d in T.Parallel(dim):
                    acc[d] += table[row, d].astype(T.float32) * weight
            T.copy(acc, out[b, :])

    return main


def inputs(rng):
    return {"table": rng.standard_normal((30, 40)), "ids": rng.integers(0, 30, 19),
            "starts": np.array([0, 3, 3, 4, 10, 12, 18, 19]), "weights": rng.uniform(0.5, 1, 19)}


def reference(table, ids, starts, weights):
    rows = table[ids] * weights[:, None]
    return {"out": np.stack([rows[a:b].sum(0) for a, b in zip(starts, starts[1:])])}
