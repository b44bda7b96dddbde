"""Products of two types that add to the same sums, each in a pipelined loop of its own, by mma.sync."""
import tilelang
import tilelang.language as T

M, N, K = 100, 130, 256

KERNEL = {
    "entry": "gemm_two_types",
    "arguments": {"M": M, "N": N, "K": K},
    "types": {"A": "float16", "B": "float16", "D": "bfloat16", "E": "bfloat16", "C": "float32"},
    "tolerance": 1e-3,
}


@tilelang.jit(pass_configs={"kiln.instructions": 80})
def gemm_two_types(A, B, D, E, C, block=64, block_K=64):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    D: T.Tensor((M, K), T.bfloat16)
    E: T.Tensor((N, K), T.bfloat16)
    C: T.Tensor((M, N), T.float32)

    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        a = T.alloc_shared((block, block_K), T.float16)
        b = T.alloc_shared((block, block_K), T.float16)
        d = T.alloc_shared((block, block_K), T.bfloat16)
        e = T.alloc_shared((block, block_K), T.bfloat16)
        sums = T.alloc_fragment((block, block), T.float32)
        T.clear(sums)
        for k in T.Pipelined(K // block_K, num_stages=2):
            T.copy(A[by * block, k * block_K], a)
            T.copy(B[bx * block, k * block_K], b)
            T.gemm(a, b, sums, transpose_B=True)
        for k in T.Pipelined(K // block_K, num_stages=2):
            T.copy(D[by * block, k * block_K], d)
            T.copy(E[bx * block, k * block_K], e)
            T.gemm(d, e, sums, transpose_B=True)
        T.copy(sums, C[by * block, bx * block])


def inputs(rng):
    return {"A": rng.standard_normal((M, K)), "B": rng.standard_normal((N, K)),
            "D": 1e-3 * rng.standard_normal((M, K)), "E": 1e3 * rng.standard_normal((N, K))}


def reference(A, B, D, E):
    return {"C": A @ B.T + D @ E.T}
