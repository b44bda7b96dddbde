"""Layer norm by rows, with the mean and the reciprocal deviation that the backward pass wants."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "layernorm_fwd",
    "arguments": {"N": 30, "D": 192},
    "types": {"X": "float16", "W": "float16", "B": "float16", "Y": "float16", "Mean": "float32",
              "Rstd": "float32"},
    "tolerance": {"Y": 2e-3, "Mean": 1e-4, "Rstd": 1e-5},
}


@tilelang.jit(out_idx=[3, 4, 5])
def layernorm_fwd(N, D, eps=1e-5, blk=8, threads=128):
    @T.prim_func
    def main(X: T.Tensor([N, D], T.float16), W: T.Tensor([D], T.float16), B: T.Tensor([D], T.float16),
             Y: T.Tensor([N, D], T.float16), Mean: T.Tensor([N], T.float32), Rstd: T.Tensor([N], T.float32)):
        with T.Kernel(T.ceildiv(N, blk), threads=threads) as bx:
            x = T.alloc_shared([blk, D], T.float16)
            wide = T.alloc_fragment([blk, D], T.float32)
            centred = T.alloc_fragment([blk, D], T.float32)
            mean = T.alloc_fragment([blk], T.float32)
            rstd = T.alloc_fragment([blk], T.float32)
            T.copy(X[bx * blk, 0], x)
            for i, j in T.Parallel(blk, D):
                wide[i, j] = T.Cast(T.float32, x[i, j])
            T.reduce_sum(wide, mean, dim=1)
            for i in T.Parallel(blk):
                mean[i] = mean[i] / D
            for i, j in T.Parallel(blk, D):
                wide[i, j] -= mean[i]
                centred[i, j] = wide[i, j] * wide[i, j]
            T.reduce_sum(centred, rstd, dim=1)
            for i in T.Parallel(blk):
                rstd[i] = T.rsqrt(rstd[i] / D + eps)
            for i, j in T.Parallel(blk, D):
                x[i, j] = T.Cast(T.float16, wide[i, j] * rstd[i] * T.Cast(T.float32, W[j])
                                 + T.Cast(T.float32, B[j]))
            T.copy(x, Y[bx * blk, 0])
            T.copy(mean, Mean[bx * blk])
            T.copy(rstd, Rstd[bx * blk])

    return main


def inputs(rng):
    return {"X": 3 + 2 * rng.standard_normal((30, 192)), "W": rng.standard_normal(192),
            "B": rng.standard_normal(192)}


def reference(X, W, B):
    mean = X.mean(1)
    rstd = 1 / np.sqrt(X.var(1) + 1e-5)
    return {"Y": (X - mean[:, None]) * rstd[:, None] * W + B, "Mean": mean, "Rstd": rstd}
