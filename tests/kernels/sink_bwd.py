"""The gradient of attention's sinks: a row's share of the sink times minus its delta, summed over rows."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "dsink",
    "arguments": {"batch": 2, "heads": 3, "seq_len": 100},
    "types": {"Sinks": "float16", "Delta": "float32", "lse": "float32", "parts": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit(out_idx=-1)
def dsink(batch, heads, seq_len, block=64, dtype: T.dtype = T.float16):
    accum_dtype = T.float32
    shape = [batch, heads, seq_len]

    @T.prim_func
    def main(Sinks: T.Tensor([heads], dtype), Delta: T.Tensor(shape, accum_dtype),
             lse: T.Tensor(shape, accum_dtype), parts: T.Tensor(shape, dtype)):
        with T.Kernel(heads, T.ceildiv(seq_len, block), batch, threads=64) as (bx, by, bz):
            sink = T.alloc_local([1], dtype)
            lse_fragment = T.alloc_fragment([block], accum_dtype)
            delta_fragment = T.alloc_fragment([block], accum_dtype)
            out_fragment = T.alloc_fragment([block], dtype)
            sink[0] = Sinks[bx]
            T.copy(lse[bz, bx, by * block:(by + 1) * block], lse_fragment)
            T.copy(Delta[bz, bx, by * block:(by + 1) * block], delta_fragment)
            for i in T.Parallel(block):
                out_fragment[i] = (-T.exp2(sink[0] * 1.44269504 - lse_fragment[i]) * delta_fragment[i])
            T.copy(out_fragment, parts[bz, bx, by * block:(by + 1) * block])

    return main


def inputs(rng):
    return {"Sinks": rng.standard_normal(3), "Delta": rng.standard_normal((2, 3, 100)),
            "lse": rng.uniform(0, 4, (2, 3, 100))}


def reference(Sinks, Delta, lse):
    return {"parts": -np.exp(Sinks)[None, :, None] * np.exp2(-lse) * Delta}
