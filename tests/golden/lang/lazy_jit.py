#: entry=product A_shape_0=192 A_shape_1=96 B_shape_0=96 B_shape_1=80
#: entry=product A_shape_0=192 A_shape_1=96 B_shape_0=96 B_shape_1=80 block_M=64 block_N=64 out_dtype=float16
#: entry=product_any_depth A_shape_0=100 B_shape_1=72
#: entry=packed A_dtype=float32
#: entry=product_of_pointers M=100 N=72 K=50
#: entry=product_of_sizes
#: entry=mapped fn=plus_one A_dtype=float32
#: entry=mapped fn=squared_plus A_dtype=float16
#: entry=collatz n=5
#: entry=references
#: entry=waves
#: entry=waves_of_nothing
#: entry=dimensions A_shape_0=3 A_shape_1=4 A_shape_2=5 B_stride_0=12 B_dtype=int8
#: entry=listed A_shape_0=4
"""Kernels under lazy_jit: sizes, strides and types that the tensors of a call bring with them."""
from itertools import product as product_of_lists
from typing import Any

import tilelang
import tilelang.language as T


@tilelang.lazy_jit
def product(
    A: T.Tensor[[int, int], T.float16],
    B: T.Tensor[[int, int], T.float16],
    out_dtype: T.dtype = T.float32,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 32,
):
    M, K = A.shape
    K, N = B.shape
    C = T.empty((M, N), out_dtype)
    with T.Kernel(T.ceildiv(M, block_M), T.ceildiv(N, block_N), threads=128) as (row, col):
        left = T.alloc_shared((block_M, block_K), A.dtype)
        right = T.alloc_shared((block_K, block_N), B.dtype)
        total = T.alloc_fragment((block_M, block_N), out_dtype)
        T.clear(total)
        for step in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[row * block_M, step * block_K], left)
            T.copy(B[step * block_K, col * block_N], right)
            T.gemm(left, right, total)
        T.copy(total, C[row * block_M, col * block_N])
    return C


@T.macro
def multiply(A, B, C, M, N, K, block_M, block_N, block_K):
    with T.Kernel(T.ceildiv(M, block_M), T.ceildiv(N, block_N), threads=128) as (row, col):
        left = T.alloc_shared((block_M, block_K), A.dtype)
        right = T.alloc_shared((block_K, block_N), B.dtype)
        total = T.alloc_fragment((block_M, block_N), C.dtype)
        T.clear(total)
        for step in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[row * block_M, step * block_K], left)
            T.copy(B[step * block_K, col * block_N], right)
            T.gemm(left, right, total)
        T.copy(total, C[row * block_M, col * block_N])


@tilelang.lazy_jit
def product_any_depth(
    A: T.Tensor[[int, T.dyn["K"]], T.float16],
    B: T.Tensor[[T.dyn["K"], int], T.float16],
):
    M, K = A.shape
    K, N = B.shape
    C = T.empty((M, N), T.float32)
    multiply(A, B, C, M, N, K, 64, 64, 32)
    return C


@tilelang.lazy_jit
def packed(A: T.StridedTensor[[T.dyn, T.dyn], [T.dyn, T.dyn], Any]):
    M, N = A.shape
    B = T.empty((M, N), A.dtype)
    rows, cols = 32, 64
    with T.Kernel(T.ceildiv(M, rows), T.ceildiv(N, cols), threads=128) as (r, c):
        T.copy(
            A[r * rows : (r + 1) * rows, c * cols : (c + 1) * cols],
            B[r * rows : (r + 1) * rows, c * cols : (c + 1) * cols],
        )
    return B


@tilelang.lazy_jit
def product_of_pointers(A: T.ptr, B: T.ptr, M: int, N: int, K: int):
    A = T.match_buffer(A, (M, K), T.float16)
    B = T.match_buffer(B, (K, N), T.float16)
    C = T.empty((M, N), T.float32)
    multiply(A, B, C, M, N, K, block_M=64, block_N=64, block_K=32)
    return C


@tilelang.lazy_jit
def product_of_sizes(A: T.ptr, B: T.ptr, M: T.int32, N: T.int32, K: T.int32):
    A = T.match_buffer(A, (M, K), T.float16, strides=(K, 1))
    B = T.match_buffer(B, (K, N), T.float16, strides=(N, 1))
    C = T.empty((M, N), T.float32)
    multiply(A, B, C, M, N, K, block_M=64, block_N=64, block_K=32)
    return C


@T.macro
def plus_one(v):
    return v + 1


@T.macro
def squared_plus(v):
    w = v * v
    return w + v


@tilelang.lazy_jit
def mapped(A: T.Tensor[[T.dyn], Any], fn):
    (N,) = A.shape
    B = T.empty((N,), dtype=A.dtype)
    width = 128
    with T.Kernel(T.ceildiv(N, width), threads=128) as block:
        for i in T.Parallel(width):
            at = block * width + i
            B[at] = fn(A[at])
    return B


@T.macro
def step_of(x, v: T.Ref):
    if x == 1:
        pass
    elif x % 2 == 0:
        v = v // 2
        step_of(x // 2, v)
    else:
        v = v * 3 + 1
        step_of(x * 3 + 1, v)


@tilelang.lazy_jit
def collatz(A: T.Tensor[[1], T.int32], n: int):
    with T.Kernel(1) as _:
        step_of(n, A[0])


@T.macro
def become_one(x: T.Ref):
    x = 1  # noqa: F841


@T.prim_func
def references(x: T.Tensor((2,))):
    with T.Kernel(1) as _:
        become_one(x[1])
        at = T.alloc_var(T.int32, 0)
        become_one(x[at])


@T.macro
def both(x):
    return T.sin(x), T.cos(x)


@T.prim_func
def waves(y: T.Tensor((32, 2), "float32")):
    with T.Kernel(32) as block:
        s, c = both(block)
        up = s + c
        down = s - c
        y[block, 0] = up
        y[block, 1] = down


@T.prim_func
def waves_of_nothing():
    with T.Kernel(32) as block:
        s, c = both(block)
        up = s + c  # noqa: F841
        down = s - c  # noqa: F841


@tilelang.lazy_jit
def dimensions(
    A: T.Tensor[[int, Any, None, 8, T.dyn, T.dyn["K"], T.dyn[T.int64, "L"]], T.float32],
    B: T.StridedTensor[[T.dyn["K"], T.dyn[T.int64, "L"]], [int, 1], None],
):
    C = T.empty(A.shape, T.float32)
    with T.Kernel(1) as _:
        C[2, 3, 4, 7, 0, 0, 0] = A[2, 3, 4, 7, 0, 0, 0] + B[0, 0]
    return C


@tilelang.lazy_jit
def listed(A: T.Tensor[(int,), T.float32], factor: float = 2.0):
    (N,) = A.shape
    with T.Kernel(1) as _:
        for i in T.Parallel(N):
            A[i] = A[i] * factor


def sizes_of_listed():
    return [
        {"A": T.Tensor((n,), T.float32), "factor": n / 2} for (n,) in product_of_lists([4, 8], repeat=1)
    ]
