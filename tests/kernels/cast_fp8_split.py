"""Rows that belong to groups of several sizes, to float8 in a tensor with room for each group: the rows that a group
does not have become zero."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "split_cast",
    "arguments": {"M": 24, "N": 128, "BG": 2, "M_max": 16, "blk_m": 8},
    "types": {"X": "bfloat16", "batch_sizes": "int32", "X_fp8": "float8_e5m2", "X_amax": "float32"},
    "tolerance": {"X_fp8": 0, "X_amax": 1e-6},
}


@tilelang.jit(out_idx=[2, 3])
def split_cast(M, N, BG, M_max, blk_m=8):
    accum_dtype = T.float32
    group_size = 64
    top = 57344.0

    @T.prim_func
    def main(X: T.Tensor((M, N), T.bfloat16), batch_sizes: T.Tensor((BG,), T.int32),
             X_fp8: T.Tensor((BG, M_max, N), T.float8_e5m2),
             X_amax: T.Tensor((BG, M_max, T.ceildiv(N, group_size)), accum_dtype)):
        with T.Kernel(T.ceildiv(M_max, blk_m), T.ceildiv(N, group_size), BG, threads=64) as (bx, by, bg):
            row, col = bx, by
            y = T.alloc_fragment((blk_m, group_size), accum_dtype)
            amax = T.alloc_fragment((blk_m,), accum_dtype)
            scale = T.alloc_fragment((blk_m,), accum_dtype)
            q = T.alloc_fragment((blk_m, group_size), accum_dtype)
            q8 = T.alloc_fragment((blk_m, group_size), T.float8_e5m2)
            row_offset = T.alloc_var(dtype=T.int32)
            row_offset = 0
            for i in T.serial(bg):
                row_offset += batch_sizes[i]
            for i, j in T.Parallel(blk_m, group_size):
                y[i, j] = T.if_then_else(row * blk_m + i < batch_sizes[bg],
                                         X[row_offset + row * blk_m + i, col * group_size + j], 0)
            T.reduce_absmax(y, amax, dim=1)
            for i in T.Parallel(blk_m):
                amax[i] = T.max(amax[i], 1e-4)
                scale[i] = T.if_then_else(row * blk_m + i < batch_sizes[bg], amax[i] / top, 0)
            for i, j in T.Parallel(blk_m, group_size):
                q[i, j] = T.clamp(y[i, j] / T.max(scale[i], 1e-30), -top, top)
            T.copy(q, q8)
            T.copy(q8, X_fp8[bg, row * blk_m:(row + 1) * blk_m, col * group_size:(col + 1) * group_size])
            for i in T.Parallel(blk_m):
                X_amax[bg, row * blk_m + i, col] = scale[i]

    return main


def inputs(rng):
    return {"X": rng.standard_normal((24, 128)), "batch_sizes": np.array([9, 15])}


def reference(X, batch_sizes):
    rows = np.zeros((2, 16, 2, 64), np.float32)
    rows[0, :9], rows[1, :15] = X[:9].reshape(9, 2, 64), X[9:].reshape(15, 2, 64)
    scale = np.abs(rows).max(-1) / np.float32(57344)
    quotient = rows / np.maximum(scale, np.float32(1e-30))[..., None]
    return {"X_fp8": round_to(quotient, "float8_e5m2").reshape(2, 16, 128), "X_amax": scale}
