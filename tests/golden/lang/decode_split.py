#: heads=16 length=1024 dim=64 splits=4
"""Decoding attention in two launches: partial results a split, then their combination."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def decode(heads, length, dim, splits, block_N=64, block_H=16):
    chunk = length // splits
    scale = dim ** -0.5 * 1.44269504

    @T.prim_func
    def main(Q: T.Tensor([heads, dim], "float16"), K: T.Tensor([length, dim], "float16"),
             V: T.Tensor([length, dim], "float16"), Out: T.Tensor([heads, dim], "float16")):
        partial = T.alloc_global([splits, heads, dim], "float32")
        lse = T.alloc_global([splits, heads], "float32")
        with T.Kernel(heads // block_H, splits, threads=128) as (hb, sp):
            Q_s = T.alloc_shared([block_H, dim], "float16")
            K_s = T.alloc_shared([block_N, dim], "float16")
            acc_s = T.alloc_fragment([block_H, block_N], "float32")
            P_s = T.alloc_shared([block_H, block_N], "float16")
            acc_o = T.alloc_fragment([block_H, dim], "float32")
            top = T.alloc_fragment([block_H], "float32")
            old = T.alloc_fragment([block_H], "float32")
            total = T.alloc_fragment([block_H], "float32")
            part = T.alloc_fragment([block_H], "float32")
            T.copy(Q[hb * block_H, 0], Q_s)
            T.clear(acc_o)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            for k in T.Pipelined(chunk // block_N, num_stages=2):
                first = sp * chunk + k * block_N
                T.copy(K[first:first + block_N, :], K_s)
                T.gemm(Q_s, K_s, acc_s, transpose_B=True, clear_accum=True)
                T.copy(top, old)
                T.reduce_max(acc_s, top, dim=1, clear=False)
                for i, j in T.Parallel(block_H, block_N):
                    acc_s[i, j] = T.exp2((acc_s[i, j] - top[i]) * scale)
                T.reduce_sum(acc_s, part, dim=1)
                T.copy(acc_s, P_s)
                for i in T.Parallel(block_H):
                    total[i] = total[i] * T.exp2((old[i] - top[i]) * scale) + part[i]
                for i, j in T.Parallel(block_H, dim):
                    acc_o[i, j] *= T.exp2((old[i] - top[i]) * scale)
                T.copy(V[first, 0], K_s)
                T.gemm(P_s, K_s, acc_o)
            for i, j in T.Parallel(block_H, dim):
                partial[sp, hb * block_H + i, j] = acc_o[i, j] / total[i]
            for i in T.Parallel(block_H):
                lse[sp, hb * block_H + i] = T.log2(total[i]) + top[i] * scale
        with T.Kernel(heads, threads=dim) as h:
            row = T.alloc_fragment([dim], "float32")
            most = T.alloc_var("float32", init=-T.infinity("float32"))
            weight = T.alloc_var("float32")
            weight = 0.0
            T.clear(row)
            for s in T.serial(splits):
                most = T.max(most, lse[s, h])
            for s in range(splits):
                w = T.exp2(lse[s, h] - most)
                weight += w
                for j in T.Parallel(dim):
                    row[j] += partial[s, h, j] * w
            for j in T.Parallel(dim):
                row[j] = row[j] / weight
            T.copy(row, Out[h, :])

    return main
