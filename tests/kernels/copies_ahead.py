"""Pipelined loops whose tiles lie where a table says, under conditions that memory decides: blocks that a mask leaves
out, two sources of a tile's place, a tile that steps without a copy use again, as many steps as a variable says; rows
that a list gives one by one, some of them nowhere, some masked."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "gather",
    "arguments": {"blocks": 3, "steps": 7, "rows": 16, "dim": 32},
    "types": {"data": "float16", "W": "float16", "table": "int32", "mask": "int32", "count": "int32",
              "order": "int32", "out": "float32", "again": "float32", "rows_of": "float32"},
    "tolerance": 2e-3,
}


@tilelang.jit(out_idx=[-3, -2, -1])
def gather(blocks, steps, rows, dim, num_stages=3):
    @T.prim_func
    def main(data: T.Tensor((steps * rows, dim), "float16"), W: T.Tensor((steps * rows, dim), "float16"),
             table: T.Tensor((blocks, steps), "int32"), mask: T.Tensor((blocks, steps), "int32"),
             count: T.Tensor((blocks,), "int32"), order: T.Tensor((steps * rows,), "int32"),
             out: T.Tensor((blocks, rows, rows), "float32"), again: T.Tensor((blocks, rows, dim), "float32"),
             rows_of: T.Tensor((blocks, rows, rows), "float32")):
        with T.Kernel(blocks, threads=64) as b:
            left = T.alloc_shared((rows, dim), "float16")
            right = T.alloc_shared((rows, dim), "float16")
            other = T.alloc_shared((rows, dim), "float16")
            kept = T.alloc_shared((rows, dim), "float16")
            acc = T.alloc_fragment((rows, rows), "float32")
            total = T.alloc_fragment((rows, dim), "float32")
            number = T.alloc_var("int32")
            number = count[b]
            T.clear(acc)
            T.clear(total)
            T.clear(kept)
            for k in T.Pipelined(number, num_stages=num_stages):
                page = table[b, k]
                if mask[b, k] != 0:
                    T.copy(data[page * rows, 0], left)
                    if mask[b, k] == 1:
                        T.copy(W[page * rows, 0], right)
                        T.gemm(left, right, acc, transpose_B=True)
                    else:
                        T.copy(W[table[b, k] * rows, 0], other)
                        T.gemm(other, left, acc, transpose_B=True)
            for k in T.Pipelined(number, num_stages=num_stages):
                if mask[b, k] == 1:
                    T.copy(data[table[b, k] * rows, 0], kept)
                for i, j in T.Parallel(rows, dim):
                    total[i, j] += kept[i, j]
            T.copy(acc, out[b, :, :])
            T.copy(total, again[b, :, :])
            T.clear(acc)
            picked = T.alloc_shared((rows, dim), "float16")
            masked = T.alloc_shared((rows, dim), "float16")
            for k in T.Pipelined(number, num_stages=num_stages):
                for i, j in T.Parallel(rows, dim):
                    row = order[k * rows + i]
                    picked[i, j] = data[row + b, j]
                for i, j in T.Parallel(rows, dim):
                    masked[i, j] = T.if_then_else(order[k * rows + i] % 2 == 0, W[k * rows + i, j], 0)
                T.gemm(picked, masked, acc, transpose_B=True)
            T.copy(acc, rows_of[b, :, :])

    return main


def inputs(rng):
    return {"data": rng.standard_normal((112, 32)), "W": rng.standard_normal((112, 32)),
            "table": rng.integers(0, 7, (3, 7)), "mask": np.array([[0, 1, 2, 0, 0, 1, 1], [1, 0, 2, 2, 1, 0, 0],
                                                                   [2, 1, 1, 1, 0, 2, 1]]),
            "count": np.array([7, 5, 1]), "order": rng.integers(-3, 115, 112)}


def reference(data, W, table, mask, count, order):
    out, again, rows_of = np.zeros((3, 16, 16)), np.zeros((3, 16, 32)), np.zeros((3, 16, 16))
    for b in range(3):
        kept = np.zeros((16, 32))
        for k in range(count[b]):
            rows = slice(16 * table[b, k], 16 * table[b, k] + 16)
            if mask[b, k] == 1:
                out[b] += data[rows] @ W[rows].T
                kept = data[rows]
            elif mask[b, k] == 2:
                out[b] += W[rows] @ data[rows].T
            again[b] += kept
            rows = order[16 * k:16 * k + 16] + b
            there = (rows >= 0) & (rows < 112)
            picked = np.where(there[:, None], data[np.where(there, rows, 0)], 0)
            masked = np.where(order[16 * k:16 * k + 16, None] % 2 == 0, W[16 * k:16 * k + 16], 0)
            rows_of[b] += picked @ masked.T
    return {"out": out, "again": again, "rows_of": rows_of}
