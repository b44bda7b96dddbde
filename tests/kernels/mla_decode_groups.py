"""Multi-head latent decoding by three warpgroups in loops of their own: one fetches rows into a ring of two, one
computes scores and their softmax and the left half of the output, one the right half, from the scores and scales that
the other leaves in shared memory."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "mla_decode_groups",
    "arguments": {"heads": 64, "seqlen_kv": 320, "dim": 128, "pe_dim": 16, "block_N": 64, "block_H": 64,
                  "softmax_scale": 0.0834},
    "types": {"Q": "float16", "Q_pe": "float16", "KV": "float16", "K_pe": "float16", "Output": "float16"},
    "tolerance": 3e-3,
}


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def mla_decode_groups(heads, seqlen_kv, dim, pe_dim, block_N, block_H, softmax_scale):
    scale = float(softmax_scale * 1.44269504)
    half = dim // 2
    steps = T.ceildiv(seqlen_kv, block_N)
    dtype = "float16"
    accum_dtype = "float32"

    @T.prim_func
    def main(Q: T.Tensor((heads, dim), dtype), Q_pe: T.Tensor((heads, pe_dim), dtype),
             KV: T.Tensor((seqlen_kv, dim), dtype), K_pe: T.Tensor((seqlen_kv, pe_dim), dtype),
             Output: T.Tensor((heads, dim), dtype)):
        with T.Kernel(heads // block_H, threads=384) as hid:
            q = T.alloc_shared((block_H, dim), dtype)
            q_pe = T.alloc_shared((block_H, pe_dim), dtype)
            kv = T.alloc_shared((2, block_N, dim), dtype)
            k_pe = T.alloc_shared((2, block_N, pe_dim), dtype)
            p = T.alloc_shared((block_H, block_N), dtype)
            rescale = T.alloc_shared((block_H,), accum_dtype)
            total = T.alloc_shared((block_H,), accum_dtype)
            q_here = T.alloc_barrier(arrive_count=384)
            full = T.alloc_barrier(arrive_count=[128, 128])
            free = T.alloc_barrier(arrive_count=[256, 256])
            p_here = T.alloc_barrier(arrive_count=128)
            p_used = T.alloc_barrier(arrive_count=128)
            total_here = T.alloc_barrier(arrive_count=128)
            tx = T.get_thread_binding()
            T.copy(Q[hid * block_H, 0], q)
            T.copy(Q_pe[hid * block_H, 0], q_pe)
            T.barrier_arrive(q_here)
            if tx < 128:
                T.set_max_nreg(240, 1)
                s = T.alloc_fragment((block_H, block_N), accum_dtype)
                left = T.alloc_fragment((block_H, half), accum_dtype)
                top = T.alloc_fragment((block_H,), accum_dtype)
                before = T.alloc_fragment((block_H,), accum_dtype)
                alpha = T.alloc_fragment((block_H,), accum_dtype)
                row = T.alloc_fragment((block_H,), accum_dtype)
                row_sum = T.alloc_fragment((block_H,), accum_dtype)
                T.clear(left)
                T.clear(row_sum)
                T.fill(top, -T.infinity(accum_dtype))
                T.barrier_wait(q_here, 0)
                for k in T.serial(steps):
                    T.barrier_wait(full[k % 2], (k // 2) % 2)
                    T.clear(s)
                    T.wgmma_gemm(q, kv[k % 2, :, :], s, transpose_B=True)
                    T.wgmma_gemm(q_pe, k_pe[k % 2, :, :], s, transpose_B=True)
                    T.wait_wgmma(0)
                    T.copy(top, before)
                    T.reduce_max(s, top, dim=1, clear=False)
                    for i in T.Parallel(block_H):
                        alpha[i] = T.exp2((before[i] - top[i]) * scale)
                    for i, j in T.Parallel(block_H, block_N):
                        s[i, j] = T.exp2((s[i, j] - top[i]) * scale)
                    T.reduce_sum(s, row, dim=1)
                    for i in T.Parallel(block_H):
                        row_sum[i] = row_sum[i] * alpha[i] + row[i]
                    for i, j in T.Parallel(block_H, half):
                        left[i, j] *= alpha[i]
                    if k > 0:
                        T.barrier_wait(p_used, (k - 1) % 2)
                    T.copy(alpha, rescale)
                    T.copy(s, p)
                    T.barrier_arrive(p_here)
                    T.gemm(p, kv[k % 2, :, :half], left)
                    T.barrier_arrive(free[k % 2])
                T.copy(row_sum, total)
                T.barrier_arrive(total_here)
                for i, j in T.Parallel(block_H, half):
                    left[i, j] /= row_sum[i]
                T.copy(left, Output[hid * block_H, 0])
            elif tx < 256:
                T.set_max_nreg(168, 1)
                right = T.alloc_fragment((block_H, half), accum_dtype)
                T.clear(right)
                for k in T.serial(steps):
                    T.barrier_wait(p_here, k % 2)
                    for i, j in T.Parallel(block_H, half):
                        right[i, j] *= rescale[i]
                    T.gemm(p, kv[k % 2, :, half:], right)
                    T.barrier_arrive(free[k % 2])
                    if k < steps - 1:
                        T.barrier_arrive(p_used)
                T.barrier_wait(total_here, 0)
                for i, j in T.Parallel(block_H, half):
                    right[i, j] /= total[i]
                T.copy(right, Output[hid * block_H, half])
            else:
                T.set_max_nreg(80, 0)
                for k in T.serial(steps):
                    T.barrier_wait(free[k % 2], (k // 2) % 2 ^ 1)
                    T.tma_copy(KV[k * block_N, 0], kv[k % 2, :, :], barrier=full[k % 2])
                    T.tma_copy(K_pe[k * block_N, 0], k_pe[k % 2, :, :], barrier=full[k % 2])
                    T.barrier_arrive(full[k % 2])

    return main


def inputs(rng):
    return {"Q": rng.standard_normal((64, 128)), "Q_pe": rng.standard_normal((64, 16)),
            "KV": rng.standard_normal((320, 128)), "K_pe": rng.standard_normal((320, 16))}


def reference(Q, Q_pe, KV, K_pe):
    p = np.exp(np.concatenate([Q, Q_pe], -1) @ np.concatenate([KV, K_pe], -1).T * 0.0834)
    return {"Output": p / p.sum(-1, keepdims=True) @ KV}
