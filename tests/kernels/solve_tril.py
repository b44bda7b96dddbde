"""The inverse of I + A for strictly lower triangular A, chunk by chunk: rows follow from the rows before them."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "solve_tril",
    "arguments": {"B": 1, "S": 48, "H": 2, "chunk": 16},
    "types": {"A": "float32", "X": "bfloat16"},
    "tolerance": 1e-2,
}


@tilelang.jit(out_idx=[-1])
def solve_tril(B, S, H, chunk, dtype=T.float32):
    @T.prim_func
    def main(A: T.Tensor((B, S, H, chunk), dtype), X: T.Tensor((B, S, H, chunk), T.bfloat16)):
        with T.Kernel(T.ceildiv(S, chunk), B * H, threads=32) as (bs, bbh):
            bb, bh = bbh // H, bbh % H
            a = T.alloc_shared((chunk, chunk), dtype)
            x = T.alloc_shared((chunk, chunk), dtype)
            terms = T.alloc_fragment((chunk, chunk), dtype)
            row = T.alloc_fragment((chunk,), dtype)
            T.copy(A[bb, bs * chunk:(bs + 1) * chunk, bh, :], a)
            for i, j in T.Parallel(chunk, chunk):
                x[i, j] = T.if_then_else(i == j, 1.0, 0.0)
            for i in T.serial(1, chunk):
                for j, k in T.Parallel(chunk, chunk):
                    terms[j, k] = T.if_then_else(k < i, a[i, k] * x[k, j], 0.0)
                T.reduce_sum(terms, row, dim=1)
                for j in T.Parallel(chunk):
                    x[i, j] -= row[j]
            T.copy(x, X[bb, bs * chunk:(bs + 1) * chunk, bh, :])

    return main


def inputs(rng):
    A = rng.standard_normal((1, 3, 16, 2, 16)) / 4 * np.tri(16, 16, -1)[:, None, :]
    return {"A": A.reshape(1, 48, 2, 16)}


def reference(A):
    a = A.reshape(3, 16, 2, 16).transpose(0, 2, 1, 3)
    x = np.linalg.inv(np.eye(16) + a)
    return {"X": x.transpose(0, 2, 1, 3).reshape(1, 48, 2, 16)}
