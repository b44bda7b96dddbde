"""C = A B^T of two kinds of float8, the activations with more exponent than the weights, and the other way round."""
import tilelang
import tilelang.language as T

KERNEL = {
    "types": {"A": "float8_e5m2", "B": "float8_e4m3fn", "C": "float32", "D": "float32"},
    "launches": [
        {"entry": "gemm_mixed", "arguments": {"M": 64, "N": 72, "K": 96, "left": "float8_e5m2",
                                              "right": "float8_e4m3fn"},
         "inputs": ["A", "B"], "outputs": ["C"]},
        {"entry": "gemm_mixed", "arguments": {"M": 72, "N": 64, "K": 96, "left": "float8_e4m3fn",
                                              "right": "float8_e5m2"},
         "inputs": {"B": "A", "A": "B"}, "outputs": {"D": "C"}},
    ],
    "tolerance": 1e-5,
    "device_tolerance": 1e-3,  # tensor cores sum products of float8 in fewer bits than float32 has
}


@tilelang.jit(out_idx=[-1])
def gemm_mixed(M, N, K, left, right, block_M=64, block_N=64, block_K=32):
    @T.prim_func
    def main(A: T.Tensor((M, K), left), B: T.Tensor((N, K), right), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), left)
            B_shared = T.alloc_shared((block_N, block_K), right)
            total = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, total, transpose_B=True)
            T.copy(total, C[by * block_M, bx * block_N])

    return main


def inputs(rng):
    return {"A": rng.standard_normal((64, 96)), "B": rng.standard_normal((72, 96))}


def reference(A, B):
    return {"C": A @ B.T, "D": B @ A.T}
