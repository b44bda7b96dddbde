"""Sums before each element of a row by doubling steps between two halves of a shared tile, in a while loop; rows carry
over from tile to tile."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "exclusive_sum",
    "arguments": {"M": 3, "N": 150},
    "types": {"x": "int32", "y": "int32"},
}


@tilelang.jit
def exclusive_sum(x, block: int = 64):
    M, N = T.const("M, N")
    x: T.Tensor((M, N), T.int32)
    y = T.empty((M, N), T.int32)

    with T.Kernel(M, threads=64) as m:
        both = T.alloc_shared((2, block), T.int32)
        carry = T.alloc_var(T.int32, init=0)
        step = T.alloc_var(T.int32)
        side = T.alloc_var(T.int32)
        for t in range(T.ceildiv(N, block)):
            for j in T.Parallel(block):
                both[0, j] = T.if_then_else(t * block + j < N, x[m, t * block + j], 0)
            side = 0
            step = 1
            while step < block:
                for j in T.Parallel(block):
                    both[1 - side, j] = both[side, j] + T.if_then_else(j >= step, both[side, T.max(j - step, 0)], 0)
                side = 1 - side
                step = step * 2
            for j in T.Parallel(block):
                if t * block + j < N:
                    y[m, t * block + j] = carry + both[side, j] - x[m, t * block + j]
            carry += both[side, block - 1]
    return y


def inputs(rng):
    return {"x": rng.integers(-100, 100, (3, 150))}


def reference(x):
    return {"y": x.cumsum(1) - x}
