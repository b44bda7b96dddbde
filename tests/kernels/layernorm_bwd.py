"""Layer norm backward: dX by rows; dW and dB summed over a block's rows, then over blocks by atomic adds."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "layernorm_bwd",
    "arguments": {"N": 26, "D": 96},
    "types": {"dY": "float32", "X": "float32", "W": "float32", "Mean": "float32", "Rstd": "float32",
              "dX": "float32", "dW": "float32", "dB": "float32"},
    "tolerance": 1e-4,
}


@tilelang.jit(out_idx=[5])
def layernorm_bwd(N, D, blk=8, threads=64):
    dtype = T.float32

    @T.prim_func
    def main(dY: T.Tensor([N, D], dtype), X: T.Tensor([N, D], dtype), W: T.Tensor([D], dtype),
             Mean: T.Tensor([N], dtype), Rstd: T.Tensor([N], dtype), dX: T.Tensor([N, D], dtype),
             dW: T.Tensor([D], dtype), dB: T.Tensor([D], dtype)):
        with T.Kernel(T.ceildiv(N, blk), threads=threads) as bx:
            dy = T.alloc_fragment([blk, D], dtype)
            xhat = T.alloc_fragment([blk, D], dtype)
            prod = T.alloc_fragment([blk, D], dtype)
            c1 = T.alloc_fragment([blk], dtype)
            c2 = T.alloc_fragment([blk], dtype)
            dw = T.alloc_fragment([D], dtype)
            db = T.alloc_fragment([D], dtype)
            T.copy(dY[bx * blk, 0], dy)
            for i, j in T.Parallel(blk, D):
                xhat[i, j] = (X[bx * blk + i, j] - Mean[bx * blk + i]) * Rstd[bx * blk + i]
            for i, j in T.Parallel(blk, D):
                prod[i, j] = T.if_then_else(bx * blk + i < N, dy[i, j] * xhat[i, j], 0)
            T.reduce_sum(prod, dw, dim=0)
            T.reduce_sum(dy, db, dim=0)
            for j in T.Parallel(D):
                T.atomic_add(dW[j], dw[j])
                T.atomic_add(dB[j], db[j])
            for i, j in T.Parallel(blk, D):
                dy[i, j] *= W[j]
                prod[i, j] = dy[i, j] * xhat[i, j]
            T.reduce_sum(dy, c1, dim=1)
            T.reduce_sum(prod, c2, dim=1)
            for i, j in T.Parallel(blk, D):
                if bx * blk + i < N:
                    dX[bx * blk + i, j] = (dy[i, j] - (c1[i] + xhat[i, j] * c2[i]) / D) * Rstd[bx * blk + i]

    return main


def inputs(rng):
    X = 1 + rng.standard_normal((26, 96))
    return {"dY": rng.standard_normal((26, 96)), "X": X, "W": rng.standard_normal(96), "Mean": X.mean(1),
            "Rstd": 1 / np.sqrt(X.var(1) + 1e-5), "dW": np.zeros(96), "dB": np.zeros(96)}


def reference(dY, X, W, Mean, Rstd, dW, dB):
    xhat = (X - Mean[:, None]) * Rstd[:, None]
    g = dY * W
    dx = (g - g.mean(1, keepdims=True) - xhat * (g * xhat).mean(1, keepdims=True)) * Rstd[:, None]
    return {"dX": dx, "dW": (dY * xhat).sum(0), "dB": dY.sum(0)}
