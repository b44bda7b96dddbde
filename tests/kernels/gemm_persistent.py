"""A fixed number of blocks, each of which walks over tiles in waves."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "persistent",
    "arguments": {"M": 160, "N": 136, "K": 64, "block_M": 64, "block_N": 64, "block_K": 32, "workers": 6},
    "types": {"A": "float16", "B": "float16", "C": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit
def persistent(A, B, block_M, block_N, block_K, workers, threads=128, num_stages=2):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    rows = T.ceildiv(M, block_M)
    cols = T.ceildiv(N, block_N)
    group = 2  # columns that are neighbours in time
    waves = T.ceildiv(rows * T.ceildiv(cols, group) * group, workers)

    with T.Kernel(workers, threads=threads) as worker:
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        C_shared = T.alloc_shared((block_M, block_N), T.float16)
        for w in T.serial(waves):
            tile = workers * w + worker
            bx = (tile // group) % rows
            by = (tile % group) + (tile // group) // rows * group
            if bx * block_M < M and by * block_N < N:
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[bx * block_M, k * block_K], A_shared)
                    T.copy(B[k * block_K, by * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                T.copy(C_local, C_shared)
                T.copy(C_shared, C[bx * block_M, by * block_N])
    return C


def inputs(rng):
    return {"A": rng.standard_normal((160, 64)), "B": rng.standard_normal((64, 136))}


def reference(A, B):
    return {"C": A @ B}
