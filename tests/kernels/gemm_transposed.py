"""C = op(A) op(B) from a factory: which operands lie transposed is decided when it is called."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "matmul",
    "arguments": {"M": 72, "N": 72, "K": 80, "trans_A": True, "trans_B": True, "block_M": 64,
                  "block_N": 64, "block_K": 32},
    "types": {"A": "bfloat16", "B": "bfloat16", "C": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, trans_A, trans_B, block_M=128, block_N=128, block_K=32, num_stages=2,
           threads=128, in_dtype="bfloat16", out_dtype="float", accum_dtype="float"):
    A_shape = (K, M) if trans_A else (M, K)
    B_shape = (N, K) if trans_B else (K, N)
    A_shared_shape = (block_K, block_M) if trans_A else (block_M, block_K)
    B_shared_shape = (block_N, block_K) if trans_B else (block_K, block_N)

    @T.prim_func
    def main(A: T.Tensor(A_shape, in_dtype), B: T.Tensor(B_shape, in_dtype),
             C: T.Tensor((M, N), out_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared(A_shared_shape, in_dtype)
            B_shared = T.alloc_shared(B_shared_shape, in_dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                if trans_A:
                    T.copy(A[k * block_K, by * block_M], A_shared)
                else:
                    T.copy(A[by * block_M, k * block_K], A_shared)
                if trans_B:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_A=trans_A, transpose_B=trans_B)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def inputs(rng):
    return {"A": rng.standard_normal((80, 72)), "B": rng.standard_normal((72, 80))}


def reference(A, B):
    return {"C": A.T @ B.T}
