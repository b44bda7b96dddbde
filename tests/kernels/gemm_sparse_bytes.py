"""C = A^T B^T of integers where A is sparse: both A and what says where its elements stand come column by column,
eight groups of a row in a word, and a bias is added to the first product."""
import tilelang
import tilelang.language as T
from tilelang.cuda.intrinsics.sparse_layout import get_e_factor

KERNEL = {
    "entry": "gemm_sparse_bytes",
    "arguments": {"M": 96, "N": 40, "K": 256},
    "types": {"A": "int8", "E": "int32", "B": "int8", "bias": "int32", "C": "int32"},
}


@tilelang.jit(out_idx=[-1])
def gemm_sparse_bytes(M, N, K, block_M=32, block_N=32, block_K=128, threads=64):
    per = get_e_factor("int8", "int32")

    @T.prim_func
    def main(A: T.Tensor((K // 2, M), T.int8), E: T.Tensor((K // per, M), T.int32),
             B: T.Tensor((N, K), T.int8), bias: T.Tensor((N,), T.int32), C: T.Tensor((M, N), T.int32)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_turned = T.alloc_shared((block_K // 2, block_M), T.int8)
            A_shared = T.alloc_shared((block_M, block_K // 2), T.int8)
            E_shared = T.alloc_shared((block_K // per, block_M), T.int32)
            B_shared = T.alloc_shared((block_N, block_K), T.int8)
            C_local = T.alloc_fragment((block_M, block_N), T.int32)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = T.if_then_else(bx * block_N + j < N, bias[bx * block_N + j], 0)
            for k in range(T.ceildiv(K, block_K)):
                T.copy(A[k * block_K // 2, by * block_M], A_turned)
                T.transpose(A_turned, A_shared)
                T.copy(E[k * block_K // per, by * block_M], E_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm_sp(A_shared, E_shared, B_shared, C_local, transpose_E=True, transpose_B=True,
                          policy=T.GemmWarpPolicy.FullRow)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def inputs(rng):
    first = rng.integers(0, 3, (96, 64))
    second = rng.integers(first + 1, 4)
    groups = (first | second << 2).reshape(96, 8, 8).astype(np.uint64)
    words = (groups << np.arange(0, 32, 4).astype(np.uint64)).sum(-1).astype(np.uint32)
    return {"A": rng.integers(-20, 20, (128, 96)), "E": words.view(np.int32).T, "B": rng.integers(-20, 20, (40, 256)),
            "bias": rng.integers(-1000, 1000, 40)}


def reference(A, E, B, bias):
    dense = np.zeros((96, 256), np.int64)
    for row in range(96):
        for group in range(64):
            bits = int(E[group // 8, row]) >> 4 * (group % 8)
            for i in range(2):
                dense[row, 4 * group + (bits >> 2 * i & 3)] = A[2 * group + i, row]
    return {"C": dense @ B.T + bias}
