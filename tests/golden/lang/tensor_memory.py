"""A product in roles, into two tiles of tensor memory in turn: roles walk the tiles of C by themselves. With a row
of tiles per turn, or with as few as there are tiles of sums; with weights that pass from one role to another."""
#: M=512
#: M=256
#: M=512 scaled=True
import tilelang
import tilelang.language as T


@tilelang.jit
def tensor_memory(M, scaled=False):
    @T.prim_func
    def main(A: T.Tensor((M, 256), "bfloat16"), B: T.Tensor((128, 256), "bfloat16"),
             C: T.Tensor((M, 128), "float32")):
        with T.Kernel(2, threads=256) as bx:
            a = T.alloc_shared((2, 64, 64), "bfloat16")
            b = T.alloc_shared((2, 128, 64), "bfloat16")
            sums = T.alloc_tmem([2, 64, 128], "float32")
            weights = T.alloc_tmem([64, 64], "bfloat16")
            full, empty = T.alloc_barrier([32] * 2), T.alloc_barrier([1] * 2)
            ready, free = T.alloc_barrier([1] * 2), T.alloc_barrier([128] * 2)
            weighed, used = T.alloc_barrier(64), T.alloc_barrier(1)
            tx = T.get_thread_binding()
            row = T.alloc_var("int32")
            turn = T.alloc_var("int32", init=0)
            row = bx * 64
            if tx < 32:
                while row < M:
                    for k in T.serial(4):
                        n = turn * 4 + k
                        T.mbarrier_wait_parity(empty[n % 2], (n // 2 & 1) ^ 1)
                        T.tma_copy(A[row, k * 64], a[n % 2, :, :], barrier=full[n % 2])
                        T.tma_copy(B[0, k * 64], b[n % 2, :, :], barrier=full[n % 2])
                        T.mbarrier_arrive(full[n % 2])
                    turn = turn + 1
                    row = row + 128
            elif tx < 64:
                while row < M:
                    T.mbarrier_wait_parity(free[turn % 2], (turn // 2 & 1) ^ 1)
                    for k in T.serial(4):
                        n = turn * 4 + k
                        T.mbarrier_wait_parity(full[n % 2], n // 2 & 1)
                        if scaled:
                            T.mbarrier_wait_parity(weighed, n % 2)
                            T.tcgen05_gemm(weights, b[n % 2, :, :], sums[turn % 2, :, :], transpose_B=True,
                                           mbar=used, clear_accum=k == 0)
                            T.tcgen05_mma_arrive(empty[n % 2])
                        else:
                            T.tcgen05_gemm(a[n % 2, :, :], b[n % 2, :, :], sums[turn % 2, :, :],
                                           transpose_B=True, mbar=empty[n % 2], clear_accum=k == 0)
                    T.tcgen05_mma_arrive(ready[turn % 2])
                    turn = turn + 1
                    row = row + 128
            elif tx < 128:
                if scaled:
                    w = T.alloc_fragment((64, 64), "bfloat16")
                    while row < M:
                        for k in T.serial(4):
                            n = turn * 4 + k
                            T.mbarrier_wait_parity(full[n % 2], n // 2 & 1)
                            T.mbarrier_wait_parity(used, (n & 1) ^ 1)
                            for i, j in T.Parallel(64, 64):
                                w[i, j] = a[n % 2, i, j] * 2
                            T.copy(w, weights)
                            T.mbarrier_arrive(weighed)
                        turn = turn + 1
                        row = row + 128
            else:
                c = T.alloc_fragment((64, 128), "float32")
                while row < M:
                    T.mbarrier_wait_parity(ready[turn % 2], turn // 2 & 1)
                    T.copy(sums[turn % 2, :, :], c)
                    T.copy(c, C[row, 0])
                    T.mbarrier_arrive(free[turn % 2])
                    turn = turn + 1
                    row = row + 128

    return main
