"""Kernels that speak of threads: indices, shared memory between them, shuffles, votes."""
import tilelang
import tilelang.language as T


# Fast Walsh-Hadamard transforms of 512 numbers, 4 of them in each of 128 threads: within a thread,
# within a warp by shuffles, between warps through shared memory.
@T.macro
def butterflies(held, rounds, lane, each):
    for r in T.serial(rounds):
        for j in T.serial(each):
            other = T.shfl_xor(held[j], 1 << r)
            held[j] = T.if_then_else(lane >> r & 1 == 0, held[j] + other, other - held[j])


#: entry=walsh rows=3
@tilelang.jit
def walsh(A):
    rows = T.const("rows")
    A: T.Tensor((rows, 512), T.float32)
    B = T.empty((rows, 512), T.float32)
    with T.Kernel(rows, threads=128) as row:
        tx = T.get_thread_binding(0)
        held = T.alloc_local((4,), T.float32)
        passed = T.alloc_shared((128, 4), T.float32)
        for j in T.vectorized(4):
            held[j] = A[row, tx * 4 + j]
        for r in T.serial(2):
            for j in T.serial(4):
                if j >> r & 1 == 0:
                    low = held[j]
                    high = held[j + (1 << r)]
                    held[j] = low + high
                    held[j + (1 << r)] = low - high
        butterflies(held, 5, tx % 32, 4)
        other = tx % 32 * 4 + tx // 32
        for j in T.vectorized(4):
            passed[other, j] = held[j]
        for j in T.vectorized(4):
            held[j] = passed[tx, j]
        butterflies(held, 2, tx, 4)
        for j in T.vectorized(4):
            passed[tx, j] = held[j]
        for j in T.vectorized(4):
            B[row, tx * 4 + j] = passed[other, j]
    return B


# A matrix by a vector: 16 rows a block, 8 threads share a row, their sums meet in shared memory.
#: entry=matrix_vector m=40 k=200
@tilelang.jit
def matrix_vector(A, x):
    m, k = T.const("m, k")
    A: T.Tensor((m, k), T.float32)
    x: T.Tensor((k,), T.float32)
    y = T.empty((m,), T.float32)
    with T.Kernel(T.ceildiv(m, 16), threads=(16, 8)) as block:
        row = T.get_thread_binding(0)
        part = T.get_thread_binding(1)
        sums = T.alloc_shared((16,), T.float32)
        piece = T.alloc_local((4,), T.float32)
        mine = T.alloc_local((1,), T.float32)
        if part == 0:
            sums[row] = 0
        T.clear(mine)
        for step in T.serial(T.ceildiv(k, 32)):
            for v in T.vectorized(4):
                piece[v] = A[block * 16 + row, step * 32 + part * 4 + v]
            for v in T.serial(4):
                mine[0] += piece[v] * x[step * 32 + part * 4 + v]
        T.atomic_add(sums[row], mine[0])
        y[block * 16 + row] = sums[row]
    return y


# Running sums of 128 numbers a block: within warps by shuffles, the warps' sums by the first warp.
#: entry=scan n=300
@tilelang.jit
def scan(A):
    n = T.const("n")
    A: T.Tensor((n,), T.int32)
    B = T.empty((n,), T.int32)
    with T.Kernel(T.ceildiv(n, 128), threads=128) as block:
        lane = T.get_lane_idx()
        warp = T.get_warp_idx()
        sum = T.alloc_var(T.int32, init=A[block * 128 + warp * 32 + lane])
        ends = T.alloc_shared((4,), T.int32)
        for r in T.unroll(5):
            before = T.shfl_up(sum, 1 << r)
            if lane >= (1 << r):
                sum = sum + before
        if lane == 31:
            ends[warp] = sum
        T.sync_threads()
        if warp == 0:
            end = T.alloc_var(T.int32, init=0)
            if lane < 4:
                end = ends[lane]
            for r in T.serial(2):
                before = T.shfl_up(end, 1 << r)
                if lane >= (1 << r):
                    end = end + before
            if lane < 4:
                ends[lane] = end
        T.sync_threads()
        if warp > 0:
            sum = sum + ends[warp - 1]
        B[block * 128 + warp * 32 + lane] = sum
    return B


