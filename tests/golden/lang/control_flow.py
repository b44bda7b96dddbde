#: entry=branches causal=True mode="relu"
#: entry=branches causal=False mode="none"
#: entry=loops
"""Decisions at compile time and at run time, every kind of loop."""
import tilelang
import tilelang.language as T


@tilelang.jit
def branches(x, y, causal, mode, window=None):
    x: T.Tensor((64, 64), T.float32)
    y: T.Tensor((64, 64), T.float32)
    with T.Kernel(8, 8, threads=64) as (bx, by):
        if causal and window is None:
            limit = T.min(64, (bx + 1) * 8)
        elif not causal:
            limit = 64
        else:
            limit = window
        for i, j in T.Parallel(8, 8):
            value = x[bx * 8 + i, by * 8 + j]
            if mode == "relu":
                y[bx * 8 + i, by * 8 + j] = T.max(value, 0)
            elif mode in ("gelu", "silu"):
                y[bx * 8 + i, by * 8 + j] = value * T.sigmoid(value)
            else:
                y[bx * 8 + i, by * 8 + j] = value if by * 8 + j < limit else 0.0
        if bx == 0 or by == 0 and bx != 7:
            y[bx, by] = 1
        elif bx > by:
            y[bx, by] = 2
        else:
            y[bx, by] = 3 if not bx == by else -3


@tilelang.jit
def loops(x, n: T.int32):
    x: T.Tensor((128,), T.int32)
    with T.Kernel(1, threads=128) as _:
        cursor = T.alloc_var(T.int32)
        cursor = 0
        while cursor < n:
            if x[cursor] == 0:
                break
            cursor += 1
            if cursor % 2 == 0:
                continue
            x[cursor] ^= 1
        for i in range(2, 10, 3):
            x[i] = i
        for i in T.serial(10, 0, -2):
            x[i] = i << 1
        for i in range(n):
            x[i] = ~x[i] & 0xFF
        for i, j in T.grid(2, 3):
            x[i * 3 + j] = -1
        for i in T.vectorized(4):
            x[i] |= 2
        for i in T.unroll(2, 4):
            x[i] = abs(x[i]) ** 2
        for i in T.serial(0):
            x[i] = undefined_name_that_is_never_read
