"""SwiGLU, the elementwise kernel of a Llama block: out = silu(gate) * up, row by row."""
import tilelang
import tilelang.language as T


@tilelang.jit
def swiglu(gate, up, dtype=T.float32, block_M=1, block_N=1024, threads=128):
    M, N = T.const("M, N")
    gate: T.Tensor((M, N), dtype)
    up: T.Tensor((M, N), dtype)
    out = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        for i, j in T.Parallel(block_M, block_N):
            g = T.cast(gate[by * block_M + i, bx * block_N + j], T.float32)
            u = T.cast(up[by * block_M + i, bx * block_N + j], T.float32)
            out[by * block_M + i, bx * block_N + j] = T.cast(g * T.sigmoid(g) * u, dtype)
    return out
