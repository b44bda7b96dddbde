"""C[b] = act(scale * A[b] B[b]^T + bias): a batch of products with what follows them in networks.

B[b] is [K, N] without trans_B, A[b] is [K, M] with trans_A; int8 with accum_dtype int32."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def linear(M, N, K, batch=1, activation="none", scale=1.0, dtype="bfloat16", out_dtype="bfloat16",
           block_M=128, block_N=128, block_K=64, num_stages=3, threads=256,
           trans_A=False, trans_B=True, accum_dtype="float32"):
    assert activation in ("none", "relu", "gelu", "silu"), f"no activation is called {activation}"

    A_shape = (batch, K, M) if trans_A else (batch, M, K)
    B_shape = (batch, N, K) if trans_B else (batch, K, N)
    A_tile = (block_K, block_M) if trans_A else (block_M, block_K)
    B_tile = (block_N, block_K) if trans_B else (block_K, block_N)

    @T.prim_func
    def main(A: T.Tensor(A_shape, dtype), B: T.Tensor(B_shape, dtype),
             bias: T.Tensor((N,), "float32"), C: T.Tensor((batch, M, N), out_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), batch,
                      threads=threads) as (bx, by, bz):
            A_shared = T.alloc_shared(A_tile, dtype)
            B_shared = T.alloc_shared(B_tile, dtype)
            products = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(products)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                if trans_A:
                    T.copy(A[bz, k * block_K:(k + 1) * block_K, by * block_M:(by + 1) * block_M],
                           A_shared)
                else:
                    T.copy(A[bz, by * block_M:(by + 1) * block_M, k * block_K:(k + 1) * block_K],
                           A_shared)
                if trans_B:
                    T.copy(B[bz, bx * block_N:(bx + 1) * block_N, k * block_K:(k + 1) * block_K],
                           B_shared)
                else:
                    T.copy(B[bz, k * block_K:(k + 1) * block_K, bx * block_N:(bx + 1) * block_N],
                           B_shared)
                T.gemm(A_shared, B_shared, products, transpose_A=trans_A, transpose_B=trans_B)
            if accum_dtype == "float32":
                sums = products
            else:
                sums = T.alloc_fragment((block_M, block_N), "float32")
                T.copy(products, sums)
            for i, j in T.Parallel(block_M, block_N):
                sums[i, j] = sums[i, j] * scale + bias[bx * block_N + j]
            if activation == "relu":
                for i, j in T.Parallel(block_M, block_N):
                    sums[i, j] = T.max(sums[i, j], 0.0)
            if activation == "silu":
                for i, j in T.Parallel(block_M, block_N):
                    sums[i, j] = sums[i, j] * T.sigmoid(sums[i, j])
            if activation == "gelu":  # by tanh
                for i, j in T.Parallel(block_M, block_N):
                    sums[i, j] = sums[i, j] * T.sigmoid(
                        sums[i, j] * (1.5957691216 + 0.0713548163 * sums[i, j] * sums[i, j]))
            T.copy(sums, C[bz, by * block_M:(by + 1) * block_M, bx * block_N:(bx + 1) * block_N])

    return main
