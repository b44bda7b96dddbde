"""The lower triangle of A A^T: blocks above the diagonal write nothing, those on it half."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "syrk",
    "arguments": {"N": 100, "K": 64},
    "types": {"A": "float16", "C": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit
def syrk(A, C, block=32, block_K=32):
    N, K = T.const("N, K")
    A: T.Tensor((N, K), T.float16)
    C: T.Tensor((N, N), T.float32)

    with T.Kernel(T.ceildiv(N, block), T.ceildiv(N, block), threads=64) as (bx, by):
        left = T.alloc_shared((block, block_K), T.float16)
        right = T.alloc_shared((block, block_K), T.float16)
        acc = T.alloc_fragment((block, block), T.float32)
        if bx <= by:
            T.clear(acc)
            for k in T.Pipelined(K // block_K, num_stages=2):
                T.copy(A[by * block, k * block_K], left)
                T.copy(A[bx * block, k * block_K], right)
                T.gemm(left, right, acc, transpose_B=True)
            for i, j in T.Parallel(block, block):
                row, col = by * block + i, bx * block + j
                if row >= col:
                    C[row, col] = acc[i, j]


def inputs(rng):
    return {"A": rng.standard_normal((100, 64)), "C": rng.standard_normal((100, 100))}


def reference(A, C):
    return {"C": np.where(np.tri(100, dtype=bool), A @ A.T, C)}
