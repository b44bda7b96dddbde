"""C = B A of a vector: a row a lane, tiles of K in shared memory, the sum in a loop; then the same split over K."""
import tilelang
import tilelang.language as T

KERNEL = {
    "launches": [
        {"entry": "naive_gemv", "arguments": {"N": 70, "K": 96, "BLOCK_N": 32, "BLOCK_K": 32},
         "inputs": ["A", "B"], "outputs": ["C"]},
        {"entry": "splitk_gemv", "arguments": {"N": 70, "K": 96, "BLOCK_N": 8, "BLOCK_K": 32, "lanes": 4},
         "inputs": ["A", "B"], "outputs": {"C_split": "C"}},
        {"entry": "reducer_gemv", "arguments": {"M": 70, "N": 96, "block_M": 16, "block_N": 32},
         "inputs": {"B": "a", "A": "x"}, "outputs": {"C_reduced": "o"}},
    ],
    "types": {"A": "float16", "B": "float16", "C": "float16", "C_split": "float16", "C_reduced": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit
def naive_gemv(A, B, BLOCK_N, BLOCK_K):
    N, K = T.const("N, K")
    A: T.Tensor((K,), T.float16)
    B: T.Tensor((N, K), T.float16)
    C = T.empty((N,), T.float16)
    with T.Kernel(T.ceildiv(N, BLOCK_N), threads=BLOCK_N) as bn:
        a = T.alloc_shared((BLOCK_K,), T.float16)
        b = T.alloc_shared((BLOCK_N, BLOCK_K), T.float16)
        c = T.alloc_fragment((BLOCK_N,), T.float32)
        T.clear(c)
        for bk in T.serial(T.ceildiv(K, BLOCK_K)):
            T.copy(A[bk * BLOCK_K], a)
            T.copy(B[bn * BLOCK_N, bk * BLOCK_K], b)
            for i in T.Parallel(BLOCK_N):
                for k in T.serial(BLOCK_K):
                    c[i] += a[k].astype(T.float32) * b[i, k].astype(T.float32)
        for i in T.Parallel(BLOCK_N):
            C[bn * BLOCK_N + i] = c[i]
    return C


@tilelang.jit
def splitk_gemv(A, B, BLOCK_N, BLOCK_K, lanes):
    N, K = T.const("N, K")
    per_lane = BLOCK_K // lanes
    A: T.Tensor((K,), T.float16)
    B: T.Tensor((N, K), T.float16)
    C = T.empty((N,), T.float16)
    with T.Kernel(T.ceildiv(N, BLOCK_N), threads=BLOCK_N * lanes) as bn:
        parts = T.alloc_fragment((BLOCK_N, lanes), T.float32)
        sums = T.alloc_fragment((BLOCK_N,), T.float32)
        T.clear(parts)
        for bk in T.serial(T.ceildiv(K, BLOCK_K)):
            for i, t in T.Parallel(BLOCK_N, lanes):
                for k in T.serial(per_lane):
                    col = bk * BLOCK_K + t * per_lane + k
                    parts[i, t] += T.cast(A[col], T.float32) * T.cast(B[bn * BLOCK_N + i, col], T.float32)
        T.reduce_sum(parts, sums, dim=1)
        T.copy(sums, C[bn * BLOCK_N])
    return C


@tilelang.jit
def reducer_gemv(a, x, block_M=128, block_N=128, num_stages=2, threads=64):
    M, N = T.const("M, N")
    a: T.Tensor((M, N), T.float16)
    x: T.Tensor((N,), T.float16)
    o = T.empty((M,), T.float16)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bm:
        r = T.alloc_reducer(block_M, T.float32, op="sum", replication="all")
        T.clear(r)
        for n in T.Pipelined(T.ceildiv(N, block_N), num_stages=num_stages):
            a_smem = T.alloc_shared((block_M, block_N), T.float16)
            x_smem = T.alloc_shared((block_N,), T.float16)
            T.copy(a[bm * block_M, n * block_N], a_smem)
            T.copy(x[n * block_N], x_smem)
            a_frag = T.alloc_fragment((block_M, block_N), T.float16)
            T.copy(a_smem, a_frag)
            x_frag = T.alloc_fragment((block_N,), T.float16)
            T.copy(x_smem, x_frag)
            for i, j in T.Parallel(block_M, block_N):
                r[i] += a_frag[i, j] * x_frag[j]
        T.finalize_reducer(r)
        T.copy(r, o[bm * block_M])
    return o


def inputs(rng):
    return {"A": rng.standard_normal(96), "B": rng.standard_normal((70, 96))}


def reference(A, B):
    return {"C": B @ A, "C_split": B @ A, "C_reduced": B @ A}
