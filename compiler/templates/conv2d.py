"""out[n, p, q, f] = sum of x[n, p s + r d - pad, q s + t d - pad, c] w[f, r, t, c]: a product over taps.

stride, pad and dilation are those of both sides, or pairs: down (of rows) and across."""
import tilelang
import tilelang.language as T


# groups: each of so many equal parts of the filters sees one part of the channels. The filters are
# then [groups, F / groups, R S C / groups], the result [N P Q, groups, F / groups]. None: one.
@tilelang.jit(out_idx=[-1])
def conv2d(N, H, W, C, F, R=3, S=3, stride=1, pad=1, dilation=1, dtype="float16",
           out_dtype="float16", block_M=128, block_N=128, block_K=32, num_stages=3, threads=128,
           groups=None, accum_dtype="float32"):
    down, across = stride if isinstance(stride, tuple) else (stride, stride)
    above, left = pad if isinstance(pad, tuple) else (pad, pad)
    lower, farther = dilation if isinstance(dilation, tuple) else (dilation, dilation)
    P = (H + 2 * above - lower * (R - 1) - 1) // down + 1
    Q = (W + 2 * left - farther * (S - 1) - 1) // across + 1
    assert P > 0 and Q > 0, f"a filter of {R}x{S} is larger than the image of {H}x{W}"
    groups = 1 if groups is None else groups
    assert C % groups == 0 and F % groups == 0, f"C={C} and F={F} are no multiples of groups={groups}"
    channels, features = C // groups, F // groups
    few = isinstance(channels, int) and channels % 32 != 0  # a step goes on from tap to tap
    assert few or channels % block_K == 0, f"C={channels} is no multiple of block_K={block_K}"
    pixels = N * P * Q
    depth = R * S * channels
    steps = 1 if few else channels // block_K
    wide = (features + block_N - 1) // block_N
    w_shape = (F, depth) if groups == 1 else (groups, features, depth)
    out_shape = (pixels, F) if groups == 1 else (pixels, groups, features)

    @T.prim_func
    def main(x: T.Tensor((N, H, W, C), dtype), w: T.Tensor(w_shape, dtype),
             out: T.Tensor(out_shape, out_dtype)):
        with T.Kernel(groups * wide, T.ceildiv(pixels, block_M), threads=threads) as (bx, by):
            patches = T.alloc_shared((block_M, block_K), dtype)
            filters = T.alloc_shared((block_N, block_K), dtype)
            sums = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(depth, block_K) if few else R * S * steps,
                                 num_stages=num_stages):
                for i, j in T.Parallel(block_M, block_K):
                    pixel = by * block_M + i
                    if few:
                        tap = (k * block_K + j) // channels
                        row = pixel // Q % P * down + tap // S * lower - above
                        column = pixel % Q * across + tap % S * farther - left
                        inside = (tap < R * S and row >= 0 and row < H and column >= 0
                                  and column < W and pixel < pixels)
                        patches[i, j] = T.if_then_else(
                            inside, x[pixel // (P * Q), row, column,
                                      bx // wide * channels + (k * block_K + j) % channels],
                            T.cast(0, dtype))
                    else:
                        row = pixel // Q % P * down + k // steps // S * lower - above
                        column = pixel % Q * across + k // steps % S * farther - left
                        inside = (row >= 0 and row < H and column >= 0 and column < W
                                  and pixel < pixels)
                        first = bx // wide * channels if groups > 1 else 0
                        patches[i, j] = T.if_then_else(
                            inside, x[pixel // (P * Q), row, column,
                                      first + k % steps * block_K + j], T.cast(0, dtype))
                if groups == 1:
                    T.copy(w[bx * block_N, k * block_K], filters)
                else:
                    T.copy(w[bx // wide, bx % wide * block_N:(bx % wide + 1) * block_N,
                             k * block_K:(k + 1) * block_K], filters)
                T.gemm(patches, filters, sums, transpose_B=True)
            if groups == 1:
                T.copy(sums, out[by * block_M, bx * block_N])
            else:
                T.copy(sums, out[by * block_M:(by + 1) * block_M, bx // wide,
                                 bx % wide * block_N:(bx % wide + 1) * block_N])

    return main
