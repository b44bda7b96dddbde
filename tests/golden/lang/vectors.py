"""Values of several lanes: programs have one scalar a lane."""
#: entry=lanes
import tilelang.language as T


@T.prim_func
def lanes(A: T.Tensor((64,), T.float16), B: T.Tensor((64,), T.float16), W: T.Tensor((32,), T.uint32)):
    with T.Kernel(1, threads=8):
        tx = T.get_thread_binding(0)
        four = T.Ramp(tx * 4, 1, 4)
        v = A[four]
        B[four] = T.Shuffle([v], [1, 0, 3, 2]) * T.Broadcast(T.float16(2), 4)
        B[tx * 4:tx * 4 + 2] = T.add2(A[tx * 4:tx * 4 + 2], B[T.Ramp(tx * 4, 1, 2)])
        T.stg64(W[tx * 2], T.ldg64(A[tx * 4]))
