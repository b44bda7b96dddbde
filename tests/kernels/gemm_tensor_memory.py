"""A product whose sums lie in tensor memory: one warp walks the tiles and fetches, one has the products issued into one
of two tiles of sums, and four others bring out what is done. Barriers of the author's say what is full and what free;
two blocks share the tiles of C, which no tile divides."""
import tilelang
import tilelang.language as T

KERNEL = {
    "entry": "gemm_tensor_memory",
    "arguments": {"M": 200, "N": 150, "K": 272},
    "types": {"A": "float16", "B": "float16", "C": "float16"},
    "tolerance": 2e-3,
}


@tilelang.jit(out_idx=[-1])
def gemm_tensor_memory(M, N, K, block_M=128, block_N=64, block_K=32, stages=3, workers=2):
    rows, columns, steps = T.ceildiv(M, block_M), T.ceildiv(N, block_N), T.ceildiv(K, block_K)

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(workers, threads=256) as block:
            a = T.alloc_shared((stages, block_M, block_K), "float16")
            b = T.alloc_shared((stages, block_K, block_N), "float16")
            sums = T.alloc_tmem([2, block_M, block_N], "float32")
            loaded, used = T.alloc_barrier([32] * stages), T.alloc_barrier([1] * stages)
            summed, drained = T.alloc_barrier([1] * 2), T.alloc_barrier([128] * 2)
            tx = T.get_thread_binding()
            tiles = T.PersistentTileScheduler(rows, columns, num_workers=workers, swizzle_size=2)
            if tx < 32:
                tiles.init(block)
                while tiles.valid():
                    for k in T.serial(steps):
                        n = tiles.current_iter * steps + k
                        s = n % stages
                        T.mbarrier_wait_parity(used[s], (n // stages & 1) ^ 1)
                        T.tma_copy(A[tiles.m_idx * block_M, k * block_K], a[s, :, :], barrier=loaded[s])
                        T.tma_copy(B[k * block_K, tiles.n_idx * block_N], b[s, :, :], barrier=loaded[s])
                        T.mbarrier_arrive(loaded[s])
                    tiles.next_tile()
            elif tx < 64:
                tiles.init(block)
                while tiles.valid():
                    half = tiles.current_iter & 1
                    T.mbarrier_wait_parity(drained[half], (tiles.current_iter // 2 & 1) ^ 1)
                    for k in T.serial(steps):
                        n = tiles.current_iter * steps + k
                        s = n % stages
                        T.mbarrier_wait_parity(loaded[s], n // stages & 1)
                        T.tcgen05_gemm(a[s, :, :], b[s, :, :], sums[half, :, :], mbar=used[s], clear_accum=k == 0)
                    T.tcgen05_mma_arrive(summed[half])
                    tiles.next_tile()
            elif tx >= 128:
                out = T.alloc_fragment((block_M, block_N // 2), "float32")
                tiles.init(block)
                while tiles.valid():
                    half = tiles.current_iter & 1
                    T.mbarrier_wait_parity(summed[half], tiles.current_iter // 2 & 1)
                    T.tcgen05_after_thread_sync()
                    for i in T.unroll(2):
                        first = i * (block_N // 2)
                        T.copy(sums[half, :, first:first + block_N // 2], out)
                        T.copy(out, C[tiles.m_idx * block_M, tiles.n_idx * block_N + first])
                    T.tcgen05_before_thread_sync()
                    T.mbarrier_arrive(drained[half])
                    tiles.next_tile()

    return main


def inputs(rng):
    return {"A": rng.standard_normal((200, 272)), "B": rng.standard_normal((272, 150)) / 16}


def reference(A, B):
    return {"C": A @ B}
