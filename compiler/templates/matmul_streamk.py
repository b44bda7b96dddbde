"""C[M, N] = act(scale * A[M, K] B[K, N] + bias), by steps that blocks share: stream-K.

B is [N, K] with trans_B, A is [K, M] with trans_A."""
import tilelang
import tilelang.language as T


# Each of a fixed number of blocks, about one an SM, does whole tiles one after the other. The last
# ones, fewer than two for each block, are dealt out by steps of K, as many to each (Osama et al.,
# arXiv 2301.03598): a block's share may begin and end inside of a tile. Whoever does not do all of
# a tile leaves its sums in a workspace, in one of two places of its own (of a tile that others
# began, of one that it begins), and a second launch adds up the parts of these tiles in the order
# of K: the same inputs give the same bytes, whatever runs first.
#
# Why not atomics: the order of additions would be that of the run, and so the last bits. Why not
# flags on which a block that has begun a tile waits for those that go on with it: blocks would no
# longer be independent, and a machine that runs them one after another would wait forever. The
# second launch starts early (it is there when the first ends) and reads what is still in the cache.
#
# few: of few rows of A; rows of B fill the tensor cores' tiles, A's the columns.
@tilelang.jit(out_idx=[-1])
def matmul_streamk(M, N, K, dtype="bfloat16", accum_dtype="float32", out_dtype="bfloat16",
                   trans_A=False, trans_B=True, few=False, blocks=132,
                   block_M=128, block_N=128, block_K=64, num_stages=3, threads=256, panel=0,
                   with_bias=False, activation="none", scale=1.0):
    assert activation in ("none", "relu", "gelu", "silu"), f"no activation is called {activation}"
    exact = "float64" if accum_dtype == "float64" else "float32"
    plain = not with_bias and activation == "none" and scale == 1.0
    A_shape = (K, M) if trans_A else (M, K)
    B_shape = (N, K) if trans_B else (K, N)
    A_tile = (block_K, block_M) if trans_A else (block_M, block_K)
    B_tile = (block_N, block_K) if trans_B else (block_K, block_N)
    height, width = (block_N, block_M) if few else (block_M, block_N)  # of a tile of sums
    wide, high = (N + block_N - 1) // block_N, (M + block_M - 1) // block_M  # in tiles
    steps = (K + block_K - 1) // block_K  # of a tile
    assert 0 < blocks <= 4096, "blocks: between 1 and 4096"
    workers = min(blocks, wide * high * steps)
    rounds = max(wide * high // workers - 1, 0)  # of whole tiles
    shared_steps = (wide * high - rounds * workers) * steps  # of the tiles that are left
    share, more = shared_steps // workers, shared_steps % workers  # the first blocks do one more
    keep = "evict_first" if isinstance(M, int) and M <= 128 else "evict_normal"  # B, where it is read about once
    rows = max(1024 // width, 1)  # of a tile, that a block of the second launch adds up

    @T.macro
    def first_step(block):
        return block * share + T.min(block, more)

    @T.macro
    def who_does(step):
        return T.max(step // (share + 1), (step - more) // share)

    @T.macro
    def place_of(tile):
        if panel > 0:
            above = tile // (wide * panel) * panel
            inside = tile % (wide * panel)
            count = T.min(high - above, panel)
            return inside // count, above + inside % count
        else:
            return tile % wide, tile // wide

    @T.macro
    def finished(total, bias, column):
        x = total
        if not plain:
            x = T.cast(total, exact) * scale
        if with_bias:
            x = x + bias[column]
        if activation == "relu":
            x = T.max(x, 0.0)
        if activation == "silu":
            x = x * T.sigmoid(x)
        if activation == "gelu":  # by tanh
            x = x * T.sigmoid(x * (1.5957691216 + 0.0713548163 * x * x))
        return x

    @T.macro
    def multiply(A, B, bias, C, parts):
        with T.Kernel(workers, threads=threads) as block:
            A_shared = T.alloc_shared(A_tile, dtype)
            B_shared = T.alloc_shared(B_tile, dtype)
            sums = T.alloc_fragment((height, width), accum_dtype)
            begin = first_step(block)
            end = first_step(block + 1)
            shared_tile = begin // steps
            for turn in T.serial(rounds + (end + steps - 1) // steps - shared_tile):
                this = shared_tile + turn - rounds  # of the shared tiles
                tile = T.if_then_else(turn < rounds, turn * workers + block,
                                      rounds * workers + this)
                first = T.if_then_else(turn < rounds, 0, T.max(begin - this * steps, 0))
                last = T.if_then_else(turn < rounds, steps, T.min(end - this * steps, steps))
                bx, by = place_of(tile)
                T.clear(sums)
                for k in T.Pipelined(first, last, num_stages=num_stages):
                    if trans_A:
                        T.copy(A[k * block_K, by * block_M], A_shared)
                    else:
                        T.copy(A[by * block_M, k * block_K], A_shared)
                    if trans_B:
                        T.copy(B[bx * block_N, k * block_K], B_shared, eviction_policy=keep)
                    else:
                        T.copy(B[k * block_K, bx * block_N], B_shared, eviction_policy=keep)
                    if few:
                        T.gemm(B_shared, A_shared, sums, transpose_A=not trans_B,
                               transpose_B=not trans_A)
                    else:
                        T.gemm(A_shared, B_shared, sums, transpose_A=trans_A, transpose_B=trans_B)
                if last - first == steps:
                    if few:
                        for i, j in T.Parallel(block_N, block_M):
                            if bx * block_N + i < N and by * block_M + j < M:
                                C[by * block_M + j, bx * block_N + i] = finished(
                                    sums[i, j], bias, bx * block_N + i)
                    elif plain:
                        T.copy(sums, C[by * block_M, bx * block_N])
                    else:
                        results = (sums if accum_dtype == exact
                                   else T.alloc_fragment((height, width), exact))
                        for i, j in T.Parallel(height, width):
                            results[i, j] = finished(sums[i, j], bias, bx * block_N + j)
                        T.copy(results, C[by * block_M, bx * block_N])
                else:
                    T.copy(sums, parts[block, T.if_then_else(first > 0, 0, 1), :, :])

    @T.macro
    def add(parts, bias, C):
        with T.Kernel(T.ceildiv(height, rows), workers, threads=128) as (strip, starter):
            total = T.alloc_fragment((rows, width), accum_dtype)
            more_parts = T.alloc_fragment((4, rows, width), accum_dtype)
            begin = first_step(starter)
            end = first_step(starter + 1)
            this = end // steps  # the tile in which the starter's share ends
            if begin <= this * steps and this * steps < end:  # it began that one, others went on
                bx, by = place_of(rounds * workers + this)
                last = T.min(who_does(this * steps + steps - 1), workers - 1)
                for i, j in T.Parallel(rows, width):
                    total[i, j] = parts[starter, 1, strip * rows + i, j]
                for group in T.serial((last - starter + 3) // 4):
                    other = starter + 1 + group * 4
                    for n in T.unroll(4):  # loads that are on their way at the same time
                        for i, j in T.Parallel(rows, width):
                            more_parts[n, i, j] = parts[T.min(other + n, last), 0,
                                                        strip * rows + i, j]
                    for n in T.unroll(4):
                        for i, j in T.Parallel(rows, width):
                            total[i, j] += T.if_then_else(other + n <= last, more_parts[n, i, j], 0)
                for i, j in T.Parallel(rows, width):
                    y = by * block_M + (j if few else strip * rows + i)
                    x = bx * block_N + (strip * rows + i if few else j)
                    if strip * rows + i < height and y < M and x < N:
                        C[y, x] = finished(total[i, j], bias, x)

    if with_bias:
        @T.prim_func
        def main(A: T.Tensor(A_shape, dtype), B: T.Tensor(B_shape, dtype),
                 bias: T.Tensor((N,), "float32"), C: T.Tensor((M, N), out_dtype)):
            parts = T.alloc_global((workers, 2, height, width), accum_dtype)
            multiply(A, B, bias, C, parts)
            add(parts, bias, C)
    else:
        @T.prim_func
        def main(A: T.Tensor(A_shape, dtype), B: T.Tensor(B_shape, dtype),
                 C: T.Tensor((M, N), out_dtype)):
            parts = T.alloc_global((workers, 2, height, width), accum_dtype)
            multiply(A, B, None, C, parts)
            add(parts, None, C)

    return main
