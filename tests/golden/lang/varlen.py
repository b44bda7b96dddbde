#: max_len=256 dim=64
"""Rows of several lengths behind each other; where they start is known at run time only."""
import tilelang
import tilelang.language as T


@tilelang.jit
def varlen_scale(x, starts, max_len, dim, block=64):
    total = T.dynamic("total")
    batch = T.symbolic("batch")
    x: T.Tensor([total, dim], T.float16)
    starts: T.Tensor([batch + 1], T.int32)
    y = T.empty([total, dim], T.float16)
    with T.Kernel(T.ceildiv(max_len, block), batch, threads=128) as (bx, b):
        begin = starts[b]
        length = starts[b + 1] - begin
        tile = T.alloc_shared([block, dim], T.float16)
        if bx * block < length:
            T.copy(x[begin + bx * block:begin + bx * block + block, :], tile)
            for i, d in T.Parallel(block, dim):
                if bx * block + i < length:
                    y[begin + bx * block + i, d] = tile[i, d] * 2.0
    return y
