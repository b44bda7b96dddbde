"""Stream-k: each program takes the same number of K steps, over the borders of tiles."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "streamk",
    "arguments": {"M": 64, "N": 192, "K": 160, "block_M": 32, "block_N": 64, "block_K": 32, "programs": 7},
    "types": {"A": "float16", "B": "float16", "C": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit
def streamk(A, B, C, block_M, block_N, block_K, programs, num_stages=2):
    M, N, K = T.const("M, N, K")
    steps_per_tile = tilelang.cdiv(K, block_K)
    tiles_n = tilelang.cdiv(N, block_N)
    tiles = tilelang.cdiv(M, block_M) * tiles_n
    steps = tiles * steps_per_tile
    share, rest = steps // programs, steps % programs
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    C: T.Tensor((M, N), T.float32)

    with T.Kernel(programs, threads=128) as pid:
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_N, block_K), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        at = T.alloc_fragment((1,), T.int32, "local")
        until = T.alloc_fragment((1,), T.int32, "local")
        at[0] = pid * share + T.min(pid, rest)
        end = (pid + 1) * share + T.min(pid + 1, rest)
        while at[0] < end:
            tile = at[0] // steps_per_tile
            first = at[0] % steps_per_tile
            until[0] = T.min(at[0] + (steps_per_tile - first), end)
            row, col = tile // tiles_n, tile % tiles_n
            T.clear(C_local)
            for k in T.Pipelined(until[0] - at[0], num_stages=num_stages):
                T.copy(A[row * block_M, (first + k) * block_K], A_shared)
                T.copy(B[col * block_N, (first + k) * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            if first == 0 and until[0] % steps_per_tile == 0:
                T.copy(C_local, C[row * block_M, col * block_N])
            else:
                for i, j in T.Parallel(block_M, block_N):
                    T.atomic_add(C[row * block_M + i, col * block_N + j], C_local[i, j])
            at[0] = until[0]


def inputs(rng):
    return {"A": rng.standard_normal((64, 160)), "B": rng.standard_normal((192, 160)),
            "C": np.zeros((64, 192))}


def reference(A, B, C):
    return {"C": A @ B.T}
