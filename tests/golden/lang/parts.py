"""Three warpgroups in loops of their own: one fetches into a ring of two, with a step before its loop, two take turns."""
#: N=6
#: N=6 grouped=True
import tilelang
import tilelang.language as T


@tilelang.jit
def parts(N, grouped=False):
    @T.prim_func
    def main(A: T.Tensor((N, 64), "int32"), C: T.Tensor((2, 64), "int32")):
        with T.Kernel(1, threads=384):
            ring = T.alloc_shared((2, 64), "int32")
            even = T.alloc_fragment((64,), "int32")
            odd = T.alloc_fragment((64,), "int32")
            full = T.alloc_barrier([128, 128])
            empty = T.alloc_barrier([256, 256])
            handed = T.alloc_barrier(128)
            taken = T.alloc_barrier(128)
            passed = T.alloc_shared((64,), "int32")
            tx = T.get_thread_binding()
            if tx < 128:
                T.clear(even)
                for k in T.serial(N):
                    T.barrier_wait(full[k % 2], (k // 2) % 2)
                    for i in T.Parallel(64):
                        even[i] = even[i] * 2 + ring[k % 2, i]
                    if grouped:
                        if k > 0:
                            T.barrier_wait(taken, (k - 1) % 2)
                        T.copy(even, passed)
                        T.barrier_arrive(handed)
                    T.barrier_arrive(empty[k % 2])
                T.copy(even, C[0, :])
            elif tx < 256:
                T.clear(odd)
                for k in T.serial(N):
                    T.barrier_wait(full[k % 2], (k // 2) % 2)
                    if grouped:
                        T.barrier_wait(handed, k % 2)
                    for i in T.Parallel(64):
                        if grouped:
                            odd[i] = odd[i] * 3 + passed[i]
                        else:
                            odd[i] = odd[i] * 3 + ring[k % 2, i]
                    if grouped:
                        T.barrier_arrive(taken)
                    T.barrier_arrive(empty[k % 2])
                T.copy(odd, C[1, :])
            else:
                T.copy(A[0, :], ring[0, :])
                T.cp_async_barrier_noinc(full[0])
                for k in T.serial(1, N):
                    T.barrier_wait(empty[k % 2], (k // 2) % 2 ^ 1)
                    if tx < 272:
                        T.ptx_cp_async(T.access_ptr(ring[k % 2, 4 * (tx - 256)], "w", 4),
                                       T.access_ptr(A[k, 4 * (tx - 256)], "r", 4), 4)
                    T.cp_async_barrier_noinc(full[k % 2])

    return main
