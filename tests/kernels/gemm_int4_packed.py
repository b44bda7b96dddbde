"""C = A W^T where W is a tensor of int4 with a scale a row and group: its tiles stay packed on their way through
shared memory and are widened there for each product."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "gemm_int4",
    "arguments": {"M": 40, "N": 96, "K": 160, "group": 32},
    "types": {"A": "float16", "W": "int4", "scale": "float16", "C": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit(out_idx=[-1])
def gemm_int4(M, N, K, group, block_M=32, block_N=64, block_K=64, num_stages=2, threads=128):
    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), W: T.Tensor((N, K), T.int4),
             scale: T.Tensor((N, K // group), T.float16), C: T.Tensor((M, N), T.float16)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), T.float16)
            W_shared = T.alloc_shared((block_N, block_K), T.int4)
            wide = T.alloc_shared((block_N, block_K), T.float16)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * block_K], W_shared)
                for i, j in T.Parallel(block_N, block_K):
                    step = scale[bx * block_N + i, (k * block_K + j) // group]
                    wide[i, j] = T.cast(W_shared[i, j], T.float16) * step
                T.gemm(A_shared, wide, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def inputs(rng):
    return {"A": rng.standard_normal((40, 160)), "W": rng.integers(-8, 8, (96, 160)),
            "scale": rng.uniform(0.5, 2, (96, 5))}


def reference(A, W, scale):
    return {"C": A @ round_to(W * np.repeat(scale, 32, 1), "float16").T}
