"""C = A B where of each four neighbours of a row of A two at most are not zero: A comes as those two, and as
where they stand."""
import tilelang
import tilelang.language as T
from tilelang.cuda.intrinsics.sparse_layout import get_e_factor

KERNEL = {
    "entry": "gemm_sparse",
    "arguments": {"M": 72, "N": 80, "K": 192},
    "types": {"A": "float16", "E": "int16", "B": "float16", "C": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit(out_idx=[-1])
def gemm_sparse(M, N, K, block_M=32, block_N=64, block_K=64, num_stages=2, threads=128):
    per = get_e_factor(T.float16, T.int16)

    @T.prim_func
    def main(A: T.Tensor((M, K // 2), T.float16), E: T.Tensor((M, K // per), T.int16),
             B: T.Tensor((K, N), T.float16), C: T.Tensor((M, N), T.float16)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K // 2), T.float16)
            E_shared = T.alloc_shared((block_M, block_K // per), T.int16)
            B_shared = T.alloc_shared((block_K, block_N), T.float16)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K // 2], A_shared)
                T.copy(E[by * block_M, k * block_K // per], E_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm_sp(A_shared, E_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


PAIRS = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])


def inputs(rng):
    picked = PAIRS[rng.integers(0, 6, (72, 48))]
    groups = picked[..., 0] | picked[..., 1] << 2
    words = (groups.reshape(72, 12, 4) << np.arange(0, 16, 4)).sum(-1)
    kept = rng.standard_normal((72, 96)) * (rng.random((72, 96)) < 0.8)
    return {"A": kept, "E": words.astype(np.uint16).view(np.int16), "B": rng.standard_normal((192, 80))}


def reference(A, E, B):
    groups = (E.astype(np.uint16)[..., None] >> np.arange(0, 16, 4) & 15).reshape(72, 48)
    dense = np.zeros((72, 48, 4))
    kept = A.reshape(72, 48, 2)
    np.put_along_axis(dense, (groups & 3)[..., None], kept[..., :1], -1)
    np.put_along_axis(dense, (groups >> 2)[..., None], kept[..., 1:], -1)
    return {"C": dense.reshape(72, 192) @ B}
