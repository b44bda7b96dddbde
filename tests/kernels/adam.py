"""An optimizer's step in place: rates and counts are run-time scalars, four tensors in one loop."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "adam",
    "arguments": {"n": 1000},
    "runtime": {"rate": 0.01, "step": 3, "decay": 0.1},
    "types": {"param": "float32", "grad": "bfloat16", "m": "float32", "v": "float32"},
    "tolerance": 1e-5,
}


@tilelang.jit
def adam(param, grad, m, v, rate: T.float32, step: T.int32, decay: T.float32, beta1=0.9, beta2=0.99,
         eps=1e-8, block=256):
    n = T.const("n")
    param: T.Tensor[[n], T.float32]
    grad: T.Tensor[[n], T.bfloat16]
    m: T.Tensor[[n], T.float32]
    v: T.Tensor[[n], T.float32]

    with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
        for i in T.Parallel(block):
            at = bx * block + i
            if at < n:
                g = T.cast(grad[at], T.float32)
                m[at] = beta1 * m[at] + (1 - beta1) * g
                v[at] = beta2 * v[at] + (1 - beta2) * g * g
                first = m[at] / (1 - T.pow(beta1, T.cast(step, T.float32)))
                second = v[at] / (1 - T.pow(beta2, T.cast(step, T.float32)))
                param[at] -= rate * (first / (T.sqrt(second) + eps) + decay * param[at])


def inputs(rng):
    return {"param": rng.standard_normal(1000), "grad": rng.standard_normal(1000),
            "m": rng.standard_normal(1000), "v": rng.uniform(0.1, 1, 1000)}


def reference(param, grad, m, v):
    m = 0.9 * m + 0.1 * grad
    v = 0.99 * v + 0.01 * grad * grad
    step = m / (1 - 0.9 ** 3) / (np.sqrt(v / (1 - 0.99 ** 3)) + 1e-8)
    return {"param": param - 0.01 * (step + 0.1 * param), "m": m, "v": v}
