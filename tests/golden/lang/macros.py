#: entry=collatz n=5
#: entry=collatz n=1
#: entry=references
#: entry=apply fn=add_one A_shape_0=16 A_dtype=float16
#: entry=apply fn=twice A_shape_0=16 A_dtype=float32
#: entry=several
"""Macros: references, recursion that ends at compile time, functions as arguments."""
from typing import Any

import tilelang
import tilelang.language as T


@T.macro
def step(x, var: T.Ref):
    if x == 1:
        pass
    elif x % 2 == 0:
        var = var // 2
        step(x // 2, var)
    else:
        var = var * 3 + 1
        step(x * 3 + 1, var)


@tilelang.lazy_jit
def collatz(A: T.Tensor[[1], T.int32], n: int):
    with T.Kernel(1) as _:
        step(n, A[0])


@T.macro
def set_one(x: T.Ref):
    x = 1  # noqa: F841


@T.prim_func
def references(x: T.Tensor((4,))):
    with T.Kernel(1) as _:
        set_one(x[1])
        idx = T.alloc_var(T.int32, 0)
        set_one(x[idx])
        set_one(idx)
        x[idx] += 2


@tilelang.lazy_jit
def apply(A: T.Tensor[[int], Any], fn):
    (N,) = A.shape
    B = T.empty((N,), dtype=A.dtype)
    with T.Kernel(T.ceildiv(N, 8), threads=32) as bx:
        for i in T.Parallel(8):
            at = bx * 8 + i
            B[at] = fn(A[at])
    return B


@T.macro
def add_one(x):
    return x + 1


twice = lambda x: x + x


@T.macro
def sincos(x):
    return T.sin(x), T.cos(x)


@T.macro
def unrolled(A, i, n):
    if i < n:
        A[i] = i
        unrolled(A, i + 1, n)


@T.prim_func
def several(A: T.Tensor((8,), "float32")):
    with T.Kernel(2) as x:
        s, c = sincos(A[x])
        A[x] = s + c
        A[x + 2] = s - c
        A[0], A[1] = A[1], A[0]
        a, b = A[4], A[5]
        a, b = b, a
        A[4] = a
        A[5] = b
        unrolled(A, 6, 8)
