"""C = residual + gelu(A B + bias): what follows the product is a macro that the caller picks."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "linear",
    "arguments": {"M": 90, "N": 100, "K": 64, "activation": "gelu", "use_residual": True},
    "types": {"A": "bfloat16", "B": "bfloat16", "bias": "float32", "residual": "bfloat16", "C": "bfloat16"},
    "tolerance": 1e-2,
}


@T.macro
def gelu(x, rows, cols):
    for i, j in T.Parallel(rows, cols):
        x[i, j] = 0.5 * x[i, j] * (1 + T.erf(x[i, j] * 0.7071067811865476))


@T.macro
def relu(x, rows, cols):
    for i, j in T.Parallel(rows, cols):
        x[i, j] = T.max(x[i, j], 0)


@tilelang.jit
def linear(A, B, bias, residual, activation="none", use_residual=False):
    M, N, K = T.const("M, N, K")
    block_M, block_N, block_K = 64, 64, 32
    A: T.Tensor[[M, K], T.bfloat16]
    B: T.Tensor[[K, N], T.bfloat16]
    bias: T.Tensor[[N], T.float32]
    residual: T.Tensor[[M, N], T.bfloat16]
    C = T.empty([M, N], T.bfloat16)
    epilogues = {"gelu": gelu, "relu": relu}

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared([block_M, block_K], T.bfloat16)
        B_shared = T.alloc_shared([block_K, block_N], T.bfloat16)
        bias_shared = T.alloc_shared([block_N], T.float32)
        acc = T.alloc_fragment([block_M, block_N], T.float32)
        T.copy(bias[bx * block_N], bias_shared)
        for i, j in T.Parallel(block_M, block_N):
            acc[i, j] = bias_shared[j]
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, acc)
        if activation in epilogues:
            epilogues[activation](acc, block_M, block_N)
        else:
            assert activation == "none", f"no activation is called {activation}"
        if use_residual:
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] += residual[by * block_M + i, bx * block_N + j]
        T.copy(acc, C[by * block_M, bx * block_N])
    return C


def inputs(rng):
    return {"A": rng.standard_normal((90, 64)) / 8, "B": rng.standard_normal((64, 100)),
            "bias": rng.standard_normal(100), "residual": rng.standard_normal((90, 100))}


def reference(A, B, bias, residual):
    x = A @ B + bias
    erf = np.vectorize(math.erf)
    return {"C": residual + 0.5 * x * (1 + erf(x / np.sqrt(2)))}
