"""Attention with queries and keys in int8 and a scale a block: integer products, float softmax."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "sage",
    "arguments": {"batch": 1, "heads": 2, "seq": 96, "dim": 64, "block": 32},
    "types": {"Q": "int8", "K": "int8", "V": "float16", "q_scale": "float32", "k_scale": "float32",
              "O": "float16"},
    "tolerance": 3e-3,
}


@tilelang.jit(out_idx=[-1])
def sage(batch, heads, seq, dim, block):
    blocks = (seq + block - 1) // block
    shape = (batch, heads, seq, dim)

    @T.prim_func
    def main(Q: T.Tensor(shape, "int8"), K: T.Tensor(shape, "int8"), V: T.Tensor(shape, "float16"),
             q_scale: T.Tensor((batch, heads, blocks), "float32"),
             k_scale: T.Tensor((batch, heads, blocks), "float32"), O: T.Tensor(shape, "float16")):
        with T.Kernel(blocks, heads, batch, threads=64) as (bx, by, bz):
            q = T.alloc_shared((block, dim), "int8")
            k = T.alloc_shared((block, dim), "int8")
            v = T.alloc_shared((block, dim), "float16")
            raw = T.alloc_fragment((block, block), "int32")
            s = T.alloc_fragment((block, block), "float32")
            p = T.alloc_fragment((block, block), "float16")
            o = T.alloc_fragment((block, dim), "float32")
            top = T.alloc_fragment((block,), "float32")
            old = T.alloc_fragment((block,), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(Q[bz, by, bx * block:(bx + 1) * block, :], q)
            T.fill(top, -1e30)
            T.clear(total)
            T.clear(o)
            mine = q_scale[bz, by, bx] * 1.44269504
            for n in T.Pipelined(blocks, num_stages=2):
                T.copy(K[bz, by, n * block:(n + 1) * block, :], k)
                T.copy(V[bz, by, n * block:(n + 1) * block, :], v)
                T.clear(raw)
                T.gemm(q, k, raw, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                both = mine * k_scale[bz, by, n]
                for i, j in T.Parallel(block, block):
                    s[i, j] = T.cast(raw[i, j], "float32") * both
                T.copy(top, old)
                T.reduce_max(s, top, dim=1, clear=False)
                for i, j in T.Parallel(block, block):
                    s[i, j] = T.exp2(s[i, j] - top[i])
                for i in T.Parallel(block):
                    total[i] = total[i] * T.exp2(old[i] - top[i])
                T.reduce_sum(s, total, dim=1, clear=False)
                for i, j in T.Parallel(block, dim):
                    o[i, j] *= T.exp2(old[i] - top[i])
                T.copy(s, p)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block, dim):
                o[i, j] /= total[i]
            T.copy(o, O[bz, by, bx * block:(bx + 1) * block, :])

    return main


def inputs(rng):
    shape = (1, 2, 96, 64)
    return {"Q": rng.integers(-127, 128, shape), "K": rng.integers(-127, 128, shape),
            "V": rng.standard_normal(shape), "q_scale": rng.uniform(0.001, 0.002, (1, 2, 3)),
            "k_scale": rng.uniform(0.001, 0.002, (1, 2, 3))}


def reference(Q, K, V, q_scale, k_scale):
    s = (Q * np.repeat(q_scale, 32, 2)[..., None]) @ (K * np.repeat(k_scale, 32, 2)[..., None]).swapaxes(2, 3)
    p = np.exp(s - s.max(-1, keepdims=True))
    return {"O": p / p.sum(-1, keepdims=True) @ V}
