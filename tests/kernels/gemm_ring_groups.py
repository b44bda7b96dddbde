"""A product with a ring of tiles that its author keeps: one warpgroup fetches, two multiply, each half of the rows,
and barriers say which tiles are full and which are free again. Each group counts its steps in its own way."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "gemm_ring_groups",
    "arguments": {"M": 200, "N": 90, "K": 272},
    "types": {"A": "float16", "B": "float16", "C": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit(out_idx=[-1])
def gemm_ring_groups(M, N, K, block_M=128, block_N=64, block_K=32, stages=3):
    half = block_M // 2
    steps = T.ceildiv(K, block_K)

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=384) as (bx, by):
            a = T.alloc_shared((stages, block_M, block_K), "float16")
            b = T.alloc_shared((stages, block_K, block_N), "float16")
            full = T.alloc_barrier(arrive_count=[128] * stages)
            free = T.alloc_barrier(arrive_count=[256] * stages)
            with T.ws(0):
                T.set_max_nreg(240, 1)
                upper = T.alloc_fragment((half, block_N), "float32")
                T.clear(upper)
                # The first step before the loop.
                T.barrier_wait(full[0], 0)
                T.gemm(a[0, :half, :], b[0, :, :], upper)
                T.barrier_arrive(free[0])
                for k in T.serial(1, steps):
                    T.barrier_wait(full[k % stages], (k // stages) & 1)
                    T.gemm(a[k % stages, :half, :], b[k % stages, :, :], upper)
                    T.barrier_arrive(free[k % stages])
                T.copy(upper, C[by * block_M, bx * block_N])
            with T.ws(1):
                T.set_max_nreg(240, 1)
                lower = T.alloc_fragment((half, block_N), "float32")
                place = T.alloc_var("int32", init=0)
                parity = T.alloc_var("int32", init=0)
                T.clear(lower)
                for k in T.serial(steps):
                    T.barrier_wait(full[place], parity)
                    T.wgmma_gemm(a[place, half:, :], b[place, :, :], lower)
                    T.wait_wgmma(0)
                    T.barrier_arrive(free[place])
                    place = place + 1
                    if place == stages:
                        place = 0
                        parity = parity ^ 1
                T.copy(lower, C[by * block_M + half, bx * block_N])
            with T.ws(2):
                T.set_max_nreg(40, 0)
                # As many tiles as there is room for, then one for each that is free again.
                for k in T.serial(stages):
                    T.tma_copy(A[by * block_M, k * block_K], a[k, :, :], barrier=full[k])
                    T.tma_copy(B[k * block_K, bx * block_N], b[k, :, :], barrier=full[k])
                    T.barrier_arrive(full[k])
                for k in T.serial(steps - stages):
                    s = k % stages
                    T.barrier_wait(free[s], (k // stages) & 1)
                    T.tma_copy(A[by * block_M, (k + stages) * block_K], a[s, :, :], barrier=full[s])
                    T.tma_copy(B[(k + stages) * block_K, bx * block_N], b[s, :, :], barrier=full[s])
                    T.barrier_arrive(full[s])

    return main


def inputs(rng):
    return {"A": rng.standard_normal((200, 272)), "B": rng.standard_normal((272, 90)) / 16}


def reference(A, B):
    return {"C": A @ B}
