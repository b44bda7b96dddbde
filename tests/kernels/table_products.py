"""Products of matrices that lie apart, of which the call gives the addresses: which pair a block multiplies it
looks up, and the last rows of a product are cut off. A second table holds a row of shifts a pair."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "table_products.kernel",
    "arguments": {"pairs": 3, "M": 40, "N": 50, "K": 70},
    "types": {"which": "int32", "left": "float16", "right": "float16", "shift": "float32",
              "product": "float32"},
    "tolerance": 2e-3,
}


def table_products(pairs, M, N, K, block_M=32, block_N=32, block_K=32):
    @T.prim_func
    def kernel(
        which: T.Tensor([pairs], T.int32),
        left: T.Tensor([pairs], T.ptr),
        right: T.Tensor([pairs], T.ptr),
        shift: T.Tensor([pairs], T.ptr),
        product: T.Tensor([pairs], T.ptr),
    ):
        with T.Kernel(pairs, T.ceildiv(M, block_M), T.ceildiv(N, block_N), threads=128) as (pair, bm, bn):
            a = T.alloc_shared((block_M, block_K), T.float16)
            b = T.alloc_shared((block_K, block_N), T.float16)
            c = T.alloc_fragment((block_M, block_N), T.float32)
            at = T.alloc_var(T.int32)
            at = which[pair]
            A = T.make_tensor(left[at], (M, K), T.float16)
            B = T.make_tensor(right[at], (K, N), T.float16)
            S = T.make_tensor(shift[pair], (N,), T.float32)
            at = 0  # of no meaning for A and B, which are named
            C = T.make_tensor(product[pair], (M, N), T.float32)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[bm * block_M, k * block_K], a)
                T.copy(B[k * block_K, bn * block_N], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(block_M, block_N):
                if bm * block_M + i < M - 3:
                    C[bm * block_M + i, bn * block_N + j] = c[i, j] + S[bn * block_N + j]

    return kernel


def inputs(rng):
    return {"which": np.array([2, 0, 1]), "left": rng.standard_normal((3, 40, 70)),
            "right": rng.standard_normal((3, 70, 50)), "shift": rng.standard_normal((3, 50)),
            "product": np.full((3, 40, 50), 7.0)}


def reference(which, left, right, shift, product):
    product[:, :37] = (left[which] @ right[which] + shift[:, None])[:, :37]
    return {"product": product}
