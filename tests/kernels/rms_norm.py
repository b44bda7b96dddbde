"""y = x / rms(x) * weight by rows."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "rms_norm",
    "arguments": {"M": 37, "N": 200, "blk_m": 4},
    "types": {"A": "float32", "weight": "float32", "B": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit
def rms_norm(A, weight, blk_m, eps=1e-6):
    M, N = T.const("M, N")
    dtype = T.float
    A: T.Tensor((M, N), dtype)
    weight: T.Tensor((N,), dtype)
    B = T.empty((M, N), dtype)

    with T.Kernel(T.ceildiv(M, blk_m), threads=128) as bx:
        A_shared = T.alloc_shared((blk_m, N), dtype)
        A_pow_local = T.alloc_fragment((blk_m, N), dtype)
        A_local = T.alloc_fragment((blk_m, N), dtype)
        A_powsum = T.alloc_fragment((blk_m,), dtype)
        T.copy(A[bx * blk_m:(bx + 1) * blk_m, :], A_shared)
        T.copy(A_shared, A_local)
        for i, j in T.Parallel(blk_m, N):
            A_pow_local[i, j] = A_local[i, j] * A_local[i, j]
        T.reduce_sum(A_pow_local, A_powsum, dim=1)
        for i in T.Parallel(blk_m):
            A_powsum[i] = T.rsqrt(A_powsum[i] / N + eps)
        for i, j in T.Parallel(blk_m, N):
            A_local[i, j] *= A_powsum[i] * weight[j]
        T.copy(A_local, A_shared)
        T.copy(A_shared, B[bx * blk_m:(bx + 1) * blk_m, :])
    return B


def inputs(rng):
    return {"A": rng.standard_normal((37, 200)), "weight": rng.standard_normal(200)}


def reference(A, weight):
    return {"B": A / np.sqrt((A * A).mean(1, keepdims=True) + 1e-6) * weight}
