"""Two groups of threads, each with work of its own, become one block; so do single threads."""
#: n=64
import tilelang
import tilelang.language as T


@tilelang.jit
def kernel(n: int):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=256):
            with T.ws(0):
                for i in T.Parallel(n):
                    y[i] = x[i] * 2.0
            with T.ws(1):
                x[0] = 1.0
            if T.get_thread_binding() < n:
                held = T.alloc_local((1,), "float32")
                held[0] = x[T.get_thread_binding()]
                y[T.get_thread_binding()] = T.shfl_xor(held[0], 1) + T.any_sync(held[0] > 0.0)

    return main
