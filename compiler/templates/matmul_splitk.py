"""C[M, N] = act(scale * A[M, K] B[N, K]^T + bias) for small M and N: blocks share the sum over K.

A second launch adds. B is [K, N] without trans_B, A is [K, M] with trans_A."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def matmul_splitk(M, N, K, dtype="bfloat16", out_dtype="bfloat16", split=4,
                  block_M=128, block_N=128, block_K=64, num_stages=3, threads=256, block=1024,
                  accum_dtype="float32", trans_A=False, trans_B=True,
                  with_bias=False, activation="none", scale=1.0):
    assert split > 0, "split: at least 1"
    assert activation in ("none", "relu", "gelu", "silu"), f"no activation is called {activation}"
    A_shape = (K, M) if trans_A else (M, K)
    B_shape = (N, K) if trans_B else (K, N)
    A_tile = (block_K, block_M) if trans_A else (block_M, block_K)
    B_tile = (block_N, block_K) if trans_B else (block_K, block_N)
    plain = not with_bias and activation == "none" and scale == 1.0
    chunk = (K + split * block_K - 1) // (split * block_K) * block_K  # of K, whole tiles

    @T.macro
    def multiply(A, B, partial):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split,
                      threads=threads) as (bx, by, bz):
            A_shared = T.alloc_shared(A_tile, dtype)
            B_shared = T.alloc_shared(B_tile, dtype)
            sums = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(sums)
            for k in T.Pipelined(chunk // block_K, num_stages=num_stages):
                if trans_A:
                    T.copy(A[bz * chunk + k * block_K, by * block_M], A_shared)
                else:
                    T.copy(A[by * block_M, bz * chunk + k * block_K], A_shared)
                if trans_B:
                    T.copy(B[bx * block_N, bz * chunk + k * block_K], B_shared)
                else:
                    T.copy(B[bz * chunk + k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, sums, transpose_A=trans_A, transpose_B=trans_B)
            T.copy(sums, partial[bz, by * block_M:(by + 1) * block_M, bx * block_N:(bx + 1) * block_N])

    @T.macro
    def add(partial, bias, C):
        with T.Kernel(T.ceildiv(N, block), M, threads=128) as (bx, by):
            total = T.alloc_fragment((block,), accum_dtype)
            T.clear(total)
            for s in T.unroll(split):
                for j in T.Parallel(block):
                    total[j] += partial[s, by, bx * block + j]
            if plain or accum_dtype in ("float32", "float64"):
                x = total
            else:
                x = T.alloc_fragment((block,), "float32")
                T.copy(total, x)
            if scale != 1.0:
                for j in T.Parallel(block):
                    x[j] *= scale
            if with_bias:
                for j in T.Parallel(block):
                    x[j] += bias[bx * block + j]
            if activation == "relu":
                for j in T.Parallel(block):
                    x[j] = T.max(x[j], 0.0)
            if activation == "silu":
                for j in T.Parallel(block):
                    x[j] *= T.sigmoid(x[j])
            if activation == "gelu":  # by tanh
                for j in T.Parallel(block):
                    x[j] *= T.sigmoid(x[j] * (1.5957691216 + 0.0713548163 * x[j] * x[j]))
            T.copy(x, C[by, bx * block:(bx + 1) * block])

    if with_bias:
        @T.prim_func
        def main(A: T.Tensor(A_shape, dtype), B: T.Tensor(B_shape, dtype),
                 bias: T.Tensor((N,), "float32"), C: T.Tensor((M, N), out_dtype)):
            partial = T.alloc_global((split, M, N), accum_dtype)
            multiply(A, B, partial)
            add(partial, bias, C)
    else:
        @T.prim_func
        def main(A: T.Tensor(A_shape, dtype), B: T.Tensor(B_shape, dtype),
                 C: T.Tensor((M, N), out_dtype)):
            partial = T.alloc_global((split, M, N), accum_dtype)
            multiply(A, B, partial)
            add(partial, None, C)

    return main
