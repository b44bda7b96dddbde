"""A product whose tiles are scaled on the way: the stages of the loop are written out, and a view gives the scales
their rows."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "scaled",
    "arguments": {"M": 64, "N": 64, "K": 128},
    "types": {"A": "float16", "B": "float16", "scale": "float16", "C": "float16"},
    "tolerance": 3e-3,
}


@tilelang.jit(out_idx=[-1])
def scaled(M, N, K, block_M=32, block_N=64, block_K=32, threads=128):
    steps = K // block_K

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"),
             scale: T.Tensor((M * steps,), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            A_scaled = T.alloc_fragment((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            by_row = T.reshape(scale, (M, steps))
            T.clear(C_local)
            for k in T.Pipelined(steps, num_stages=2, order=[0, 1, 2, 3], stage=[0, 0, 1, 1]):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                for i, j in T.Parallel(block_M, block_K):
                    A_scaled[i, j] = A_shared[i, j] * by_row[by * block_M + i, k]
                T.gemm(A_scaled, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def inputs(rng):
    return {"A": rng.standard_normal((64, 128)), "B": rng.standard_normal((128, 64)),
            "scale": rng.uniform(0.5, 2, 256)}


def reference(A, B, scale):
    return {"C": (A * np.repeat(scale.reshape(64, 4), 32, axis=1)) @ B}
