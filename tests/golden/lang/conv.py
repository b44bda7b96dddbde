#: N=1 H=8 W=8 C=32 F=32 KH=3 KW=3
"""A direct convolution: one row of the image a block, the filter taps unrolled by the program."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[2])
def conv(N, H, W, C, F, KH, KW, S=1, P=1, D=1, dtype="float32"):
    OH = (H + 2 * P - D * (KH - 1) - 1) // S + 1
    OW = (W + 2 * P - D * (KW - 1) - 1) // S + 1
    assert OH > 0 and OW > 0, f"the filter {KH}x{KW} is larger than the image {H}x{W}"
    taps = [(r, s) for r in range(KH) for s in range(KW)]
    assert len(taps) == KH * KW

    @T.prim_func
    def main(image: T.Tensor((N, H, W, C), dtype), kernel: T.Tensor((KH, KW, C, F), dtype),
             out: T.Tensor((N, OH, OW, F), dtype)):
        with T.Kernel(OH, N, threads=128) as (oh, n):
            patch = T.alloc_shared((OW, C), dtype)
            weight = T.alloc_shared((C, F), dtype)
            acc = T.alloc_fragment((OW, F), "float32")
            T.clear(acc)
            for r, s in T.grid(KH, KW):
                for i, c in T.Parallel(OW, C):
                    h = oh * S + r * D - P
                    w = i * S + s * D - P
                    inside = h >= 0 and w >= 0 and h < H and w < W
                    patch[i, c] = T.if_then_else(inside, image[n, h, w, c], 0)
                T.copy(kernel[r, s, 0, 0], weight)
                T.gemm(patch, weight, acc)
            T.copy(acc, out[n, oh, :, :])

    return main
