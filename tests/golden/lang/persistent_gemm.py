#: entry=by_prefix M=200 N=136 K=64
#: entry=by_name M=256 N=192 K=64
#: entry=in_clusters M=320 N=128 K=64
#: entry=by_wave M=200 N=136 K=64
#: entry=of_run_time_rows N=136 K=64
#: entry=primitive M=200 N=136 K=64
#: entry=own_order M=256 N=128 K=64
import tilelang
import tilelang.language as T
from tilelang.carver.arch import driver


@T.macro
def product(A, B, C, K, bx, by, block_M, block_N, block_K):
    A_s = T.alloc_shared((block_M, block_K), T.float16)
    B_s = T.alloc_shared((block_K, block_N), T.float16)
    acc = T.alloc_fragment((block_M, block_N), T.float32)
    T.clear(acc)
    for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
        T.copy(A[bx * block_M, k * block_K], A_s)
        T.copy(B[k * block_K, by * block_N], B_s)
        T.gemm(A_s, B_s, acc)
    T.copy(acc, C[bx * block_M, by * block_N])


@tilelang.jit
def by_prefix(A, B, block_M=64, block_N=64, block_K=32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    m_blocks, n_blocks = T.ceildiv(M, block_M), T.ceildiv(N, block_N)
    with T.Kernel(driver.get_num_sms(), threads=128) as (block_id,):
        sched = T.PersistentTileScheduler("sched", m_blocks, n_blocks)
        sched.init(block_id)
        while sched.valid():
            bx, by = sched.m_idx[0], sched.n_idx[0]
            product(A, B, C, K, bx, by, block_M, block_N, block_K)
            sched.next_tile()
    return C


@tilelang.jit
def by_name(A, B, block_M=64, block_N=64, block_K=32, workers=3):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(workers, threads=128) as block_id:
        sched = T.PersistentTileScheduler(
            T.ceildiv(M, block_M), T.ceildiv(N, block_N), num_workers=workers, swizzle_size=2, name="tiles"
        )
        sched.init(block_id)
        while sched.valid():
            product(A, B, C, K, sched.m_idx, sched.n_idx, block_M, block_N, block_K)
            sched.next_tile()
    return C


@tilelang.jit
def in_clusters(A, B, block_M=64, block_N=64, block_K=32, cluster_size=2, blocks=4):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.ClusterKernel(blocks, threads=128, cluster_dims=cluster_size) as (block_id):
        rank = T.block_rank_in_cluster()
        sched = T.PersistentTileScheduler(
            "sched",
            T.ceildiv(M, block_M),
            T.ceildiv(N, block_N),
            num_workers=blocks // cluster_size,
            swizzle_size=8,
            cluster_size=cluster_size,
        )
        sched.init(block_id // cluster_size)
        while sched.valid():
            bx = sched.m_idx[0] * cluster_size + rank
            product(A, B, C, K, bx, sched.n_idx[0], block_M, block_N, block_K)
            sched.next_tile()
    return C


@tilelang.jit
def by_wave(A, B, block_M=64, block_N=64, block_K=32, workers=5):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    m_blocks, n_blocks = T.ceildiv(M, block_M), T.ceildiv(N, block_N)
    with T.Kernel(workers, threads=128) as worker_id:
        sched = T.PersistentTileScheduler(
            "sched", m_blocks, n_blocks, swizzle_size=2, column_major=False, stateful=False
        )
        for w in range(T.ceildiv(m_blocks * n_blocks, workers)):
            bx, by = sched.coord(workers * w + worker_id)
            if bx * block_M < M and by * block_N < N:
                product(A, B, C, K, bx, by, block_M, block_N, block_K)
    return C


@tilelang.jit
def of_run_time_rows(A, B, block_M=64, block_N=64, block_K=32, workers=3):
    M = T.dynamic("M")
    N, K = T.const("N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(workers, threads=128) as block_id:
        sched = T.PersistentTileScheduler(
            T.ceildiv(M, block_M), T.ceildiv(N, block_N), num_workers=workers, column_major=False
        )
        sched.init(block_id)
        while sched.valid():
            product(A, B, C, K, sched.m_idx, sched.n_idx, block_M, block_N, block_K)
            sched.next_tile()
    return C


@tilelang.jit
def primitive(A, B, block_M=64, block_N=64, block_K=32, workers=5):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(workers, threads=128) as block_id:
        for bx, by in T.Persistent([T.ceildiv(M, block_M), T.ceildiv(N, block_N)], workers, block_id, group_size=2):
            product(A, B, C, K, bx, by, block_M, block_N, block_K)
    return C


@T.meta_class
class FromTheEnd(T.BaseTileScheduler):
    """Tiles row by row, the last one first."""

    def __init__(self, rows, columns, name=None):
        super().__init__(name=name)
        self.columns = columns
        self._total_tiles = rows * columns

    def update_current_idx(self, linear_idx):
        tile = self._total_tiles - 1 - linear_idx
        self._m_idx[0] = tile // self.columns
        self._n_idx[0] = tile % self.columns


@tilelang.jit
def own_order(A, B, block_M=64, block_N=64, block_K=32, workers=3):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(workers, threads=128) as block_id:
        sched = FromTheEnd(T.ceildiv(M, block_M), T.ceildiv(N, block_N))
        sched.init(block_id)
        while sched.valid():
            product(A, B, C, K, sched.m_idx, sched.n_idx, block_M, block_N, block_K)
            sched.next_tile(workers)
    return C
