"""C = A W^T where W has four-bit floats (sign, two bits of exponent, one of mantissa), widened to bfloat16 by
their bits, and a power of two a group of 32."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "fp4_gemm",
    "arguments": {"M": 32, "N": 64, "K": 128},
    "types": {"A": "bfloat16", "B": "uint8", "exponents": "uint8", "C": "bfloat16"},
    "tolerance": 1e-2,
}


def fp4_to_bf16(byte: T.uint8, pos, scale):
    """2 ** (scale - 127) times the value of the code at `pos`, as bits: the exponent moves to its new bias."""
    code = (byte >> (pos * 4).astype(T.uint8)) & T.uint8(15)
    sign = (code >> T.uint8(3)).astype(T.uint16)
    exponent = ((code >> T.uint8(1)) & T.uint8(3)).astype(T.uint16)
    mantissa = (code & T.uint8(1)).astype(T.uint16)
    # 0.5 is the one value below 1: exponent field 0, mantissa 1.
    moved = T.if_then_else(exponent == 0, 126, exponent.astype(T.int32) + 126)
    field = T.max(moved + scale.astype(T.int32) - 127, 0).astype(T.uint16)
    small = T.if_then_else(exponent == 0, 0, mantissa.astype(T.int32)).astype(T.uint16)
    bits = (((sign << T.uint16(8)) | field) << T.uint16(7)) | (small << T.uint16(6))
    bits = T.if_then_else((code & T.uint8(7)) == 0, sign << T.uint16(15), bits)
    return T.reinterpret(bits, T.bfloat16)


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True})
def fp4_gemm(M, N, K, scale_size=32, block_M=32, block_N=64, block_K=64, num_stages=1, threads=128):
    @T.prim_func
    def main(A: T.Tensor((M, K), T.bfloat16), B: T.Tensor((N, K // 2), T.uint8),
             exponents: T.Tensor((N, K // scale_size), T.uint8), C: T.Tensor((M, N), T.bfloat16)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), T.bfloat16)
            B_shared = T.alloc_shared((block_N, block_K // 2), T.uint8)
            B_local = T.alloc_fragment((block_N, block_K // 2), T.uint8)
            wide = T.alloc_fragment((block_N, block_K), T.bfloat16)
            wide_shared = T.alloc_shared((block_N, block_K), T.bfloat16)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            scales = T.alloc_shared((block_N, K // scale_size), T.uint8)
            T.copy(exponents[bx * block_N:(bx + 1) * block_N, :], scales)
            T.clear(C_local)
            for k in T.Pipelined(K // block_K, num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K // 2], B_shared)
                T.copy(B_shared, B_local)
                for i, j in T.Parallel(block_N, block_K):
                    wide[i, j] = fp4_to_bf16(B_local[i, j // 2], j % 2,
                                             scales[i, k * block_K // scale_size + j // scale_size])
                T.copy(wide, wide_shared)
                T.gemm(A_shared, wide_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def inputs(rng):
    return {"A": rng.standard_normal((32, 128)), "B": rng.integers(0, 256, (64, 64)),
            "exponents": rng.integers(122, 130, (64, 4))}


def reference(A, B, exponents):
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = np.concatenate([values, -values])
    W = values[np.stack([B & 15, B >> 4], -1).reshape(64, 128)]
    return {"C": A @ (W * np.exp2(np.repeat(exponents, 32, 1) - 127.0)).T}
