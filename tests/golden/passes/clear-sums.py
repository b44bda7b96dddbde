#: gpu=sm_90a
"""Sums that are cleared before their loop: by wgmma; where the loop may not run, or leaves the first
product out; by mma.sync. Sums of a step that the loop clears for the next one."""
import tilelang.language as T


@T.prim_func
def clearing(A: T.Tensor((128, 256), "float16"), B: T.Tensor((128, 256), "float16"),
             C: T.Tensor((128, 128), "float32"), D: T.Tensor((128, 128), "float32"),
             E: T.Tensor((32, 32), "float32"), F: T.Tensor((2, 128, 128), "float32"),
             G: T.Tensor((128, 128), "float32"), H: T.Tensor((128, 128), "float32"), n: T.int32):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((128, 64), "float16")
        b = T.alloc_shared((128, 64), "float16")
        sums = T.alloc_fragment((128, 128), "float32")
        some = T.alloc_fragment((128, 128), "float32")
        last = T.alloc_fragment((128, 128), "float32")
        left = T.alloc_fragment((128, 128), "float32")
        few = T.alloc_fragment((32, 32), "float32")
        one = T.alloc_fragment((128, 128), "float32")
        all = T.alloc_fragment((128, 128), "float32")
        T.clear(sums)
        for step in T.Pipelined(4, num_stages=2):
            T.copy(A[0, step * 64], a)
            T.copy(B[0, step * 64], b)
            T.gemm(a, b, sums, transpose_B=True)
        T.clear(some)
        for step in T.Pipelined(n, num_stages=2):
            T.copy(A[0, step * 64], a)
            T.copy(B[0, step * 64], b)
            T.gemm(a, b, some, transpose_B=True)
        T.clear(few)
        for step in T.serial(4):
            T.gemm(a[:32, step * 16:step * 16 + 16], b[:32, step * 16:step * 16 + 16], few,
                   transpose_B=True)
        for turn in T.serial(2):
            T.clear(last)
            for step in T.serial(4):
                if step == n:
                    continue
                T.copy(A[0, step * 64], a)
                T.gemm(a, b, last, transpose_B=True)
            T.copy(last, F[turn, :, :])
        for turn in T.serial(2):
            T.clear(left)
            if turn == n:
                break
            for step in T.serial(4):
                T.copy(A[0, step * 64], a)
                T.gemm(a, b, left, transpose_B=True)
        T.clear(one)
        T.clear(all)
        for step in T.Pipelined(n, num_stages=2):
            T.copy(A[0, step * 64], a)
            T.copy(B[0, step * 64], b)
            T.gemm(a, b, one, transpose_B=True)
            for i, j in T.Parallel(128, 128):
                all[i, j] += one[i, j]
            T.clear(one)
        T.copy(all, H)
        T.copy(sums, C)
        T.copy(some, D)
        T.copy(few, E)
        T.copy(left, G)
