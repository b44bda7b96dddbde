"""Rows that lie apart in memory, a pointer with sizes from the call, and a tensor read backwards."""
import tilelang
import tilelang.language as T

KERNEL = {
    "launches": [
        {"entry": "gather_rows", "arguments": {"M": 9, "N": 24, "pitch": 32}, "inputs": ["padded"],
         "outputs": ["dense"]},
        {"entry": "by_pointer", "runtime": {"m": 9, "n": 24}, "inputs": ["flat"], "outputs": ["doubled"]},
    ],
    "types": {"padded": "float32", "dense": "float32", "flat": "float32", "doubled": "float32"},
}


@tilelang.jit(out_idx=[1])
def gather_rows(M, N, pitch, block=8):
    @T.prim_func
    def main(padded: T.StridedTensor((M, N), (pitch, 1), "float32"), dense: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block), threads=96) as b:
            tile = T.alloc_fragment((block, N), "float32")
            T.copy(padded[b * block, 0], tile)
            for i, j in T.Parallel(block, N):
                if b * block + i < M:
                    dense[M - 1 - (b * block + i), j] = tile[i, j]

    return main


@T.prim_func
def by_pointer(flat: T.ptr, doubled: T.ptr, m: T.int32, n: T.int32):
    A = T.match_buffer(flat, (m, n), "float32")
    B = T.match_buffer(doubled, (m, n), "float32")
    with T.Kernel(T.ceildiv(n, 16), T.ceildiv(m, 4), threads=64) as (bx, by):
        for i, j in T.Parallel(4, 16):
            if by * 4 + i < m and bx * 16 + j < n:
                B[by * 4 + i, bx * 16 + j] = A[by * 4 + i, bx * 16 + j] * 2


def inputs(rng):
    # The memory from the first element to the last: rows of 32, of which 24 belong to the tensor.
    return {"padded": rng.standard_normal(8 * 32 + 24), "flat": rng.standard_normal((9, 24))}


def reference(padded, flat):
    rows = np.append(padded, np.zeros(8)).reshape(9, 32)[:, :24]
    return {"dense": rows[::-1], "doubled": 2 * flat}