# What 96 threads agree on. Columns: see thread_kernels_test.cc.
#: entry=votes n=192
@tilelang.jit
def votes(A):
    n = T.const("n")
    A: T.Tensor((n,), T.int32)
    B = T.empty((n, 10), T.int32)
    with T.Kernel(T.ceildiv(n, 96), threads=96) as block:
        tx = T.get_thread_binding()
        at = block * 96 + tx
        a = A[at]
        B[at, 0] = T.cast(T.ballot(a > 0), T.int32)
        B[at, 1] = T.any_sync(a == 3)
        B[at, 2] = T.all_sync(a < 3)
        B[at, 3] = T.cast(T.match_any_sync(a), T.int32)
        B[at, 4] = T.cast(T.match_all_sync(tx // 32), T.int32)
        B[at, 5] = T.syncthreads_count(a > 1)
        B[at, 6] = T.syncthreads_and(a < 4) * 2 + T.syncthreads_or(a == 3)
        B[at, 7] = T.warp_reduce_max(a) * 100 + T.warp_reduce_min(a)
        if tx % 3 != 1:
            B[at, 8] = T.cast(T.activemask(), T.int32)
            B[at, 9] = T.shfl_down(a, 3)
        else:
            B[at, 8] = T.shfl_sync(a, 4, width=8)
            B[at, 9] = T.warp_reduce_sum(a)
    return B


# Softmax of rows, each by 24 threads along x, three warps a block.
#: entry=softmax rows=9 n=50
@tilelang.jit
def softmax(A):
    rows, n = T.const("rows, n")
    A: T.Tensor((rows, n), T.float32)
    B = T.empty((rows, n), T.float32)
    with T.Kernel(T.ceildiv(rows, 4), threads=(24, 4)) as block:
        tx = T.get_thread_binding(0)
        row = block * 4 + T.get_thread_binding(1)
        most = T.alloc_local((1,), T.float32)
        sum = T.alloc_local((1,), T.float32)
        all = T.alloc_local((2,), T.float32)
        most[0] = -T.infinity(T.float32)
        for k in T.serial(T.ceildiv(n, 24)):
            if k * 24 + tx < n:
                most[0] = T.max(most[0], A[row, k * 24 + tx])
        with T.attr(
            T.comm_reducer(lambda x, y: T.max(x, y), [T.min_value(T.float32)]),
            "reduce_scope",
            T.reinterpret(T.uint64(0), dtype="handle"),
        ):
            T.evaluate(T.tvm_thread_allreduce(T.uint32(1), most[0], True, all[0], tx, dtype="handle"))
        sum[0] = 0
        for k in T.serial(T.ceildiv(n, 24)):
            if k * 24 + tx < n:
                sum[0] += T.exp(A[row, k * 24 + tx] - all[0])
        with T.attr(
            T.comm_reducer(lambda x, y: x + y, [T.cast(0, T.float32)]),
            "reduce_scope",
            T.reinterpret(T.uint64(0), dtype="handle"),
        ):
            T.evaluate(T.tvm_thread_allreduce(T.uint32(1), sum[0], True, all[1], tx, dtype="handle"))
        for k in T.serial(T.ceildiv(n, 24)):
            B[row, k * 24 + tx] = T.exp(A[row, k * 24 + tx] - all[0]) / all[1]
    return B


# The sum over 16-bit numbers of a block of 64 by 4 threads, along both of its axes.
#: entry=total n=512
@tilelang.jit
def total(A):
    n = T.const("n")
    A: T.Tensor((n,), T.float16)
    B = T.empty((n // 256,), T.float32)
    with T.Kernel(n // 256, threads=(64, 4)) as block:
        tx, ty, _ = T.get_thread_bindings()
        mine = T.alloc_local((1,), T.float16)
        all = T.alloc_local((1,), T.float16)
        mine[0] = A[block * 256 + ty * 64 + tx]
        with T.attr(
            T.comm_reducer(lambda x, y: x + y, [T.cast(0, T.float16)]),
            "reduce_scope",
            T.reinterpret(T.uint64(0), dtype="handle"),
        ):
            T.evaluate(
                T.tvm_thread_allreduce(T.uint32(1), mine[0], True, all[0], tx, ty, dtype="handle")
            )
        B[block] = all[0]
    return B


# Sums of 256 numbers a block, by halves that fold onto each other in shared memory.
#: entry=tree n=1000
@tilelang.jit
def tree(A):
    n = T.const("n")
    A: T.Tensor((n,), T.float32)
    B = T.empty((T.ceildiv(n, 256),), T.float32)
    with T.Kernel(T.ceildiv(n, 256), threads=256) as block:
        tx = T.get_thread_binding()
        held = T.alloc_shared((256,), T.float32)
        held[tx] = A[block * 256 + tx]
        T.sync_threads()
        for i in T.serial(8):
            if tx < 128 >> i:
                held[tx] += held[tx + (128 >> i)]
            T.sync_threads()
        if tx == 0:
            B[block] = held[0]
    return B


# Places outside of a window are set to a number, in place.
#: entry=mask rows=5 n=700
@tilelang.jit
def mask(A, First, Last, threads=64):
    rows, n = T.const("rows, n")
    A: T.Tensor((rows, n), T.float32)
    First: T.Tensor((rows,), T.int32)
    Last: T.Tensor((rows,), T.int32)
    with T.Kernel(rows, threads=threads) as row:
        tx = T.thread_binding(0, threads, thread="threadIdx.x")
        first = First[row]
        last = Last[row]
        for i in T.Pipelined(T.ceildiv(n, 4 * threads)):
            for k in T.serial(4):
                at = i * 4 * threads + k * threads + tx
                if at == first or at == last:
                    A[row, at] = 100
                if at < first or at > last:
                    A[row, at] = -100


# Tiles of the block between what its threads do: the largest of each row of a product, and where.
#: entry=largest m=64 n=64
@tilelang.jit
def largest(A, B):
    m, n = T.const("m, n")
    A: T.Tensor((m, 64), T.float16)
    B: T.Tensor((n, 64), T.float16)
    C = T.empty((m,), T.float32)
    Where = T.empty((m,), T.int32)
    with T.Kernel(T.ceildiv(m, 64), threads=128) as block:
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        rows = T.alloc_shared((64, 64), T.float32)
        T.copy(A[block * 64, 0], a)
        T.copy(B[0, 0], b)
        T.gemm(a, b, c, transpose_B=True, clear_accum=True)
        T.copy(c, rows)
        for i in T.thread_binding(128, thread="threadIdx.x"):
            if i < 64:
                best = T.alloc_var(T.float32, init=rows[i, 0])
                where = T.alloc_var(T.int32, init=0)
                j = T.alloc_var(T.int32, init=1)
                while j < n:
                    if rows[i, j] > best:
                        best = rows[i, j]
                        where = j
                    j = j + 1
                C[block * 64 + i] = best
                Where[block * 64 + i] = where
    return C, Where


# The first two warps sum a tile up by a reduction, the last copies it.
#: entry=parts n=4
@tilelang.jit
def parts(A):
    n = T.const("n")
    A: T.Tensor((n, 32, 32), T.float32)
    B = T.empty((n, 32, 32), T.float32)
    Sums = T.empty((n, 32), T.float32)
    with T.Kernel(n, threads=96) as block:
        tx = T.get_thread_binding()
        tile = T.alloc_shared((32, 32), T.float32)
        T.copy(A[block, 0, 0], tile)
        if tx < 64:
            held = T.alloc_fragment((32, 32), T.float32)
            sums = T.alloc_fragment((32,), T.float32)
            T.copy(tile, held)
            T.reduce_sum(held, sums, dim=1)
            T.copy(sums, Sums[block, 0])
        else:
            T.copy(tile, B[block, 0, 0])
    return B, Sums


# Products of rows with a vector, from tiles that are fetched ahead: a thread has a row.
#: entry=fetched m=256 k=192
@tilelang.jit
def fetched(A, x, stages=2):
    m, k = T.const("m, k")
    A: T.Tensor((m, k), T.float32)
    x: T.Tensor((k,), T.float32)
    y = T.empty((m,), T.float32)
    with T.Kernel(T.ceildiv(m, 128), threads=128) as block:
        tx = T.get_thread_binding()
        tile = T.alloc_shared((128, 32), T.float32)
        part = T.alloc_shared((32,), T.float32)
        sum = T.alloc_local((1,), T.float32)
        T.clear(sum)
        for i in T.Pipelined(T.ceildiv(k, 32), num_stages=stages):
            T.copy(A[block * 128, i * 32], tile)
            T.copy(x[i * 32], part)
            for j in T.serial(32):
                sum[0] += tile[tx, j] * part[j]
        y[block * 128 + tx] = sum[0]
    return y


# Two warpgroups, each with work for its threads: the second adds what the first left to what it
# hears from neighbours.
#: entry=groups n=512
@tilelang.jit
def groups(A):
    n = T.const("n")
    A: T.Tensor((n,), T.float32)
    B = T.empty((n,), T.float32)
    with T.Kernel(n // 128, threads=256) as block:
        tx = T.get_thread_binding()
        left = T.alloc_shared((128,), T.float32)
        with T.ws(0):
            left[127 - tx] = A[block * 128 + tx] * 2
        with T.ws(1):
            at = tx - 128
            mine = A[block * 128 + at]
            other = T.shfl_xor(mine, 1)
            B[block * 128 + at] = left[at] + other
    return B


# A loop of the block in which threads, tile operations and exchanges take turns.
#: entry=rounds n=3
@tilelang.jit
def rounds(A):
    n = T.const("n")
    A: T.Tensor((n, 128), T.float32)
    B = T.empty((n, 128), T.float32)
    with T.Kernel(n, threads=128) as row:
        tx = T.get_thread_binding()
        shared = T.alloc_shared((128,), T.float32)
        held = T.alloc_fragment((128,), T.float32)
        most = T.alloc_fragment((1,), T.float32)
        mine = T.alloc_local((1,), T.float32)
        mine[0] = A[row, tx]
        for step in T.serial(4):
            shared[127 - tx] = mine[0] + step
            for i in T.Parallel(128):
                held[i] = shared[i] * 2
            T.reduce_max(held, most)
            if step % 2 == 0:
                mine[0] = mine[0] + most[0]
            else:
                below = T.shfl_down(mine[0], step)
                mine[0] = mine[0] + below - shared[tx]
        B[row, tx] = mine[0]
    return B


# Two launches: one sets counters, in the other threads count in shared memory, then for all blocks.
#: entry=histogram n=300
@tilelang.jit
def histogram(A):
    n = T.const("n")
    A: T.Tensor((n,), T.int32)
    B = T.empty((8,), T.int32)
    with T.Kernel(1, threads=8):
        B[T.get_thread_binding()] = 0
    with T.Kernel(T.ceildiv(n, 128), threads=(32, 4)) as block:
        tx, ty, _ = T.get_thread_bindings()
        counts = T.alloc_shared((8,), T.int32)
        if tx < 8 and ty == 3:
            counts[tx] = 0
        at = block * 128 + ty * 32 + tx
        if at < n:
            T.atomic_add(counts[A[at] & 7], 1)
        if ty == 0 and tx >= 24:
            T.atomic_add(B[tx - 24], counts[tx - 24])
    return B


# Updates that tell each thread what was there before: numbers of those who found something, the
# sums of their numbers, and of the numbers of all.
#: entry=tickets n=200
@tilelang.jit
def tickets(A):
    n = T.const("n")
    A: T.Tensor((n,), T.int32)
    B = T.empty((3,), T.int32)
    with T.Kernel(1, threads=3):
        B[T.get_thread_binding()] = 0
    with T.Kernel(T.ceildiv(n, 128), threads=128) as block:
        tx = T.get_thread_binding()
        counts = T.alloc_shared((2,), T.int32)
        if tx < 2:
            counts[tx] = 0
        turn = T.atomic_add(counts[1], 1, return_prev=True)
        T.atomic_add(B[2], turn)
        at = block * 128 + tx
        if at < n:
            if A[at] > 0:
                ticket = T.atomic_add(counts[0], 1, return_prev=True)
                T.atomic_add(B[1], ticket)
        if tx == 0:
            T.atomic_add(B[0], counts[0])
    return B
