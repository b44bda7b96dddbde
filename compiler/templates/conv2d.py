"""out[n, p, q, f] = sum of x[n, p s + r d - pad, q s + t d - pad, c] w[f, r, t, c]: a product over taps."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def conv2d(N, H, W, C, F, R=3, S=3, stride=1, pad=1, dilation=1, dtype="float16",
           out_dtype="float16", block_M=128, block_N=128, block_K=32, num_stages=3, threads=128):
    P = (H + 2 * pad - dilation * (R - 1) - 1) // stride + 1
    Q = (W + 2 * pad - dilation * (S - 1) - 1) // stride + 1
    assert P > 0 and Q > 0, f"a filter of {R}x{S} is larger than the image of {H}x{W}"
    assert C % block_K == 0, f"C={C} is no multiple of block_K={block_K}"
    pixels = N * P * Q
    steps = C // block_K

    @T.prim_func
    def main(x: T.Tensor((N, H, W, C), dtype), w: T.Tensor((F, R * S * C), dtype),
             out: T.Tensor((pixels, F), out_dtype)):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(pixels, block_M),
                      threads=threads) as (bx, by):
            patches = T.alloc_shared((block_M, block_K), dtype)
            filters = T.alloc_shared((block_N, block_K), dtype)
            sums = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(sums)
            for k in T.Pipelined(R * S * steps, num_stages=num_stages):
                for i, j in T.Parallel(block_M, block_K):
                    pixel = by * block_M + i
                    row = pixel // Q % P * stride + k // steps // S * dilation - pad
                    column = pixel % Q * stride + k // steps % S * dilation - pad
                    inside = (row >= 0 and row < H and column >= 0 and column < W
                              and pixel < pixels)
                    patches[i, j] = T.if_then_else(
                        inside, x[pixel // (P * Q), row, column, k % steps * block_K + j], 0)
                T.copy(w[bx * block_N, k * block_K], filters)
                T.gemm(patches, filters, sums, transpose_B=True)
            T.copy(sums, out[by * block_M, bx * block_N])

    return main
