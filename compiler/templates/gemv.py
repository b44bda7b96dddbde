"""y[N] = W[N, K] * x[K], the decode-time matrix-vector product."""
import tilelang
import tilelang.language as T


@tilelang.jit
def gemv(x, W, dtype=T.float32, out_dtype=T.float32, block_N=8, block_K=512, threads=128):
    N, K = T.const("N, K")
    x: T.Tensor((K,), dtype)
    W: T.Tensor((N, K), dtype)
    y = T.empty((N,), out_dtype)
    with T.Kernel(T.ceildiv(N, block_N), threads=threads) as bn:
        products = T.alloc_fragment((block_N, block_K), T.float32)
        acc = T.alloc_fragment((block_N,), T.float32)
        T.clear(acc)
        for k in T.serial(T.ceildiv(K, block_K)):
            for i, j in T.Parallel(block_N, block_K):
                products[i, j] = T.cast(W[bn * block_N + i, k * block_K + j], T.float32) * T.cast(
                    x[k * block_K + j], T.float32)
            T.reduce_sum(products, acc, dim=1, clear=False)
        T.copy(acc, y[bn * block_N])
    return y
