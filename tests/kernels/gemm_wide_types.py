"""float32 and float64 products on the arithmetic units, with operands from parts of tiles and a fragment as the left
one."""
import tilelang
import tilelang.language as T

KERNEL = {
    "launches": [
        {"entry": "product", "arguments": {"M": 40, "N": 24, "K": 32, "dtype": "float64"},
         "inputs": {"A": "A", "B": "B"}, "outputs": {"C": "C"}},
        {"entry": "product", "arguments": {"M": 40, "N": 24, "K": 32, "dtype": "float32"},
         "inputs": {"A32": "A", "B32": "B"}, "outputs": {"C32": "C"}},
    ],
    "types": {"A": "float64", "B": "float64", "C": "float64", "A32": "float32", "B32": "float32",
              "C32": "float32"},
    "tolerance": {"C": 1e-12, "C32": 1e-5},
}


@tilelang.jit(out_idx=[-1])
def product(M, N, K, dtype, block_M=32, block_N=16, block_K=16, threads=64):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_wide = T.alloc_shared((block_M, 2 * block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), dtype)
            T.clear(acc)
            T.clear(A_wide)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[by * block_M, k * block_K], A_wide[:, block_K:2 * block_K])
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_wide[:, block_K:2 * block_K], B_shared, acc)
            T.copy(acc, C[by * block_M, bx * block_N])

    return main


def inputs(rng):
    A, B = rng.standard_normal((40, 32)), rng.standard_normal((32, 24))
    return {"A": A, "B": B, "A32": A, "B32": B}


def reference(A, B, A32, B32):
    return {"C": A @ B, "C32": A32 @ B32}
