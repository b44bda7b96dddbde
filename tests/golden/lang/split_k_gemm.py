#: M=256 N=256 K=1024
#: M=256 N=256 K=1024 split=2 use_tile=False
#: M=256 N=256 K=1024 open:block_M,block_N,block_K,threads
import tilelang
from tilelang import language as T


@tilelang.jit
def split_k(A, B, C, block_M=64, block_N=64, block_K=32, split=4, threads=128, use_tile=True):
    M, N, K = T.const("M, N, K")
    A: T.Tensor[[M, K], T.float16]
    B: T.Tensor[(K, N), T.float16]
    C: T.Tensor[[M, N], T.float32]
    per_split = T.ceildiv(K, split)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split, threads=threads) as (bx, by, bz):
        A_s = T.alloc_shared((block_M, block_K), T.float16)
        B_s = T.alloc_shared((block_K, block_N), T.float16)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(acc)
        for ko in T.Pipelined(T.ceildiv(per_split, block_K), num_stages=3):
            T.copy(A[by * block_M, bz * per_split + ko * block_K], A_s)
            T.copy(B[bz * per_split + ko * block_K, bx * block_N], B_s)
            T.gemm(A_s, B_s, acc)
        if use_tile:
            stage = T.alloc_shared((block_M, block_N), T.float32)
            T.copy(acc, stage)
            T.atomic_add(C[by * block_M, bx * block_N], stage)
        else:
            for i, j in T.Parallel(block_M, block_N):
                T.atomic_add(C[by * block_M + i, bx * block_N + j], acc[i, j])
