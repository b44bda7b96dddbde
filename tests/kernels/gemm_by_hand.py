"""Products that every thread of a warp makes a part of, with the operands in registers as mma.sync has them: of
float16 by tiles of 8 columns, through shared memory; of int8 by tiles of 16, A by columns, straight to C."""
import tilelang
import tilelang.language as T
from tilelang.cuda.intrinsics import get_swizzle_layout
from tilelang.cuda.intrinsics.macro.mma_macro_generator import TensorCoreIntrinEmitter

KERNEL = {
    "types": {"A": "float16", "B": "float16", "C": "float16", "P": "int8", "Q": "int8", "R": "int32"},
    "tolerance": {"C": 2e-3, "R": 0},
    "launches": [{"entry": "halves", "inputs": ["A", "B"], "outputs": ["C"]},
                 {"entry": "bytes_by_columns", "inputs": ["P", "Q"], "outputs": ["R"]}],
}


def turned(tile):
    return T.Layout(tile.shape, lambda i, j: list(get_swizzle_layout(i, j, tile.shape[1], tile.dtype)))


@tilelang.jit
def halves(A, B, M=96, N=80, K=64):
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    C = T.empty((M, N), T.float16)
    emit = TensorCoreIntrinEmitter(a_dtype=T.float16, b_dtype=T.float16, accum_dtype=T.float32, b_transposed=True,
                                   block_row_warps=2, block_col_warps=1, warp_row_tiles=16, warp_col_tiles=40,
                                   chunk=32)
    with T.Kernel(T.ceildiv(N, 40), T.ceildiv(M, 32), threads=64) as (bx, by):
        a = T.alloc_shared((32, 32), T.float16)
        b = T.alloc_shared((40, 32), T.float16)
        c = T.alloc_shared((2, 5, 16, 8), T.float16)
        A_local = T.alloc_local((emit.warp_rows * emit.local_size_a), T.float16)
        B_local = T.alloc_local((emit.warp_cols * emit.local_size_b), T.float16)
        C_local = T.alloc_local((emit.warp_rows * emit.warp_cols * emit.local_size_out), T.float32)
        T.annotate_layout({a: turned(a), b: turned(b)})
        T.clear(C_local)
        for ko in T.Pipelined(K // 32, num_stages=2):
            T.copy(A[by * 32, ko * 32], a)
            T.copy(B[bx * 40, ko * 32], b)
            for ki in T.serial(32 // emit.k_dim):
                emit.ldmatrix_a(A_local, a, ki)
                emit.ldmatrix_b(B_local, b, ki)
                emit.mma(A_local, B_local, C_local)
        emit.stmatrix(C_local, c)
        for i, j in T.Parallel(32, 40):
            C[by * 32 + i, bx * 40 + j] = c[i // 16, j // 8, i % 16, j % 8]
    return C


@tilelang.jit
def bytes_by_columns(P, Q, M=64, N=64, K=64):
    P: T.Tensor((K, M), T.int8)
    Q: T.Tensor((K, N), T.int8)
    R = T.empty((M, N), T.int32)
    emit = TensorCoreIntrinEmitter(T.int8, T.int8, T.int32, True, False, 1, 2, 32, 32, 64, is_m_first=True)
    with T.Kernel(N // 64, M // 32, threads=emit.threads) as (bx, by):
        p = T.alloc_shared((64, 32), T.int8)
        q = T.alloc_shared((64, 64), T.int8)
        P_local = T.alloc_local((emit.warp_rows * emit.local_size_a), T.int8)
        Q_local = T.alloc_local((emit.warp_cols * emit.local_size_b), T.int8)
        R_local = T.alloc_local((emit.warp_rows * emit.warp_cols * emit.local_size_out), T.int32)
        T.copy(P[0, by * 32], p)
        T.copy(Q[0, bx * 64], q)
        T.clear(R_local)
        for ki in T.serial(64 // emit.k_dim):
            emit.ldmatrix_a(P_local, p, ki)
            emit.ldmatrix_b(Q_local, q, ki)
            for i in T.serial(emit.mma_num_inst_m):
                for j in T.serial(emit.mma_num_inst_n):
                    emit.mma_atom(P_local, Q_local, R_local, i, j)
        emit.stmatrix(R_local, R, pid_m=by, pid_n=bx)
    return R


def inputs(rng):
    return {"A": rng.standard_normal((96, 64)), "B": rng.standard_normal((80, 64)),
            "P": rng.integers(-128, 128, (64, 64)), "Q": rng.integers(-128, 128, (64, 64))}


def reference(A, B, P, Q):
    return {"C": A @ B.T, "R": P.T @ Q}
