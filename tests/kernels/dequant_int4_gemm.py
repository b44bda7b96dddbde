"""C = A W^T where two codes of four bits share a byte of W and each group of K has a scale and a zero."""
import tilelang
import tilelang.language as T
from tilelang import tvm as tvm
from tvm import DataType

KERNEL = {
    "entry": "dequant_gemm",
    "arguments": {"M": 40, "N": 72, "K": 128, "in_dtype": "float16", "num_bits": 4, "group": 64},
    "types": {"A": "float16", "B": "int8", "scale": "float16", "zero": "float16", "C": "float16"},
    "tolerance": 4e-3,
}


def unpack(nbit, val, pos, dtype):
    assert nbit == 4 and val.dtype == "int8"
    mask = tvm.tir.const((1 << nbit) - 1, "int8")
    return ((val >> (pos * nbit).astype("int8")) & mask).astype(dtype)


@tilelang.jit(out_idx=[-1])
def dequant_gemm(M, N, K, in_dtype, num_bits, group, block_M=32, block_N=64, block_K=64, threads=128):
    num_elems_per_byte = 8 // num_bits
    storage_dtype = "int8"
    assert DataType(storage_dtype).bits == 8

    @T.prim_func
    def main(A: T.Tensor((M, K), in_dtype), B: T.Tensor((N, K // num_elems_per_byte), storage_dtype),
             scale: T.Tensor((N, K // group), in_dtype), zero: T.Tensor((N, K // group), in_dtype),
             C: T.Tensor((M, N), in_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), in_dtype)
            B_shared = T.alloc_shared((block_N, block_K // num_elems_per_byte), storage_dtype)
            B_local = T.alloc_fragment((block_N, block_K // num_elems_per_byte), storage_dtype)
            B_dequantize_local = T.alloc_fragment((block_N, block_K), in_dtype)
            B_dequantize_prev_local = T.alloc_fragment((block_N, block_K), in_dtype)
            Ct_local = T.alloc_fragment((block_N, block_M), "float32")
            Ct_shared = T.alloc_shared((block_N, block_M), in_dtype)
            T.clear(Ct_local)
            for k in T.Pipelined(K // block_K, num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K // num_elems_per_byte], B_shared)
                T.copy(B_shared, B_local)
                for i, j in T.Parallel(block_N, block_K):
                    n = T.min(bx * block_N + i, N - 1)
                    code = unpack(num_bits, B_local[i, j // num_elems_per_byte], j % num_elems_per_byte,
                                  in_dtype)
                    B_dequantize_local[i, j] = ((code - zero[n, k * block_K // group])
                                                * scale[n, k * block_K // group])
                T.copy(B_dequantize_local, B_dequantize_prev_local)
                T.gemm(B_dequantize_prev_local, A_shared, Ct_local, transpose_B=True)
            T.copy(Ct_local, Ct_shared)
            for i, j in T.Parallel(block_M, block_N):
                if by * block_M + i < M and bx * block_N + j < N:
                    C[by * block_M + i, bx * block_N + j] = Ct_shared[j, i]

    return main


def inputs(rng):
    return {"A": rng.standard_normal((40, 128)), "B": rng.integers(-128, 128, (72, 64)),
            "scale": rng.uniform(0.05, 0.2, (72, 2)), "zero": rng.integers(4, 12, (72, 2))}


def reference(A, B, scale, zero):
    codes = np.stack([B & 15, (B >> 4) & 15], -1).reshape(72, 128)
    W = (codes - np.repeat(zero, 64, 1)) * np.repeat(scale, 64, 1)
    return {"C": A @ W.T}
