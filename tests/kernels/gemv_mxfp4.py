"""y = W x for a matrix of float4_e2m1fn with a float8_e8m0fnu scale for 32 neighbours of a row; a warp to a
row's part, summed by a reduction."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "gemv",
    "arguments": {"N": 45, "K": 192},
    "types": {"W": "float4_e2m1fn", "scale": "float8_e8m0fnu", "x": "bfloat16", "y": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit
def gemv(W, scale, x, N: int = 45, K: int = 192, group: int = 32, rows: int = 8, block_K: int = 64):
    W: T.Tensor((N, K), T.float4_e2m1fn)
    scale: T.Tensor((N, K // group), T.float8_e8m0fnu)
    x: T.Tensor((K,), T.bfloat16)
    y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, rows), threads=128) as b:
        codes = T.alloc_shared((rows, block_K), T.float4_e2m1fn)
        held = T.alloc_fragment((rows, block_K), T.float4_e2m1fn)
        terms = T.alloc_fragment((rows, block_K), T.float32)
        part = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        T.clear(total)
        for k in T.serial(K // block_K):
            T.copy(W[b * rows, k * block_K], codes)
            T.copy(codes, held)
            for i, j in T.Parallel(rows, block_K):
                power = scale[b * rows + i, (k * block_K + j) // group]
                terms[i, j] = held[i, j] * power * T.cast(x[k * block_K + j], "float32")
            T.reduce_sum(terms, part, dim=1)
            for i in T.Parallel(rows):
                total[i] += part[i]
        T.copy(total, y[b * rows])
    return y


def inputs(rng):
    return {"W": rng.choice([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -1.5, -2, -3, -4, -6], (45, 192)),
            "scale": np.exp2(rng.integers(-9, 9, (45, 6))), "x": rng.standard_normal(192)}


def reference(W, scale, x):
    return {"y": (W * np.repeat(scale, 32, 1)) @ x}
