#: entry=gemm_ptr M=128 N=256 K=64
#: entry=gemm_dynamic
#: entry=contiguous A_dtype=float32
#: entry=gemm_dyn_K A_shape_0=128 B_shape_1=256
"""Pointers with a shape given in the body, run-time sizes and strides."""
from typing import Any

import tilelang
import tilelang.language as T


@T.macro
def gemm_impl(A, B, C, M, N, K, block_M, block_N, block_K):
    with T.Kernel(T.ceildiv(M, block_M), T.ceildiv(N, block_N), threads=128) as (bx, by):
        A_s = T.alloc_shared((block_M, block_K), A.dtype)
        B_s = T.alloc_shared((block_K, block_N), B.dtype)
        acc = T.alloc_fragment((block_M, block_N), C.dtype)
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[bx * block_M, k * block_K], A_s)
            T.copy(B[k * block_K, by * block_N], B_s)
            T.gemm(A_s, B_s, acc)
        T.copy(acc, C[bx * block_M, by * block_N])


@tilelang.lazy_jit
def gemm_ptr(A: T.ptr, B: T.ptr, M: int, N: int, K: int):
    A = T.match_buffer(A, (M, K), T.float16)
    B = T.match_buffer(B, (K, N), T.float16)
    C = T.empty((M, N), T.float32)
    gemm_impl(A, B, C, M, N, K, block_M=64, block_N=64, block_K=32)
    return C


@tilelang.lazy_jit
def gemm_dynamic(A: T.ptr, B: T.ptr, M: T.int32, N: T.int32, K: T.int32):
    A = T.match_buffer(A, (M, K), T.float16, strides=(K, 1))
    B = T.match_buffer(B, (K, N), T.float16, strides=(N, 1))
    C = T.empty((M, N), T.float32)
    gemm_impl(A, B, C, M, N, K, block_M=64, block_N=64, block_K=32)
    return C


@tilelang.lazy_jit
def contiguous(A: T.StridedTensor[[T.dyn, T.dyn], [T.dyn, T.dyn], Any]):
    M, N = A.shape
    B = T.empty((M, N), A.dtype)
    with T.Kernel(T.ceildiv(M, 32), T.ceildiv(N, 32), threads=128) as (bx, by):
        T.copy(A[bx * 32:(bx + 1) * 32, by * 32:(by + 1) * 32],
               B[bx * 32:(bx + 1) * 32, by * 32:(by + 1) * 32])
    return B


@tilelang.lazy_jit
def gemm_dyn_K(A: T.Tensor[[int, T.dyn["K"]], T.float16], B: T.Tensor[[T.dyn["K"], int], T.float16]):
    M, K = A.shape
    K, N = B.shape
    C = T.empty((M, N), T.float32)
    gemm_impl(A, B, C, M, N, K, 64, 64, 32)
    return C
