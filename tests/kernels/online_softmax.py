"""Softmax of long rows: the maximum and the sum in one pass over tiles, the results in a second. Sizes come from
the file, and are bound after the kernel."""
import tilelang
import tilelang.language as T
from tilelang.profiler import do_bench

KERNEL = {
    "entry": "softmax_kernel",
    "types": {"X": "float32", "Y": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit
def softmax_kernel(X, dtype: T.dtype = T.float32):
    X: T.Tensor([M, N], dtype)
    Y = T.empty([M, N], dtype)
    accum_dtype = T.float32
    BN = min(tilelang.next_power_of_2(N), 64)
    NN = tilelang.cdiv(N, BN)
    scale = 1.44269504

    with T.Kernel(M, threads=64) as i_m:
        x = T.alloc_fragment([BN], dtype)
        y = T.alloc_fragment([BN], dtype)
        lse = T.alloc_fragment([1], accum_dtype)
        max_x = T.alloc_fragment([1], dtype)
        exp_x = T.alloc_fragment([BN], accum_dtype)
        sum_exp_x = T.alloc_fragment([1], accum_dtype)
        T.fill(lse, -T.infinity(accum_dtype))
        for i_n in T.Pipelined(0, NN):
            T.copy(X[i_m, i_n * BN:(i_n + 1) * BN], x)
            for j in T.Parallel(BN):
                x[j] = T.if_then_else(i_n * BN + j < N, x[j], -T.infinity(dtype))
            T.reduce_max(x, max_x, dim=0, clear=True)
            for j in T.Parallel(BN):
                exp_x[j] = T.exp2(x[j] * scale - max_x[0] * scale)
            T.reduce_sum(exp_x, sum_exp_x, dim=0, clear=True)
            lse[0] = max_x[0] * scale + T.log2(T.exp2(lse[0] - max_x[0] * scale) + sum_exp_x[0])
        for i_n in T.Pipelined(0, NN):
            T.copy(X[i_m, i_n * BN:(i_n + 1) * BN], x)
            for j in T.Parallel(BN):
                y[j] = T.exp2(x[j] * scale - lse[0])
            T.copy(y, Y[i_m, i_n * BN:(i_n + 1) * BN])
    return Y


M = 9
N = 200


def inputs(rng):
    return {"X": 3 * rng.standard_normal((9, 200))}


def reference(X):
    e = np.exp(X - X.max(1, keepdims=True))
    return {"Y": e / e.sum(1, keepdims=True)}


if __name__ == "__main__":
    import torch
    print(do_bench(lambda: softmax_kernel(torch.randn(M, N))))
