"""Elements of four bits: tiles and tensors of half as many bytes, registers with a byte an element."""
#: entry=dequantise N=64
#: entry=quantise N=64
#: entry=quantise open:block N=64
import tilelang.language as T


def dequantise(N):
    @T.prim_func
    def main(A: T.Tensor((8, N), T.int4), F: T.Tensor((8, N), T.float4_e2m1fn), s: T.Tensor((8,), T.float8_e8m0fnu),
             B: T.Tensor((8, N), T.float16), C: T.Tensor((8, 8), T.int32)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, N), T.int4)
            held = T.alloc_fragment((8, N), T.float4_e2m1fn)
            total = T.alloc_fragment((8, 8), T.int32)
            T.copy(A, tile)
            T.copy(F, held)
            for i, j in T.Parallel(8, N):
                B[i, j] = T.cast(tile[i, j] + held[i, j] * s[i], T.float16)
            T.clear(total)
            T.gemm(tile, tile, total, transpose_B=True)
            T.copy(total, C)

    return main


def quantise(N, block=32):
    @T.prim_func
    def main(x: T.Tensor((8, N), T.float32), A: T.Tensor((8, N), T.float4_e2m1fn), B: T.Tensor((8, N), T.uint4)):
        with T.Kernel(N // block, threads=32) as bx:
            tile = T.alloc_fragment((8, block), T.float4_e2m1fn)
            packed = T.alloc_shared((8, block), T.float4_e2m1fn)
            bytes = T.view(packed, (8, block // 2), T.uint8)
            for i, j in T.Parallel(8, block):
                tile[i, j] = x[i, bx * block + j]
            T.copy(tile, packed)
            T.copy(packed, A[:, bx * block:(bx + 1) * block])
            for i, j in T.Parallel(8, block // 2):
                low = bytes[i, j] & 15
                B[i, bx * block + 2 * j] = low
                B[i, bx * block + 2 * j + 1] = bytes[i, j] >> 4

    return main
