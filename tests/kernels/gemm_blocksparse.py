"""C = A B where a mask says which tiles of the product exist."""
import itertools

import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "blocksparse",
    "arguments": {"M": 96, "N": 96, "K": 96, "block_M": 32, "block_N": 32, "block_K": 32, "num_stages": 2,
                  "thread_num": 64, "enable_rasteration": True},
    "types": {"A": "float16", "B": "float16", "mask": "bool", "C": "float16"},
    "tolerance": 2e-3,
}


def get_configs():
    names = ["block_M", "block_N", "block_K", "num_stages", "thread_num", "enable_rasteration"]
    choices = itertools.product([64, 128], [64, 128], [32, 64], [1, 2, 3], [128, 256], [True, False])
    return [dict(zip(names, c)) for c in choices]


@tilelang.autotune(configs=get_configs(), warmup=3, rep=5)
@tilelang.jit
def blocksparse(A, B, mask, block_M, block_N, block_K, num_stages, thread_num, enable_rasteration):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    mask: T.Tensor((M // block_M, N // block_N, K // block_K), T.bool)
    C = T.empty((M, N), T.float16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=thread_num) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        C_shared = T.alloc_shared((block_M, block_N), T.float16)
        T.use_swizzle(panel_size=10, enable=enable_rasteration)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            if mask[by, bx, k]:
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C_shared)
        T.copy(C_shared, C[by * block_M, bx * block_N])
    return C


def inputs(rng):
    return {"A": rng.standard_normal((96, 96)), "B": rng.standard_normal((96, 96)),
            "mask": rng.uniform(size=(3, 3, 3)) < 0.6}


def reference(A, B, mask):
    C = np.zeros((96, 96))
    for i, j, k in np.argwhere(mask):
        rows, cols, inner = (slice(32 * x, 32 * x + 32) for x in (i, j, k))
        C[rows, cols] += A[rows, inner] @ B[inner, cols]
    return {"C": C}
