#: entry=topk tokens=256 experts=64 k=2
#: entry=grouped
"""Expert choice, and a grouped product whose groups are known to the host."""
import itertools

import tilelang
import tilelang.language as T

SIZES = (64, 128, 192)
OFFSETS = [0] + list(itertools.accumulate(SIZES)) if False else [0, 64, 192]


@tilelang.jit
def topk(logits, tokens, experts, k, block=64, threads=128):
    logits: T.Tensor([tokens, experts], "float32")
    weights = T.empty([tokens, k], "float32")
    chosen = T.empty([tokens, k], T.int32)
    with T.Kernel(T.ceildiv(tokens, block), threads=threads) as b:
        scores = T.alloc_fragment([block, experts], "float32")
        best = T.alloc_fragment([block], "float32")
        where = T.alloc_fragment([block, experts], "int32")
        index = T.alloc_fragment([block], "int32")
        T.copy(logits[b * block, 0], scores)
        for r in T.serial(k):
            T.fill(where, -1)
            T.reduce_max(scores, best, dim=1, clear=True)
            for i, j in T.Parallel(block, experts):
                where[i, j] = T.if_then_else(best[i] == scores[i, j], j, where[i, j])
            T.reduce_max(where, index, dim=1, clear=True)
            for i, j in T.Parallel(block, experts):
                scores[i, j] = T.if_then_else(index[i] == j, -10000.0, scores[i, j])
            for i in T.Parallel(block):
                weights[b * block + i, r] = best[i]
                chosen[b * block + i, r] = index[i]
    return weights, chosen


@tilelang.jit
def grouped(A, B, block_M=64, block_N=64, block_K=32):
    A: T.Tensor((sum(SIZES), 128), T.bfloat16)
    B: T.Tensor((len(SIZES), 128, 256), T.bfloat16)
    C = T.empty((sum(SIZES), 256), T.bfloat16)
    tiles = sum([(s + block_M - 1) // block_M for s in SIZES])
    with T.Kernel(tiles, 256 // block_N, threads=128) as (bx, by):
        A_s = T.alloc_shared((block_M, block_K), T.bfloat16)
        B_s = T.alloc_shared((block_K, block_N), T.bfloat16)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        group = T.alloc_var(T.int32, 0)
        start = T.alloc_var(T.int32, init=0)


        T.clear(acc)
        start = bx * block_M
        for k in T.Pipelined(4, num_stages=2):
            T.copy(A[start, k * block_K], A_s)
            T.copy(B[group, k * block_K:(k + 1) * block_K, by * block_N:(by + 1) * block_N], B_s)
            T.gemm(A_s, B_s, acc)
        T.copy(acc, C[start, by * block_N])
    return C
