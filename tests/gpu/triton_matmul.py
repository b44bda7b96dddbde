"""A plain product for Triton's autotuner: C[M, N] = A[M, K] B[N, K]^T, tiles in groups of rows."""
import itertools

import triton
import triton.language as tl


def configs(count):
    """The first `count` of a grid of tiles, stages and warps, those of usual size first."""
    grid = itertools.product((128, 64, 256), (128, 256, 64), (64, 32, 128), (3, 4, 2), (8, 4))
    fitting = [(m, n, k, stages, warps) for m, n, k, stages, warps in grid
               if (m + n) * k * 2 * stages <= 220 * 1024 and m * n <= 128 * 256]
    return [triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": 8}, num_stages=stages,
                          num_warps=warps) for m, n, k, stages, warps in fitting[:count]]


def product(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
            GROUP: tl.constexpr):
    block = tl.program_id(0)
    across, down = tl.cdiv(N, BLOCK_N), tl.cdiv(M, BLOCK_M)
    group = block // (GROUP * across)
    rows = min(down - group * GROUP, GROUP)
    row = group * GROUP + block % (GROUP * across) % rows
    column = block % (GROUP * across) // rows
    m = row * BLOCK_M + tl.arange(0, BLOCK_M)
    n = column * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_at = a + (m % M)[:, None] * K + k[None, :]
    b_at = b + (n % N)[None, :] * K + k[:, None]
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        sums = tl.dot(tl.load(a_at, mask=k[None, :] < left, other=0.0),
                      tl.load(b_at, mask=k[:, None] < left, other=0.0), sums)
        a_at += BLOCK_K
        b_at += BLOCK_K
    tl.store(c + m[:, None] * N + n[None, :], sums.to(tl.bfloat16),
             mask=(m[:, None] < M) & (n[None, :] < N))


def run(a, b, count):
    """C and the config that the autotuner took."""
    M, K = a.shape
    N = b.shape[0]
    c = a.new_empty((M, N))
    kernel = triton.autotune(configs=configs(count), key=["M", "N", "K"])(triton.jit(product))
    kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)](
        a, b, c, M, N, K)
    return c, str(kernel.best_config)
