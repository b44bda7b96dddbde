#: entry=layernorm rows=512 width=768
#: entry=layernorm_dynamic width=1024
import tilelang
import tilelang.language as T

EPS = 1e-5


def statistics(x, mean, square, width):
    return T.rsqrt(square / width - mean * mean + EPS)


@tilelang.jit(out_idx=-1)
def layernorm(rows, width, dtype=T.bfloat16, block=4):
    @T.prim_func
    def main(x: T.Tensor((rows, width), dtype), gamma: T.Tensor((width,), dtype),
             beta: T.Tensor((width,), dtype), y: T.Tensor((rows, width), dtype)):
        with T.Kernel(T.ceildiv(rows, block), threads=256) as b:
            tile = T.alloc_fragment((block, width), T.float32)
            squares = T.alloc_fragment((block, width), T.float32)
            mean = T.alloc_fragment((block,), T.float32)
            inverse = T.alloc_fragment((block,), T.float32)
            T.copy(x[b * block, 0], tile)
            for i, j in T.Parallel(block, width):
                squares[i, j] = tile[i, j] * tile[i, j]
            T.reduce_sum(tile, mean, dim=1)
            T.reduce_sum(squares, inverse, dim=-1)
            for i in T.Parallel(block):
                mean[i] /= width
                inverse[i] = statistics(tile, mean[i], inverse[i], width)
            for i, j in T.Parallel(block, width):
                tile[i, j] = (tile[i, j] - mean[i]) * inverse[i] * gamma[j].astype(T.float32) + beta[j]
            T.copy(tile, y[b * block, 0])

    return main


@tilelang.jit
def layernorm_dynamic(x, width, rows=None, block=2):
    M = T.dynamic("M")
    x: T.Tensor((M, width), "float32")
    y = T.empty((M, width), "float32")
    with T.Kernel(T.ceildiv(M, block), threads=128) as b:
        tile = T.alloc_fragment((block, width), "float32")
        top = T.alloc_fragment((block,), "float32")
        T.copy(x[b * block:(b + 1) * block, :], tile)
        T.reduce_absmax(tile, top)
        for i, j in T.Parallel(block, width):
            if b * block + i < M:
                tile[i, j] = tile[i, j] / T.max(top[i], EPS)
        T.copy(tile, y[b * block:(b + 1) * block, :])
    return y
