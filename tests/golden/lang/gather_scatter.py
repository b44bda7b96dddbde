#: entry=gather
#: entry=scatter_add
import tilelang
import tilelang.language as T

TOKENS, ROWS, WIDTH = 512, 1000, 256


@tilelang.jit
def gather(table, index, block=32):
    table: T.Tensor((ROWS, WIDTH), T.float16)
    index: T.Tensor((TOKENS,), T.int64)
    out = T.empty(TOKENS, WIDTH, dtype=T.float16)
    with T.Kernel(TOKENS // block, threads=128) as b:
        picked = T.alloc_local((block,), T.int32)
        for i in T.serial(block):
            picked[i] = index[b * block + i]
        for i, j in T.Parallel(block, WIDTH):
            row = picked[i]
            inside = row >= 0 and row < ROWS
            out[b * block + i, j] = table[row, j] if inside else T.float16(0)
    return out


@tilelang.jit
def scatter_add(values, index, out):
    values: T.Tensor((TOKENS, WIDTH), T.float32)
    index: T.Tensor((TOKENS,), T.int32)
    out: T.Tensor((ROWS, WIDTH), T.float32)
    with T.Kernel(TOKENS, threads=(32, 4)) as t:
        row = index[t]
        if 0 <= row < ROWS:
            for j in T.Parallel(WIDTH):
                T.atomic_add(out[row, j], values[t, j], memory_order="relaxed")
