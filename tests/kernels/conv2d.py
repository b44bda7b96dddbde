"""A convolution of [N, H, W, C] by [K, K, C, F] as a product: a parallel loop gathers the pixels of a tile and
puts zero where the padding is."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "convolution",
    "arguments": {"N": 2, "C": 16, "H": 9, "W": 7, "F": 40, "K": 3, "S": 2, "D": 1, "P": 1},
    "types": {"data": "float16", "kernel": "float16", "out": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit
def convolution(data, kernel, S, D, P, block_M=32, block_N=32, block_K=32, num_stages=2, threads=64):
    N, C, H, W, F, K = T.const("N, C, H, W, F, K")
    KH, KW = K, K
    OH = (H + 2 * P - D * (K - 1) - 1) // S + 1
    OW = (W + 2 * P - D * (K - 1) - 1) // S + 1
    dtype = T.float16
    data: T.Tensor((N, H, W, C), dtype)
    kernel: T.Tensor((KH, KW, C, F), dtype)
    out = T.empty((N, OH, OW, F), dtype)

    with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(N * OH * OW, block_M), threads=threads) as (bx, by):
        data_shared = T.alloc_shared((block_M, block_K), dtype)
        kernel_shared = T.alloc_shared((block_K, block_N), dtype)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        kernel_flat = T.Tensor((KH * KW * C, F), dtype, kernel.data)
        out_flat = T.Tensor((N * OH * OW, F), dtype, out.data)
        T.clear(acc)
        for k_iter in T.Pipelined(T.ceildiv(KH * KW * C, block_K), num_stages=num_stages):
            for i, j in T.Parallel(block_M, block_K):
                k = k_iter * block_K + j
                m = by * block_M + i
                access_h = m % (OH * OW) // OW * S + k // (KW * C) * D - P
                access_w = m % OW * S + k // C % KW * D - P
                in_bound = ((access_h >= 0) and (access_w >= 0) and (access_h < H) and (access_w < W)
                            and (m < N * OH * OW) and (k < KH * KW * C))
                data_shared[i, j] = T.if_then_else(in_bound, data[m // (OH * OW), access_h, access_w, k % C],
                                                   0)
            T.copy(kernel_flat[k_iter * block_K, bx * block_N], kernel_shared)
            T.gemm(data_shared, kernel_shared, acc)
        T.copy(acc, out_flat[by * block_M, bx * block_N])
    return out


def inputs(rng):
    return {"data": rng.standard_normal((2, 9, 7, 16)), "kernel": rng.standard_normal((3, 3, 16, 40)) / 8}


def reference(data, kernel):
    padded = np.pad(data, ((0, 0), (1, 1), (1, 1), (0, 0)))
    out = np.zeros((2, 5, 4, 40))
    for y in range(3):
        for x in range(3):
            out += padded[:, y:y + 9:2, x:x + 7:2] @ kernel[y, x]
    return {"out": out}
