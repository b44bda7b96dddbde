#: M=128 N=256 K=512
"""Weights of four bits, two in a byte, widened on the way to the tensor core."""
import tilelang
import tilelang.language as T


def unpack(byte: T.uint8, position, bits=4):
    mask = (1 << bits) - 1
    assert mask == 15, f"{bits}-bit fields have a mask of {mask}"
    return T.cast((byte >> (position * bits)) & mask, T.int8) - 8


@tilelang.jit(out_idx=[-1])
def dequant(M, N, K, block_M=64, block_N=64, block_K=64, group=128, threads=128):
    pack = 8 // 4
    assert K % group == 0 and group % block_K == 0, f"K={K} does not divide into groups of {group}"

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), Q: T.Tensor((N, K // pack), "uint8"),
             scale: T.Tensor((N, K // group), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_s = T.alloc_shared((block_M, block_K), "float16")
            Q_s = T.alloc_shared((block_N, block_K // pack), "uint8")
            B_s = T.alloc_shared((block_N, block_K), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(K // block_K, num_stages=2, order=[0, 1, 2, 3], stage=[0, 0, 1, 1]):
                T.copy(A[by * block_M, k * block_K], A_s)
                T.copy(Q[bx * block_N, k * (block_K // pack)], Q_s)
                for i, j in T.Parallel(block_N, block_K):
                    code = unpack(Q_s[i, j // pack], j % pack)
                    B_s[i, j] = T.cast(code, "float16") * scale[bx * block_N + i, k * block_K // group]
                T.gemm(A_s, B_s, acc, transpose_B=True)
            T.copy(acc, C[by * block_M, bx * block_N])

    return main
