"""y = W x with W in signed bytes and a scale a row: each thread's part of a row in registers, the sum by a
reduction."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "dequant_gemv",
    "arguments": {"N": 50, "K": 300},
    "types": {"x": "float16", "W": "int8", "scale": "float16", "y": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit
def dequant_gemv(x, W, scale, block_N=8, block_K=64):
    N, K = T.const("N, K")
    x: T.Tensor((K,), T.float16)
    W: T.Tensor((N, K), T.int8)
    scale: T.Tensor((N,), T.float16)
    y = T.empty((N,), T.float16)

    with T.Kernel(T.ceildiv(N, block_N), threads=64) as bn:
        codes = T.alloc_shared((block_N, block_K), T.int8)
        part = T.alloc_shared((block_K,), T.float16)
        acc = T.alloc_fragment((block_N, block_K), T.float32)
        total = T.alloc_fragment((block_N,), T.float32)
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(W[bn * block_N, k * block_K], codes)
            T.copy(x[k * block_K], part)
            for i, j in T.Parallel(block_N, block_K):
                acc[i, j] += T.cast(codes[i, j], T.float32) * part[j].astype(T.float32)
        T.reduce_sum(acc, total, dim=1)
        for i in T.Parallel(block_N):
            total[i] *= scale[bn * block_N + i]
        T.copy(total, y[bn * block_N])
    return y


def inputs(rng):
    return {"x": rng.standard_normal(300), "W": rng.integers(-128, 128, (50, 300)),
            "scale": rng.uniform(0.005, 0.02, 50)}


def reference(x, W, scale):
    return {"y": (W @ x) * scale}
