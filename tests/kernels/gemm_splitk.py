"""C += A B: every block of the third grid axis takes a part of K and adds what it has."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "splitk",
    "arguments": {"M": 64, "N": 128, "K": 256, "block_M": 64, "block_N": 64, "block_K": 32, "split_k": 4},
    "types": {"A": "float16", "B": "float16", "C": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit
def splitk(A, B, C, block_M, block_N, block_K, split_k):
    M, N, K = T.const("M, N, K")
    part = K // split_k
    assert part % block_K == 0, "each part of K is whole tiles"
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C: T.Tensor((M, N), T.float32)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split_k, threads=128) as (bx, by, bz):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16, scope="shared.dyn")
        C_local = T.alloc_fragment((block_M, block_N), "float32")
        T.clear(C_local)
        for ko in T.Pipelined(T.ceildiv(part, block_K), num_stages=0):
            T.copy(A[by * block_M, bz * part + ko * block_K], A_shared)
            T.copy(B[bz * part + ko * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        for i, j in T.Parallel(block_M, block_N):
            T.atomic_add(C[by * block_M + i, bx * block_N + j], C_local[i, j])


def inputs(rng):
    return {"A": rng.standard_normal((64, 256)), "B": rng.standard_normal((256, 128)),
            "C": rng.standard_normal((64, 128))}


def reference(A, B, C):
    return {"C": C + A @ B}
