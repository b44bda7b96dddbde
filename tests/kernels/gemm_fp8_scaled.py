"""C = (A sa) (B sb)^T of float8 with a scale for 64 elements of a row of A and for a 64 x 64 block of B:
the products of a group are scaled into sums of their own."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "gemm_fp8_scaled",
    "arguments": {"M": 40, "N": 128, "K": 128, "block_N": 64, "out_dtype": "bfloat16"},
    "types": {"A": "float8_e4m3fn", "B": "float8_e4m3fn", "scale_a": "float32", "scale_b": "float32",
              "C": "bfloat16"},
    "tolerance": 1e-2,
}


@tilelang.jit
def gemm_fp8_scaled(A, B, scale_a, scale_b, block_N, out_dtype, accum_dtype=T.float32):
    assert out_dtype in [T.bfloat16, T.float32], "results are bfloat16 or float32"
    M, N, K = T.const("M, N, K")
    group = 64
    block_M = 64
    block_K = group
    A: T.Tensor((M, K), T.float8_e4m3fn)
    B: T.Tensor((N, K), T.float8_e4m3fn)
    scale_a: T.Tensor((M, T.ceildiv(K, group)), T.float32)
    scale_b: T.Tensor((T.ceildiv(N, group), T.ceildiv(K, group)), T.float32)
    C = T.empty((M, N), out_dtype)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float8_e4m3fn)
        B_shared = T.alloc_shared((block_N, block_K), T.float8_e4m3fn)
        C_shared = T.alloc_shared((block_M, block_N), out_dtype)
        part = T.alloc_fragment((block_M, block_N), accum_dtype)
        total = T.alloc_fragment((block_M, block_N), accum_dtype)
        T.use_swizzle(panel_size=10)
        T.clear(part)
        T.clear(total)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=4):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K], B_shared)
            of_b = scale_b[bx * block_N // group, k]
            T.gemm(A_shared, B_shared, part, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                total[i, j] += part[i, j] * (scale_a[by * block_M + i, k] * of_b)
            T.clear(part)
        T.copy(total, C_shared)
        T.copy(C_shared, C[by * block_M, bx * block_N])
    return C


def inputs(rng):
    return {"A": rng.standard_normal((40, 128)), "B": rng.standard_normal((128, 128)),
            "scale_a": rng.uniform(0.5, 2, (40, 2)), "scale_b": rng.uniform(0.5, 2, (2, 2))}


def reference(A, B, scale_a, scale_b):
    A = A * np.repeat(scale_a, 64, axis=1)
    B = B * np.repeat(np.repeat(scale_b, 64, axis=0), 64, axis=1)
    return {"C": A @ B.T}
